//! Reads one tiny ViT as PyTorch, NumPy, torchvision and Hugging Face write it, and rejects malicious files.
//!
//! `scripts/make_model_files.py` created `testdata/files` and checked that each library's model computes the same
//! result.

use std::{
    fs,
    io::{Cursor, Write},
    path::PathBuf,
};

use proptest::prelude::*;
use unmask_core::{Architecture, Param, VitConfig};
use unmask_tensors::{Role, Shapes, TensorFile, TensorReader, Variant, WeightsError, encode, read_state};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

const TINY: VitConfig =
    VitConfig { image: 8, patch: 4, dim: 6, depth: 2, heads: 2, classes: 3, april_block: false, mlp: None };

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "testdata/files", name].iter().collect()
}

fn weights(name: &str) -> Vec<f32> {
    read_state(TensorReader::open(&path(name)).unwrap(), Architecture::Vit(TINY)).unwrap().weights
}

fn refusal(bytes: &[u8]) -> String {
    match TensorReader::from_bytes("a file", bytes).unwrap_err() {
        error @ WeightsError::Format { .. } => error.to_string(),
        other => panic!("{other}"),
    }
}

/// Covers every format, naming scheme and number type, views into shared storage, and other dimension orders.
#[test]
fn every_library_writes_the_same_model() {
    let expected = weights("timm.safetensors");
    for name in [
        "timm.pt",
        "timm.npz",
        "mixed.pt",
        "torchvision.pt",
        "hugging_face_4.safetensors",
        "hugging_face_5.safetensors",
    ] {
        assert_eq!(weights(name), expected, "{name}");
        let shapes = TensorReader::open(&path(name)).unwrap().shapes().unwrap();
        assert_eq!(shapes, Shapes::Vit { config: VitConfig { heads: 1, ..TINY }, variant: None }, "{name}");
        let foreign = TensorReader::open(&path(name)).unwrap().foreign(Architecture::Vit(TINY));
        assert!(foreign.is_empty(), "{name}: {foreign:?}");
    }
    let distilled = TensorReader::open(&path("distilled.pt")).unwrap();
    assert_eq!(
        distilled.shapes().unwrap(),
        Shapes::Vit { config: VitConfig { heads: 1, depth: 1, ..TINY }, variant: Some(Variant::Distilled) }
    );
}

/// `scripts/make_saved_updates.py` created `testdata/saved`, as people save updates.
#[test]
fn updates_are_read_as_people_save_them() {
    let expected = weights("timm.safetensors");
    let open = |name: &str, role| {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "testdata/saved", name].iter().collect();
        TensorFile::from(path).with_role(role).open().unwrap()
    };
    for (name, note) in [
        ("autograd_grad.pt", "The tensors are numbered, not named; their shapes are those of vit_"),
        ("shared_data.pt", "The tensors are numbered, not named"),
        ("checkpoint.pt", "optimizer, state_dict; state_dict was read"),
        ("gradients_of_client_1.pt", ""),
        ("jax_bf16.npz", "two bytes without a meaning; they were taken for bfloat16"),
    ] {
        let reader = open(name, Role::Gradients);
        let notes = reader.notes().join(" ");
        assert!(notes.contains(note) && notes.is_empty() == note.is_empty(), "{name}: {notes}");
        assert_eq!(read_state(reader, Architecture::Vit(TINY)).unwrap().weights, expected, "{name}");
    }
    for (role, factor) in [(Role::Weights, 1.0), (Role::Gradients, 2.0)] {
        let read = read_state(open("both.pt", role), Architecture::Vit(TINY)).unwrap().weights;
        assert!(read.iter().zip(&expected).all(|(read, value)| *read == factor * value), "{role:?}");
    }
}

