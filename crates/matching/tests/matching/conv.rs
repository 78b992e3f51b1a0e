//! Inverting Gradients on LeNet, the small sigmoid network of Deep Leakage from Gradients.

use super::common;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{Architecture, LenetConfig, ModelState};
use unmask_matching::{Matching, MatchingOptions, NetworkOracle, Objective, Problem, ReceivedGradient};
use unmask_model::{Device, Network, OracleOptions};

const SIDE: usize = 16;
const WIDTH: usize = 12;
const CLASSES: usize = 10;
const FEATURES: usize = WIDTH * (SIDE / 4) * (SIDE / 4);
const LABEL: usize = 3;

/// Draws uniform weights up to `bound`, a function of a layer's number of inputs.
fn lenet(seed: u64, bound: fn(usize) -> f64) -> NetworkOracle {
    let architecture = Architecture::Lenet(LenetConfig { width: WIDTH, side: SIDE, classes: CLASSES });
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights: Vec<f32> = Vec::new();
    let mut limit = 0.0;
    for param in architecture.layout().iter() {
        if param.name.ends_with("weight") {
            limit = bound(param.shape[1..].iter().product());
        }
        weights.extend(param.range.clone().map(|_| rng.random_range(-limit..limit) as f32));
    }
    let weights = head_by_outputs(weights);
    let network = Network::new(architecture, &Device::Cpu).unwrap();
    NetworkOracle::new(&network, &ModelState::from_weights(weights), &[LABEL], OracleOptions::default()).unwrap()
}

/// Reorders the head's draws from input-major to output-major. The expected values below depend on this order of
/// weights and masks.
fn head_by_outputs<T: Copy>(mut drawn: Vec<T>) -> Vec<T> {
    let start = drawn.len() - CLASSES * (FEATURES + 1);
    let head = drawn[start..][..CLASSES * FEATURES].to_vec();
    for (index, value) in drawn[start..][..CLASSES * FEATURES].iter_mut().enumerate() {
        *value = head[index % FEATURES * CLASSES + index / FEATURES];
    }
    drawn
}

/// Returns the SSIM to the truth after 300 iterations from a grey start, on an update with a share `rate` masked.
fn invert(truth: &[f32], bound: fn(usize) -> f64, rate: f64, is_aware: bool) -> f64 {
    let lenet = lenet(1, bound);
    let x: Vec<f64> = truth.iter().map(|&v| f64::from(v) * 2.0 - 1.0).collect();
    let gradient = lenet.gradient(&x).unwrap().gradient().to_vec();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let kept = head_by_outputs(gradient.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect());
    let sent: Vec<f32> = gradient.iter().zip(&kept).map(|(&g, &kept)| if kept { g as f32 } else { 0.0 }).collect();
    let evidence =
        if is_aware { ReceivedGradient::aware(&sent, &kept) } else { ReceivedGradient::naive(&sent) }.unwrap();
    let problem = Problem::new(lenet, Objective::Cosine, evidence).unwrap();
    let options = MatchingOptions { iterations: 300, ..MatchingOptions::default() };
    let mut matching = Matching::new(problem, &vec![0.5; 3 * SIDE * SIDE], options).unwrap();
    let mut found = matching.step().unwrap();
    while !found.is_over {
        found = matching.step().unwrap();
    }
    common::ssim(&found.image, &unmask_data::chw_to_hwc(truth, SIDE, SIDE), SIDE)
}

/// With these wide weights, half of the entries let even the naive attacker recognise the person, though far less
/// clearly than the aware one. With a fifth, only outlines remain.
#[test]
fn who_knows_the_mask_sees_the_picture_and_who_does_not_sees_less_with_each_dropped_entry() {
    const MARGIN: f64 = 0.05;
    let truth = common::photograph("astronaut.png", SIDE);
    for (rate, aware, naive) in [(0.0, 0.965, 0.965), (0.5, 0.921, 0.536), (0.8, 0.782, 0.323)] {
        for (is_aware, expected) in [(true, aware), (false, naive)] {
            let ssim = invert(&truth, |_| 0.5, rate, is_aware);
            assert!((ssim - expected).abs() < MARGIN, "R = {rate}, aware: {is_aware}, SSIM {ssim} for {expected}");
        }
    }
}

/// At PyTorch's initial weights, the picture changes the gradient by only one part in 300. Smoothness must not outweigh
/// that; a mask's zeros do.
#[test]
fn at_usual_weights_who_knows_the_mask_sees_nearly_all_and_who_does_not_nothing() {
    let truth = common::photograph("astronaut.png", SIDE);
    for (rate, is_aware) in [(0.0, true), (0.8, true), (0.2, false), (0.8, false)] {
        let ssim = invert(&truth, |inputs| (inputs as f64).sqrt().recip(), rate, is_aware);
        assert!(if is_aware { ssim > 0.9 } else { ssim < 0.1 }, "R = {rate}, aware: {is_aware}, SSIM {ssim}");
    }
}
