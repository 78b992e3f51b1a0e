//! Fuzzes what `torch.save` writes: pickles in archives.

use arbitrary::Unstructured;
use unmask_tensors::Role;

use crate::{
    walk,
    zipped::{self, Entry, archive},
};

const ROLES: [Role; 3] = [Role::Any, Role::Gradients, Role::Weights];
/// What the bytes after the first are.
const FILE: u8 = 0;
const ENTRIES: u8 = 1;
const PROGRAM: u8 = 2;
/// The bytes of the tensors beside a program.
const STORAGE: [u8; 64] = [0x3c; 64];

/// The first byte says what the others are, and for which role they are read.
pub(crate) fn run(data: &[u8]) {
    let [first, bytes @ ..] = data else { return };
    let role = ROLES[usize::from(first / 3) % ROLES.len()];
    match first % 3 {
        FILE => walk::file(bytes, role),
        ENTRIES => walk::file(&archive(&entries(bytes)), role),
        _ => walk::file(&saved(bytes), role),
    }
}

fn entries(bytes: &[u8]) -> Vec<Entry> {
    let mut bytes = Unstructured::new(bytes);
    let next = || if bytes.is_empty() { None } else { zipped::entry(&mut bytes).ok() };
    std::iter::from_fn(next).map(|(entry, _)| entry).collect()
}

fn files(program: &[u8]) -> [Entry; 3] {
    [
        Entry::new("archive/data.pkl", program),
        Entry::new("archive/byteorder", b"little"),
        Entry::new("archive/data/0", &STORAGE),
    ]
}

fn saved(program: &[u8]) -> Vec<u8> {
    archive(&files(program))
}

/// Pushes a string.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a short text");
    [&[0x8c, length], text.as_bytes()].concat()
}

/// Pushes a tuple of numbers.
fn tuple(numbers: &[u8]) -> Vec<u8> {
    [b"(".to_vec(), numbers.iter().flat_map(|&number| [b'K', number]).collect(), b"t".to_vec()].concat()
}

/// Pushes a tensor of sixteen values of this type.
fn tensor(kind: &str, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        format!("ctorch\n{kind}\n").into_bytes(),
        text("0"),
        text("cpu"),
        b"K\x10tQK\x00".to_vec(),
        tuple(shape),
        tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtR".to_vec(),
    ]
    .concat()
}

/// Dicts, lists and checkpoints of tensors.
fn programs() -> Vec<Vec<u8>> {
    let weight = || tensor("FloatStorage", &[3, 2], &[2, 1]);
    let bias = || tensor("HalfStorage", &[3], &[1]);
    let dict = || [b"}(".to_vec(), text("head.weight"), weight(), text("head.bias"), bias(), b"u".to_vec()].concat();
    let program = |value: Vec<u8>| [b"\x80\x02".to_vec(), value, b".".to_vec()].concat();
    let parameter = [
        b"ctorch._utils\n_rebuild_parameter\n(".to_vec(),
        tensor("DoubleStorage", &[2, 2], &[1, 2]),
        b"\x89ccollections\nOrderedDict\n)RtR".to_vec(),
    ];
    [
        dict(),
        [b"](".to_vec(), weight(), bias(), b"e".to_vec()].concat(),
        [b"}(".to_vec(), text("gradients"), dict(), text("state_dict"), dict(), text("epoch"), b"K\x01u".to_vec()]
            .concat(),
        [
            b"ccollections\nOrderedDict\n](".to_vec(),
            text("w"),
            parameter.concat(),
            b"\x86e\x85Rq\x00}".to_vec(),
            text("_metadata"),
            b"h\x00sb".to_vec(),
        ]
        .concat(),
        [b"cargparse\nNamespace\n)\x81}".to_vec(), text("a"), b"Nsb0".to_vec(), dict()].concat(),
    ]
    .map(program)
    .to_vec()
}

/// Programs alone, in entries, and in an archive.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let with = |first: u8, bytes: Vec<u8>| [vec![first], bytes].concat();
    let in_entries = |program: &[u8]| files(program).iter().flat_map(|entry| zipped::spelt(entry, 0)).collect();
    let of = |(number, program): (u8, Vec<u8>)| {
        let role = 3 * (number % 3);
        [with(role + FILE, saved(&program)), with(role + ENTRIES, in_entries(&program)), with(role + PROGRAM, program)]
    };
    (0..).zip(programs()).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use unmask_tensors::TensorFile;

    use super::*;

    /// If the seeds were refused, the fuzzer would start with nothing useful.
    #[test]
    fn seeds_are_saved_tensors() {
        for (number, program) in programs().iter().enumerate() {
            let file = TensorFile::bytes("a seed", saved(program)).with_role(Role::Gradients);
            let mut reader = file.open().unwrap_or_else(|error| panic!("{number}: {error}"));
            for name in reader.names() {
                reader.read::<f64>(&name).unwrap_or_else(|error| panic!("{number}: {error}"));
            }
        }
    }
}