/// The tiny model's tensors under these names.
fn renamed(name: impl Fn(&str) -> String) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let (layout, values) = (Architecture::Vit(TINY).layout(), weights("timm.safetensors"));
    let tensor = |param: &Param| (name(&param.name), param.shape.clone(), values[param.range.clone()].to_vec());
    layout.iter().map(tensor).collect()
}

fn safetensors(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
    encode(tensors.iter().map(|(name, shape, values)| (name.as_str(), shape.as_slice(), values.as_slice()))).unwrap()
}

fn read_tiny(bytes: &[u8]) -> Vec<f32> {
    let reader = TensorReader::from_bytes("a file", bytes).unwrap();
    read_state(reader, Architecture::Vit(TINY)).unwrap().weights
}

/// A `.npy` file with these f32 values in this byte order and dimension order.
fn array(shape: &[usize], values: &[f32], is_big: bool) -> Vec<u8> {
    let sides: String = shape.iter().map(|side| format!("{side},")).collect();
    let order = if is_big { '>' } else { '<' };
    let header = format!("{{'descr': '{order}f4', 'fortran_order': False, 'shape': ({sides}), }}");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let bytes = values.iter().flat_map(|value| if is_big { value.to_be_bytes() } else { value.to_le_bytes() });
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &bytes.collect::<Vec<u8>>()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any module's name may stand before the network's names, with FSDP's in between.
    #[test]
    fn a_common_front_of_names_is_taken_off(front in "([a-z][a-z_0-9]{0,8}\\.){0,3}", is_sharded in any::<bool>()) {
        let wrapper = if is_sharded { "_fsdp_wrapped_module." } else { "" };
        let name = |name: &str| format!("{front}{wrapper}{}", name.replace("attn.", &format!("{wrapper}attn.")));
        prop_assert_eq!(read_tiny(&safetensors(&renamed(name))), weights("timm.safetensors"));
    }

    /// Arrays without names, in any order of the archive and in either byte order.
    #[test]
    fn numbered_arrays_are_read_in_the_order_of_their_numbers(
        seed in any::<u64>(), is_big in any::<bool>(), is_named in any::<bool>()
    ) {
        let mut arrays: Vec<(String, Vec<u8>)> = renamed(str::to_owned).into_iter().enumerate().map(|(place, tensor)| {
            let (name, shape, values) = tensor;
            let name = if is_named { name } else { format!("arr_{place}") };
            (format!("{name}.npy"), array(&shape, &values, is_big))
        }).collect();
        let steps = arrays.len();
        (0..steps).for_each(|i| arrays.swap(i, (seed.wrapping_mul(i as u64 + 7) % steps as u64) as usize));
        let entries: Vec<(&str, &[u8])> = arrays.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        prop_assert_eq!(read_tiny(&archive(&entries)), weights("timm.safetensors"));
    }
}

/// CLIP's vision models, of Hugging Face and of OpenAI, the latter beside a text model.
#[test]
fn clips_embeddings_are_read() {
    let layout = Architecture::Vit(TINY).layout();
    for (front, patch, position, norm) in [
        (
            "vision_model.",
            "embeddings.patch_embedding.weight",
            "embeddings.position_embedding.weight",
            "pre_layrnorm.weight",
        ),
        ("visual.", "conv1.weight", "positional_embedding", "ln_pre.weight"),
    ] {
        let mut tensors = renamed(|name| match name {
            "pos_embed" => format!("{front}{position}"),
            "patch_embed.proj.weight" => format!("{front}{patch}"),
            "norm.weight" => format!("{front}{norm}"),
            other => format!("{front}other.{other}"),
        });
        for (_, shape, _) in tensors.iter_mut().filter(|(name, ..)| name.ends_with(position)) {
            shape.remove(0);
        }
        tensors.push(("positional_embedding".to_owned(), vec![7, 6], vec![0.5; 42]));
        let bytes = safetensors(&tensors);
        let mut reader = TensorReader::from_bytes("a file", &bytes).unwrap();
        let Shapes::Vit { config, variant } = reader.shapes().unwrap() else { panic!() };
        assert_eq!((config.image, config.dim, variant), (TINY.image, TINY.dim, Some(Variant::Clip)), "{front}");
        for name in ["pos_embed", "patch_embed.proj.weight"] {
            let read = reader.read::<f32>(name).unwrap();
            let param = layout.get(name).unwrap();
            assert_eq!(
                (&read.shape, &read.values[..]),
                (&param.shape, &weights("timm.safetensors")[param.range.clone()])
            );
        }
    }
}

