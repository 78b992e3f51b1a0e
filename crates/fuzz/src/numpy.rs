//! Fuzzes NumPy's arrays, alone and in archives.

use std::io::Cursor;

use arbitrary::Unstructured;
use unmask_tensors::{Role, TensorReader, encode_npy};

use crate::{
    walk,
    zipped::{self, Entry, archive},
};

/// The flag of an entry whose content is a header's text up to a zero byte, and values.
const IS_SPLIT: u8 = 1;
/// The flag of a header whose length takes four bytes.
const IS_LONG: u8 = 2;

/// The first byte says what the others are: an archive, its entries, or single arrays.
pub(crate) fn run(data: &[u8]) {
    match data {
        [0, file @ ..] => walk::file(file, Role::Any),
        [1, entries @ ..] => walk::file(&archive(&arrays(entries, ".npy")), Role::Any),
        [_, entries @ ..] => {
            let arrays = || arrays(entries, "").into_iter().map(|entry| (entry.name, Cursor::new(entry.content)));
            if let Ok(reader) = TensorReader::from_arrays("arrays", arrays()) {
                let again = TensorReader::from_arrays("arrays", arrays()).expect("they were taken before");
                assert_eq!(walk::contents(reader), walk::contents(again), "the same bytes were read in two ways");
            }
        }
        [] => {}
    }
}

fn arrays(entries: &[u8], end: &str) -> Vec<Entry> {
    let mut bytes = Unstructured::new(entries);
    let mut arrays = Vec::new();
    while !bytes.is_empty() {
        let Ok((mut entry, flags)) = zipped::entry(&mut bytes) else { break };
        entry.name.push_str(end);
        if flags & IS_SPLIT != 0 {
            entry.content = array(&entry.content, flags & IS_LONG != 0);
        }
        arrays.push(entry);
    }
    arrays
}

fn array(content: &[u8], is_long: bool) -> Vec<u8> {
    let mut parts = content.splitn(2, |&byte| byte == 0);
    let (header, values) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let length = u32::try_from(header.len()).expect("a short header").to_le_bytes();
    let (version, width) = if is_long { (2, 4) } else { (1, 2) };
    [b"\x93NUMPY", &[version, 0][..], &length[..width], header, values].concat()
}

/// Named and numbered arrays, of several types, in each form.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let split = |name: &str, descr: &str, order: &str, shape: &str, length: usize| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\0");
        let content = [header.as_bytes(), &vec![0x3c; length]].concat();
        zipped::spelt(&Entry::new(name, &content), IS_SPLIT)
    };
    let named = [
        split("pos_embed", "<f4", "False", "(1, 5, 2)", 40),
        split("patch_embed.proj.weight", "<f4", "True", "(2, 3, 1, 1)", 24),
        split("head.weight", ">f8", "False", "(3, 2)", 48),
        split("head.bias", "|V2", "False", "(3,)", 6),
    ]
    .concat();
    let numbered = [
        split("arr_0", "<f2", "False", "(1, 3, 5, 5)", 150),
        split("arr_1", "|u1", "False", "()", 1),
        split("arr_2", "<c8", "False", "(0, 4)", 0),
    ]
    .concat();
    let written = Entry { is_deflated: true, ..Entry::new("fc.bias.npy", &encode_npy(&[3], &[0.5_f32, 1.0, 2.0])) };
    let file = archive(&[arrays(&named, ".npy"), vec![written]].concat());
    [(0, &file), (1, &named), (1, &numbered), (2, &named), (2, &numbered)]
        .map(|(first, bytes)| [&[first], &bytes[..]].concat())
        .to_vec()
}

#[cfg(test)]
mod tests {
    use unmask_tensors::TensorFile;

    use super::*;

    /// If the seeds were refused, the fuzzer would start with nothing useful.
    #[test]
    fn seeds_are_arrays() {
        for seed in seeds() {
            let file = match seed[0] {
                0 => seed[1..].to_vec(),
                _ => archive(&arrays(&seed[1..], ".npy")),
            };
            let reader = TensorFile::bytes("a seed", file).open().expect("a file");
            assert!(reader.names().len() >= 3, "{:?}", reader.names());
        }
    }
}
