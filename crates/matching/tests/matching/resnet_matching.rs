//! Inverting Gradients on `resnet_nano`: the second derivative is right, and the search descends.

use super::common;
use unmask_core::{Architecture, ModelState, ResnetPreset};
use unmask_matching::{Matching, MatchingOptions, NetworkOracle, Objective, Problem, ReceivedGradient};
use unmask_model::{Device, ModelError, Network, Normalisation, OracleOptions, Precision, block_on};

const SIDE: usize = 32;
const LABEL: usize = 3;

fn network() -> (Network, ModelState) {
    let architecture = Architecture::from(ResnetPreset::Nano);
    (Network::new(architecture, &Device::Cpu).unwrap(), architecture.initial(1))
}

fn oracle(normalisation: Normalisation, precision: Precision) -> NetworkOracle {
    let (network, state) = network();
    let options = OracleOptions { normalisation, precision, ..OracleOptions::default() };
    NetworkOracle::new(&network, &state, &[LABEL], options).unwrap()
}

fn photograph() -> Vec<f64> {
    common::photograph("astronaut.png", SIDE).iter().map(|&value| f64::from(value) * 2.0 - 1.0).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Computes d<gradient, v>/dx along u twice: by moving the weights along v, as the search does, and by moving the
/// picture along u.
#[test]
fn moving_the_weights_and_moving_the_picture_give_one_derivative() {
    let x = photograph();
    for normalisation in [Normalisation::Running, Normalisation::Batch] {
        let oracle = oracle(normalisation, Precision::F64);
        // Small enough that almost no ReLU changes sides.
        let step = 1e-7;
        let u: Vec<f64> = (0..x.len()).map(|i| (0.37 * i as f64).sin()).collect();
        let v: Vec<f64> = (0..oracle.weights().len()).map(|i| (0.73 * i as f64).cos()).collect();
        let along = |sign: f64| {
            let x: Vec<f64> = x.iter().zip(&u).map(|(x, u)| x + sign * step * u).collect();
            dot(oracle.gradient(&x).unwrap().gradient(), &v)
        };
        let by_picture = (along(1.0) - along(-1.0)) / (2.0 * step);
        let at = oracle.gradient(&x).unwrap();
        let by_weights = dot(&oracle.input_gradient_along(&at, &v).unwrap(), &u);
        assert!(
            (by_picture - by_weights).abs() < 1e-3 * by_picture.abs(),
            "{normalisation:?}: {by_picture} by the picture, {by_weights} by the weights"
        );
    }
}

/// Covers the batch's moments, as a client in a room uses them, and the running statistics, as the attack's authors do.
#[test]
fn the_search_goes_down_and_the_truth_is_at_the_bottom() {
    let (network, state) = network();
    let truth = common::photograph("astronaut.png", SIDE);
    let picture = unmask_data::chw_to_hwc(&truth, SIDE, SIDE);
    for normalisation in [Normalisation::Running, Normalisation::Batch] {
        let step = match normalisation {
            Normalisation::Running => block_on(network.evaluation_gradient(&state, &truth, &[LABEL])),
            Normalisation::Batch => block_on(network.loss_and_gradient(&state, &truth, &[LABEL])),
        };
        let received = ReceivedGradient::naive(&step.unwrap().gradient).unwrap();
        let search = |start: &[f32], iterations: usize| {
            let oracle = oracle(normalisation, Precision::F32);
            let problem = Problem::new(oracle, Objective::Cosine, received.clone()).unwrap();
            let options = MatchingOptions { iterations, variation: 0.0, ..MatchingOptions::default() };
            let mut matching = Matching::new(problem, start, options).unwrap();
            let first = matching.step().unwrap();
            let mut last = first.clone();
            while !last.is_over {
                last = matching.step().unwrap();
            }
            (first.objective, last.objective, common::ssim(&last.image, &picture, SIDE))
        };
        let (at_truth, _, _) = search(&picture, 1);
        assert!(at_truth < 1e-6, "{normalisation:?}: {at_truth}");
        let (grey, after, ssim) = search(&vec![0.5; 3 * SIDE * SIDE], 40);
        assert!((0.6..0.9).contains(&grey) && after < 0.1, "{normalisation:?}: {grey} to {after}");
        // The search finds a picture with nearly the same gradient, but not the photograph.
        assert!(ssim.abs() < 0.1, "{normalisation:?}: SSIM {ssim}");
    }
}

#[test]
fn labels_that_are_none_are_refused() {
    let (network, state) = network();
    let new =
        |labels: &[usize]| NetworkOracle::new(&network, &state, labels, OracleOptions::default()).map(|_| "an oracle");
    assert_eq!(new(&[]), Err(ModelError::EmptyBatch));
    assert_eq!(new(&[1, 10]), Err(ModelError::Label { image: 1, label: 10, classes: 10 }));
}