#[test]
fn gradients_of_single_samples_lose_their_first_dimension() {
    let samples = |count: usize| {
        let mut tensors = renamed(|name| format!("_module.{name}"));
        tensors.iter_mut().for_each(|(_, shape, values)| {
            shape.insert(0, count);
            *values = values.repeat(count);
        });
        safetensors(&tensors)
    };
    assert_eq!(read_tiny(&samples(1)), weights("timm.safetensors"));
    let refused = refusal(&samples(4));
    assert!(refused.contains("they are gradients of 4 samples, one by one"), "{refused}");
}

#[test]
fn a_model_in_several_files_is_read_by_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let tensors = renamed(str::to_owned);
    let (front, back) = tensors.split_at(11);
    let [first, second] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    write(first, &safetensors(front));
    write(second, &safetensors(back));
    let entries = [(front, first), (back, second)]
        .into_iter()
        .flat_map(|(tensors, file)| tensors.iter().map(move |(name, ..)| format!("{name:?}: {file:?}")));
    let index = format!("{{\"weight_map\": {{{}}}}}", entries.collect::<Vec<_>>().join(", "));
    write("model.safetensors.index.json", index.as_bytes());
    let open = |name: &str| TensorFile::from(folder.path().join(name)).open();
    let read = read_state(open("model.safetensors.index.json").unwrap(), Architecture::Vit(TINY)).unwrap();
    assert_eq!(read.weights, weights("timm.safetensors"));
    let alone = open(second).unwrap().shapes().unwrap_err().to_string();
    assert!(alone.contains("it is one of 2 files of a model: give their index"), "{alone}");
    write("outside.json", b"{\"weight_map\": {\"a\": \"../secret\"}}");
    let refused = open("outside.json").unwrap_err().to_string();
    assert!(refused.contains("which is not a file beside it"), "{refused}");
    write("config.json", b"{}");
    assert!(open("config.json").unwrap_err().to_string().contains("no index of a model in several files"));
}

