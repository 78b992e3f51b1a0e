//! Compares every preset with PyTorch and timm, on weights that both sides draw with the same formula.
//!
//! `scripts/make_parity.py` created `testdata/parity/*.json` in float64. For each gradient, it holds the norm and two
//! inner products, which no permutation, transposition or change of sign preserves.

use std::collections::BTreeMap;

use unmask_core::{Architecture, ModelState, Param, ParamLayout};
use unmask_model::{Device, Network};

/// Largest error of a logit or the loss, relative to the largest logit.
const LOGITS: f64 = 1e-5;
/// Largest error of a tensor's norm and inner products, relative to the norm.
const TENSORS: f64 = 1e-4;
/// The same for the large ResNets: some of their millions of ReLUs have an input so near zero that rounding decides
/// whether they pass a gradient. Here, PyTorch's own f32 gradients deviate from its f64 ones by up to 9e-3.
const KINKED: f64 = 3e-2;
/// The same for `resnet50`, where PyTorch's deviate by up to 2.6e-2.
const MOST_KINKED: f64 = 6e-2;

#[derive(serde::Deserialize)]
struct Reference {
    labels: Vec<usize>,
    evaluation_logits: Vec<f64>,
    loss: f64,
    gradients: BTreeMap<String, [f64; 3]>,
    statistics: BTreeMap<String, [f64; 3]>,
}

/// Draws `count` values in [-1, 1), multiples of 2^-23: splitmix64 started from the FNV-1a hash of `name`.
fn draw(name: &str, count: usize) -> impl Iterator<Item = f64> + use<> {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    (1..=count as u64).map(move |place| {
        let z = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    })
}

/// Draws a parameter or running statistic, like `value` in the script.
fn values(param: &Param) -> Vec<f32> {
    let Param { name, shape, range, .. } = param;
    let is_weight = name.ends_with("weight");
    let fan_in: usize = shape[1..].iter().product();
    let (offset, factor) = match shape.len() {
        1 if name.ends_with("running_var") => (1.0, 0.5),
        1 if is_weight && name.contains("norm") => (1.0, 0.25),
        1 if is_weight => (0.5, 0.25),
        1 => (0.0, 0.125),
        _ if !is_weight => (0.0, 0.25),
        _ => (0.0, (6.0 / fan_in as f64).sqrt().log2().floor().exp2()),
    };
    draw(name, range.len()).map(|u| (offset + factor * u) as f32).collect()
}

fn flat(layout: &ParamLayout) -> Vec<f32> {
    layout.iter().flat_map(values).collect()
}

/// Returns the largest deviation of norm and inner products from `expected`, relative to the norm, and its parameter.
fn deviation(layout: &ParamLayout, found: &[f32], expected: &BTreeMap<String, [f64; 3]>) -> (f64, String) {
    assert_eq!(expected.len(), layout.iter().len(), "tensors");
    assert_eq!(found.len(), layout.len());
    let of = |param: &Param| {
        let found = &found[param.range.clone()];
        let [norm, a, b] = expected[&param.name];
        let product = |probe: &str| {
            let probe = draw(&format!("{probe}:{}", param.name), found.len());
            probe.zip(found).map(|(u, &value)| u * f64::from(value)).sum::<f64>()
        };
        let found_norm = found.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let errors = [found_norm - norm, product("a") - a, product("b") - b].map(|error| error.abs() / norm);
        (errors.into_iter().fold(0.0, f64::max), param.name.clone())
    };
    layout.iter().map(of).fold((0.0, String::new()), |worst, next| if next.0 > worst.0 { next } else { worst })
}

fn check(preset: &str) {
    let path = format!("{}/testdata/parity/{preset}.json", env!("CARGO_MANIFEST_DIR"));
    let reference: Reference = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let architecture = Architecture::named(preset, 10).unwrap();
    let network = Network::new(architecture, &Device::Cpu).unwrap();
    let state = ModelState { weights: flat(network.layout()), statistics: flat(&architecture.statistics()) };
    let pixels = reference.labels.len() * 3 * architecture.side().pow(2);
    let images: Vec<f32> = draw("images", pixels).map(|u| ((u + 1.0) / 2.0) as f32).collect();

    let evaluation = network.evaluate_blocking(&state, &images, &reference.labels).unwrap();
    let scale = reference.evaluation_logits.iter().fold(1.0, |most: f64, logit| most.max(logit.abs()));
    let errors = evaluation.logits.iter().zip(&reference.evaluation_logits).map(|(f, e)| (f64::from(*f) - e).abs());
    assert_eq!(evaluation.logits.len(), reference.evaluation_logits.len());
    let logits = errors.fold(0.0, f64::max) / scale;
    assert!(logits < LOGITS, "{preset}: logits off by {logits:e} of {scale}");

    let step = network.loss_and_gradient_blocking(&state, &images, &reference.labels).unwrap();
    let loss = (f64::from(step.loss) - reference.loss).abs() / scale;
    assert!(loss < LOGITS, "{preset}: loss {} is not {}", step.loss, reference.loss);
    let (gradient, name) = deviation(network.layout(), &step.gradient, &reference.gradients);
    let (moved, moved_name) = deviation(&architecture.statistics(), &step.statistics, &reference.statistics);
    eprintln!("{preset}: logits {logits:.1e}, loss {loss:.1e}, {name} {gradient:.1e}, {moved_name} {moved:.1e}");
    let tolerance = match preset {
        "resnet50" => MOST_KINKED,
        "resnet18" | "resnet34" => KINKED,
        _ => TENSORS,
    };
    assert!(gradient < tolerance, "{preset}: gradient of {name} off by {gradient:e}");
    assert!(moved < TENSORS, "{preset}: {moved_name} off by {moved:e}");
}

#[test]
fn vit_pico() {
    check("vit_pico_patch4_16");
}

#[test]
fn vit_nano() {
    check("vit_nano_patch4_32");
}

#[test]
fn vit_lab() {
    check("vit_lab_patch4_32");
}

#[test]
fn vit_nano_patch8() {
    check("vit_nano_patch8_32");
}

#[test]
fn vit_lab_patch8() {
    check("vit_lab_patch8_32");
}

#[test]
fn vit_tiny() {
    check("vit_tiny_patch16_224");
}

#[test]
fn vit_small() {
    check("vit_small_patch16_224");
}

#[test]
fn vit_small_patch32() {
    check("vit_small_patch32_224");
}

#[test]
fn resnet_nano() {
    check("resnet_nano");
}

#[test]
fn lenet() {
    check("lenet_width12_32");
}

#[test]
fn resnet18() {
    check("resnet18");
}

#[test]
fn resnet50() {
    check("resnet50");
}

#[test]
fn resnet34() {
    check("resnet34");
}
