//! Reads and writes safetensors.

use half::{bf16, f16};
use safetensors::{
    Dtype,
    tensor::{TensorView, serialize},
};
use unmask_core::{InitOptions, ParamLayout, VitConfig, VitPreset, initial_weights};
use unmask_tensors::{TensorProblem, TensorReader, WeightsError, encode, encode_flat};

fn pico() -> (ParamLayout, Vec<f32>) {
    let config = VitConfig::from(VitPreset::Pico);
    (ParamLayout::vit(&config), initial_weights(&config, 3, InitOptions::default()))
}

fn file(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap()));
    serialize(views, None).unwrap()
}

fn problems(error: WeightsError) -> Vec<TensorProblem> {
    match error {
        WeightsError::Tensors { problems, .. } => problems,
        other => panic!("{other}"),
    }
}

#[test]
fn flat_vector_survives_the_round_trip() {
    let (layout, flat) = pico();
    let bytes = encode_flat(&layout, &flat).unwrap();
    let mut reader = TensorReader::from_bytes("weights", &bytes).unwrap();
    assert_eq!(reader.shape("blocks.0.attn.qkv.weight"), Some(&[144, 48][..]));
    assert_eq!(reader.names().len(), layout.iter().count());
    assert_eq!(reader.read_flat::<f32>(&layout).unwrap(), flat);
}

#[test]
fn every_number_type_is_read() {
    let values = [0.0, 1.0, -2.5, 0.375];
    let bytes = file(&[
        ("bf16", Dtype::BF16, &[2, 2], values.iter().flat_map(|&v| bf16::from_f64(v).to_le_bytes()).collect()),
        ("f16", Dtype::F16, &[4], values.iter().flat_map(|&v| f16::from_f64(v).to_le_bytes()).collect()),
        ("f32", Dtype::F32, &[4], values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect()),
        ("f64", Dtype::F64, &[4], values.iter().flat_map(|&v| v.to_le_bytes()).collect()),
        ("i64", Dtype::I64, &[1], (-7i64).to_le_bytes().to_vec()),
        ("f8", Dtype::F8_E4M3, &[1], vec![1]),
        ("u8", Dtype::U8, &[3], vec![0, 1, 255]),
    ]);
    let mut reader = TensorReader::from_bytes("mixed", &bytes).unwrap();
    for name in ["bf16", "f16", "f32", "f64"] {
        assert_eq!(reader.read::<f64>(name).unwrap().values, values, "{name}");
        assert_eq!(reader.read::<f32>(name).unwrap().values, values.map(|v| v as f32), "{name}");
    }
    assert_eq!(reader.read::<f64>("bf16").unwrap().shape, [2, 2]);
    assert_eq!(reader.read::<f32>("u8").unwrap().values, [0.0, 1.0, 255.0]);
    assert_eq!(reader.read::<f32>("i64").unwrap().values, [-7.0]);
    let refused = problems(reader.read::<f32>("f8").unwrap_err());
    assert_eq!(refused, [TensorProblem::Type { name: "f8".into(), dtype: "F8_E4M3".into() }]);
    let absent = problems(reader.read::<f32>("none").unwrap_err());
    assert_eq!(absent, [TensorProblem::Absent { name: "none".into() }]);
}

#[test]
fn all_problems_are_listed() {
    let (layout, mut flat) = pico();
    flat[layout.get("pos_embed").unwrap().range.start + 2] = f32::INFINITY;
    let tensors = layout.iter().filter(|param| param.name != "cls_token").map(|param| {
        let shape: &[usize] = if param.name == "head.weight" { &[48, 10] } else { &param.shape };
        (param.name.as_str(), shape, &flat[param.range.clone()])
    });
    let bytes = encode(tensors).unwrap();
    let mut reader = TensorReader::from_bytes("broken.safetensors", &bytes).unwrap();
    let error = reader.read_flat::<f32>(&layout).unwrap_err();
    let message = error.to_string();
    assert_eq!(
        problems(error),
        [
            TensorProblem::Missing { name: "cls_token".into(), expected: vec![1, 1, 48] },
            TensorProblem::NonFinite {
                name: "pos_embed".into(),
                shape: vec![1, 17, 48],
                value: f64::INFINITY,
                index: 2
            },
            TensorProblem::Shape { name: "head.weight".into(), given: vec![48, 10], expected: vec![10, 48] },
        ]
    );
    assert!(message.starts_with("broken.safetensors does not fit: cls_token [1, 1, 48] is missing; "), "{message}");
    // Tensors that were not requested may be damaged.
    let read = reader.read_params::<f64>(&layout, &["patch_embed.proj.weight", "norm.bias"]).unwrap();
    assert_eq!(read["patch_embed.proj.weight"].shape, [48, 3, 4, 4]);
}

#[test]
fn no_safetensors_are_refused() {
    let (layout, flat) = pico();
    let good = encode_flat(&layout, &flat).unwrap();
    let huge = u64::MAX.to_le_bytes();
    for (what, bytes) in [
        ("empty", &[][..]),
        ("a picture", b"\x89PNG\r\n\x1a\nand so on"),
        ("claims too much", &huge),
        ("truncated", &good[..good.len() - 4]),
        ("cut in the header", &good[..40]),
    ] {
        let error = TensorReader::from_bytes(what, bytes).unwrap_err();
        assert!(matches!(&error, WeightsError::Format { .. }), "{what}: {error}");
        assert!(error.to_string().starts_with(what), "{error}");
    }
    assert!(matches!(encode_flat(&layout, &flat[1..]), Err(WeightsError::Length { .. })));
}