#[test]
fn what_stands_for_a_file_is_named() {
    for (bytes, reason) in [
        (&b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123456\n"[..], "a Git LFS pointer"),
        (b"\n<!DOCTYPE html><html>Sign in to the network</html>", "a page for a browser"),
        (b"\x89HDF\r\n\x1a\n\0\0\0\0\0\0\0\0", "an HDF5 file"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0", "compressed by gzip"),
    ] {
        let refused = refusal(bytes);
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn what_saves_no_tensors_by_name_is_refused_in_words() {
    for (name, reason) in [
        ("whole_model.pt", "it asks to run \"timm.models.vision_transformer.VisionTransformer\""),
        ("before_1_6.pt", "it is a bare pickle, which PyTorch wrote before 1.6"),
    ] {
        let refused = refusal(&fs::read(path(name)).unwrap());
        assert!(
            refused.starts_with("a file holds no tensors that can be read: ") && refused.contains(reason),
            "{refused}"
        );
    }
}

/// Nobody can tell what two tensors without names are, or which of two networks is meant.
#[test]
fn what_tells_no_network_is_named_by_what_it_is() {
    let shapes = |bytes: &[u8]| TensorReader::from_bytes("a file", bytes).unwrap().shapes().unwrap_err().to_string();
    let list = shapes(&fs::read(path("list.pt")).unwrap());
    assert!(
        list.contains("2 tensors, 0 first: they have numbers for names, and their shapes are those of no known"),
        "{list}"
    );
    let both = [renamed(|name| format!("student.{name}")), renamed(|name| format!("teacher.{name}"))].concat();
    let two = shapes(&safetensors(&both));
    assert!(two.contains("It holds 2 networks, student.*, teacher.*; save one of them"), "{two}");
}

#[test]
fn a_problem_names_the_tensor_as_the_file_does() {
    let wider = Architecture::Vit(VitConfig { classes: 5, ..TINY });
    let read = |name| read_state(TensorReader::open(&path(name)).unwrap(), wider).unwrap_err().to_string();
    let refused = read("torchvision.pt");
    assert!(
        refused.contains("head.weight (heads.head.weight in the file) has shape [3, 6], expected [5, 6]"),
        "{refused}"
    );
    let shallow = Architecture::Vit(VitConfig { depth: 1, ..TINY });
    let file = TensorReader::open(&path("mixed.pt")).unwrap();
    let refused = read_state(file, shallow).unwrap_err().to_string();
    assert!(refused.contains("it holds blocks.1, the first") && refused.contains("2 blocks in all"), "{refused}");
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let method = if bytes.len() > 4096 { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn saved(program: &[u8]) -> Vec<u8> {
    archive(&[("archive/data.pkl", program), ("archive/data/0", &[0; 64]), ("archive/byteorder", b"little")])
}

/// Returns a program that saves `{"a": tensor}` with this shape and these strides, over sixteen f32 values.
fn tensor(offset: i32, shape: &[i32], strides: &[i32]) -> Vec<u8> {
    let number = |number: &i32| [b"J".as_slice(), &number.to_le_bytes()].concat();
    let tuple = |numbers: &[i32]| [b"(".to_vec(), numbers.iter().flat_map(number).collect(), b"t".to_vec()].concat();
    let text = |text: &str| [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    [
        b"\x80\x02}".to_vec(),
        text("a"),
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text("0"),
        text("cpu"),
        b"K\x10tQ".to_vec(),
        number(&offset),
        tuple(shape),
        tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtRs.".to_vec(),
    ]
    .concat()
}

#[test]
fn a_pickle_runs_nothing() {
    for (program, reason) in [
        (
            &b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R."[..],
            "it asks to run \"os.system\", but code from files is never run",
        ),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.", "it asks to run \"os.system\""),
        (b"\x80\x02cbuiltins\neval\n.", "it asks to run \"builtins.eval\""),
        (b"\x80\x02ctorch.storage\n_load_from_bytes\n.", "it asks to run \"torch.storage._load_from_bytes\""),
        (b"(ios\nsystem\n.", "the instruction 0x69 ('i')"),
        (b"\x80\x02}\x81.", "empty stack"),
        (b"\x80\x02ccollections\nOrderedDict\n)}b.", "no dict and no list of tensors"),
        (b"\x80\x02ccollections\nOrderedDict\n)}R.", "something else where a tuple belongs"),
        (b"\x80\x02NN\x86R.", "empty stack"),
        (b"\x80\x02K\x01)R.", "it calls a function that tensors do not need"),
        (b"\x80\x02h\x07.", "recalls 7, which it never stored"),
        (b"\x80\x02t.", "lacks a mark"),
        (b"\x80\x02X\xff\xff\xff\xff", "ends in the middle"),
        (b"\x80\x02", "ends in the middle"),
        (b"\x80\x07.", "protocol 7"),
        (b"\x80\x02}.", "it holds no dict and no list of tensors"),
        (b"\x80\x02K\x01.", "it holds no dict and no list of tensors"),
    ] {
        let refused = refusal(&saved(program));
        assert!(refused.contains(reason), "{refused}");
    }
    let endless = [b"\x80\x02".to_vec(), vec![b')'; 5_000_000], b".".to_vec()].concat();
    assert!(refusal(&saved(&endless)).contains("data.pkl is larger than 4194304 bytes"));
    // The deepest possible program (nested tuples), and a dict that contains itself.
    let deep = [b"\x80\x02)".to_vec(), vec![0x85; 3_000_000], b".".to_vec()].concat();
    assert!(refusal(&saved(&deep)).contains("no dict and no list of tensors"));
    assert!(refusal(&saved(b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.")).contains("no dict and no list of tensors"));
}

/// A program is short in its archive if it repeats itself, and can name a long text again and again.
#[test]
fn programs_cannot_repeat_long_texts_and_lists_without_end() {
    let long = |letter: u8| [b"X", &1_000_000_u32.to_le_bytes()[..], &vec![letter; 1_000_000]].concat();
    // 400,000 names of functions of two megabytes each.
    let texts = [long(b'a'), b"q\x00".to_vec(), long(b'b'), b"q\x01".to_vec()].concat();
    let names = [b"\x80\x02".to_vec(), texts, b"h\x00h\x01\x930".repeat(300_000), b".".to_vec()].concat();
    let refused = refusal(&saved(&names));
    assert!(refused.contains("it asks to run \"aaa") && refused.len() < 1000, "{refused}");
    // 300,000 dicts of a list of a million numbers.
    let list = [b"](".to_vec(), b"K\x00".repeat(1_000_000), b"eq\x00".to_vec()].concat();
    let dict = b"ccollections\nOrderedDict\nq\x010h\x00\x85q\x020";
    let program = [b"\x80\x02".to_vec(), list, dict.to_vec(), b"h\x01h\x02R0".repeat(300_000), b".".to_vec()].concat();
    assert!(refusal(&saved(&program)).contains("it copies its lists over and over"));
    // 200,000 sets of tensors under one name of a megabyte.
    let one = tensor(0, &[1], &[1]);
    let one = one.strip_prefix(b"\x80\x02").unwrap().strip_suffix(b"s.").unwrap();
    let set = b"h\x00}h\x01h\x02ss";
    let beginning =
        [b"\x80\x02".to_vec(), long(b'a'), b"q\x000".to_vec(), one.to_vec(), b"q\x020q\x010}".to_vec()].concat();
    let program = [beginning, set.repeat(200_000), b".".to_vec()].concat();
    let refused = refusal(&saved(&program));
    assert!(refused.contains("several sets of tensors, aaa") && refused.contains("and 99992 more;"), "{refused}");
    assert!(refused.len() < 2000, "{refused}");
}

/// The order of tensors decides what those without names are.
#[test]
fn tensors_without_values_have_one_order() {
    let tensors: Vec<_> = (0..20).map(|number| (format!("{number:02}"), vec![0, 3], Vec::new())).collect();
    let bytes = safetensors(&tensors);
    for _ in 0..4 {
        let names = TensorReader::from_bytes("a file", &bytes).unwrap().names();
        assert_eq!(names, tensors.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>());
    }
}

/// A model's name says nothing about how much a file holds.
#[test]
fn nothing_is_reserved_for_a_model_that_a_file_lacks() {
    let huge = Architecture::Vit(VitConfig { image: 1024, patch: 1, dim: 8192, depth: 128, heads: 1, ..TINY });
    let bytes = safetensors(&renamed(str::to_owned));
    let open = || TensorReader::from_bytes("a file", &bytes).unwrap();
    assert!(open().read_flat::<f64>(&huge.layout()).unwrap_err().to_string().contains("has shape"));
    assert!(read_state(open(), huge).unwrap_err().to_string().contains("has shape"));
}

#[test]
fn strides_and_shapes_are_checked_before_values_are_read() {
    let read = |offset, shape: &[i32], strides: &[i32]| {
        let storage: Vec<u8> = (0..16).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let bytes = archive(&[("a/data.pkl", &tensor(offset, shape, strides)), ("a/data/0", &storage)]);
        let mut reader = TensorReader::from_bytes("a file", &bytes)?;
        reader.read::<f32>("a").map(|tensor| tensor.values)
    };
    assert_eq!(read(0, &[2, 3], &[3, 1]).unwrap(), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(read(1, &[3, 2], &[1, 4]).unwrap(), [1., 5., 2., 6., 3., 7.]);
    assert_eq!(read(15, &[], &[]).unwrap(), [15.]);
    assert!(read(16, &[0, 4], &[4, 1]).unwrap().is_empty());
    for (offset, shape, strides, reason) in [
        (0, &[17][..], &[1][..], "reaches beyond its 16 values"),
        (12, &[2, 3], &[3, 1], "reaches beyond its 4 values"),
        (17, &[1], &[1], "begins after the end of its values, data/0"),
        (-1, &[1], &[1], "begins at -1"),
        (0, &[-2], &[1], "has the size -2"),
        (0, &[2], &[-1], "has the size -1"),
        (0, &[i32::MAX; 4], &[1; 4], "reaches beyond"),
        (0, &[i32::MAX; 2], &[0; 2], "repeats its 1 values"),
        (0, &[2, 2], &[1], "2 dimensions and 1 strides"),
        (0, &[1; 9], &[1; 9], "9 dimensions"),
    ] {
        let refused = read(offset, shape, strides).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    let without = archive(&[("a/data.pkl", &tensor(0, &[1], &[1]))]);
    assert!(refusal(&without).contains("a: its values, data/0, are missing"));
    let big = archive(&[("a/data.pkl", &tensor(0, &[1], &[1])), ("a/data/0", &[0; 64]), ("a/byteorder", b"big")]);
    assert!(refusal(&big).contains("\"big\" byte order"));
    let script = archive(&[("a/data.pkl", b"."), ("a/constants.pkl", b".")]);
    assert!(refusal(&script).contains("TorchScript"));
    assert!(refusal(&archive(&[("photo.png", b"no tensor")])).contains("neither PyTorch's tensors nor NumPy's arrays"));
}

#[test]
fn arrays_that_claim_more_than_they_hold_are_refused() {
    let claimed = |shape: &str, values: &[u8]| {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), values].concat()
    };
    let refused = refusal(&archive(&[("pos_embed.npy", &claimed("(1, 1099511627776)", &[0; 64]))]));
    assert!(refused.contains("pos_embed [1, 1099511627776]") && refused.contains("beyond its 16 values"), "{refused}");
    let whole = archive(&[("x.npy", &claimed("(2048,)", &[7; 8192]))]);
    assert_eq!(TensorReader::from_bytes("a file", &whole).unwrap().read::<f64>("x").unwrap().shape, [2048]);
    let strange = archive(&[("x.npy", &claimed("(2,)", &[0; 8])[..].escape_ascii().to_string().into_bytes())]);
    assert!(refusal(&strange).contains("x: it is not a NumPy array"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A file that is cut or changed anywhere is read, rejected, or read up to the damaged tensor. Nothing panics, and
    /// no memory is reserved for data that the file only claims.
    #[test]
    fn damaged_files_are_refused_or_read(
        which in 0..4_usize, cut in 0.0..1.0_f64, changes in proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 0..6)
    ) {
        let mut bytes = fs::read(path(["timm.pt", "timm.npz", "mixed.pt", "timm.safetensors"][which])).unwrap();
        if changes.is_empty() {
            bytes.truncate((cut * bytes.len() as f64) as usize);
        }
        for (place, value) in changes {
            let place = (place * bytes.len() as f64) as usize;
            bytes[place] = value;
        }
        if let Ok(mut reader) = TensorReader::from_bytes("a file", &bytes) {
            let _ = reader.shapes();
            for name in reader.names() {
                let _ = reader.read::<f32>(&name);
            }
        }
    }
}
