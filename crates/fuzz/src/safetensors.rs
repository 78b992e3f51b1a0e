//! Fuzzes files of safetensors.

use std::fmt::Write;

use arbitrary::{Result, Unstructured};
use unmask_tensors::Role;

use crate::{names, walk};

/// Types of numbers, and the bits of one.
const TYPES: [(&str, usize); 10] = [
    ("F32", 32),
    ("F64", 64),
    ("F16", 16),
    ("BF16", 16),
    ("I64", 64),
    ("U8", 8),
    ("BOOL", 8),
    ("F8_E4M3", 8),
    ("F4", 4),
    ("C64", 64),
];
/// What the values' bytes are: small numbers, numbers near the largest, and none.
const FILLS: [u8; 4] = [0x00, 0x3c, 0x7e, 0xff];
/// Sides that a byte cannot say, which the last bytes stand for.
const LONG: [usize; 6] = [224, 1000, 1 << 16, 1 << 32, 1 << 63, usize::MAX];
/// More values would make an input slower but not different.
const MOST_BYTES: usize = 1 << 12;

/// One tensor of a file.
#[derive(Debug)]
struct Tensor {
    name: String,
    kind: u8,
    shape: Vec<usize>,
}

impl Tensor {
    fn read(bytes: &mut Unstructured<'_>) -> Result<Self> {
        let kind: u8 = bytes.arbitrary()?;
        let name = names::read(bytes)?;
        let rank: u8 = bytes.arbitrary()?;
        let mut shape = Vec::new();
        for _ in 0..rank % 10 {
            shape.push(side(bytes.arbitrary()?));
        }
        Ok(Self { name, kind, shape })
    }

    fn dtype(&self) -> (&'static str, usize) {
        TYPES[usize::from(self.kind) % TYPES.len()]
    }

    fn fill(&self) -> u8 {
        FILLS[usize::from(self.kind) / TYPES.len() % FILLS.len()]
    }

    /// `None` if it is too long.
    fn length(&self) -> Option<usize> {
        let bits = self.shape.iter().try_fold(self.dtype().1, |bits, &side| bits.checked_mul(side))?;
        Some(bits / 8).filter(|&length| length <= MOST_BYTES)
    }
}

fn side(byte: u8) -> usize {
    let first = usize::from(u8::MAX) + 1 - LONG.len();
    let byte = usize::from(byte);
    byte.checked_sub(first).map_or(byte, |long| LONG[long])
}

/// A file of tensors that are described by bytes, of which the values take as much room as the header says.
fn described(bytes: &mut Unstructured<'_>) -> Vec<u8> {
    let (mut header, mut data) = (String::from("{"), Vec::new());
    while !bytes.is_empty() {
        let Ok(tensor) = Tensor::read(bytes) else { break };
        let Some(length) = tensor.length().filter(|length| data.len() + length <= MOST_BYTES) else { continue };
        let (dtype, start, end) = (tensor.dtype().0, data.len(), data.len() + length);
        let comma = if header.len() > 1 { "," } else { "" };
        let Tensor { name, shape, .. } = &tensor;
        write!(header, r#"{comma}{name:?}:{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
            .expect("memory takes it");
        data.resize(end, tensor.fill());
    }
    header.push('}');
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// The first byte says whether the others are a file or describe one.
pub(crate) fn run(data: &[u8]) {
    match data {
        [0, file @ ..] => walk::file(file, Role::Any),
        [_, tensors @ ..] => walk::file(&described(&mut Unstructured::new(tensors)), Role::Any),
        [] => {}
    }
}

/// The tensors of a tiny ViT, ResNet and LeNet.
const VIT: &[(&str, &[u8])] = &[
    ("cls_token", &[1, 1, 2]),
    ("pos_embed", &[1, 5, 2]),
    ("patch_embed.proj.weight", &[2, 3, 1, 1]),
    ("patch_embed.proj.bias", &[2]),
    ("blocks.0.norm1.weight", &[2]),
    ("blocks.0.norm1.bias", &[2]),
    ("blocks.0.attn.qkv.weight", &[6, 2]),
    ("blocks.0.attn.qkv.bias", &[6]),
    ("blocks.0.attn.proj.weight", &[2, 2]),
    ("blocks.0.attn.proj.bias", &[2]),
    ("blocks.0.norm2.weight", &[2]),
    ("blocks.0.norm2.bias", &[2]),
    ("blocks.0.mlp.fc1.weight", &[8, 2]),
    ("blocks.0.mlp.fc1.bias", &[8]),
    ("blocks.0.mlp.fc2.weight", &[2, 8]),
    ("blocks.0.mlp.fc2.bias", &[2]),
    ("norm.weight", &[2]),
    ("norm.bias", &[2]),
    ("head.weight", &[3, 2]),
    ("head.bias", &[3]),
];
const RESNET: &[(&str, &[u8])] = &[
    ("conv1.weight", &[2, 3, 3, 3]),
    ("layer1.0.conv1.weight", &[2, 2, 3, 3]),
    ("layer1.1.conv1.weight", &[2, 2, 3, 3]),
    ("fc.weight", &[3, 2]),
    ("fc.bias", &[3]),
];
const LENET: &[(&str, &[u8])] = &[
    ("conv1.weight", &[1, 3, 5, 5]),
    ("conv1.bias", &[1]),
    ("conv2.weight", &[1, 1, 5, 5]),
    ("conv2.bias", &[1]),
    ("conv3.weight", &[1, 1, 5, 5]),
    ("conv3.bias", &[1]),
    ("fc.weight", &[3, 4]),
    ("fc.bias", &[3]),
];

/// Each network by name and by number, and files as they are.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let tensor = |name: &str, shape: &[u8]| {
        let rank = u8::try_from(shape.len()).expect("few dimensions");
        [&[0], &names::spelt(name)[..], &[rank], shape].concat()
    };
    let by_name = |tensors: &[(&str, &[u8])]| tensors.iter().flat_map(|(name, shape)| tensor(name, shape)).collect();
    let by_number = |tensors: &[(&str, &[u8])]| {
        tensors.iter().enumerate().flat_map(|(number, (_, shape))| tensor(&number.to_string(), shape)).collect()
    };
    let described = [VIT, RESNET, LENET].into_iter().flat_map(|tensors| [by_name(tensors), by_number(tensors)]);
    let described: Vec<Vec<u8>> = described.collect();
    let whole = described.iter().map(|tensors| (0, self::described(&mut Unstructured::new(tensors))));
    let whole: Vec<(u8, Vec<u8>)> = whole.collect();
    let all = described.into_iter().map(|tensors| (1, tensors)).chain(whole);
    all.map(|(first, bytes)| [&[first], &bytes[..]].concat()).collect()
}

#[cfg(test)]
mod tests {
    use std::slice;

    use unmask_inversion::{Asked, DumpedModel, read_gradient};
    use unmask_tensors::TensorFile;

    use super::*;

    /// If the seeds were refused, the fuzzer would start with nothing useful.
    #[test]
    fn seeds_are_networks() {
        let whole: Vec<_> = seeds().into_iter().filter(|seed| seed[0] == 0).collect();
        let told = whole.iter().filter(|seed| {
            let file = TensorFile::bytes("a seed", &seed[1..]);
            file.open().expect("a file");
            let told = DumpedModel::tell(&Asked::default(), slice::from_ref(&file));
            told.is_ok_and(|told| read_gradient(&told.model, &file).is_ok())
        });
        assert_eq!((whole.len(), told.count()), (6, 4), "a ViT and a LeNet are whole");
    }
}
