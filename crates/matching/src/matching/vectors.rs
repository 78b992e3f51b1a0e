//! Compares the objective, its slope and ten steps with a double backward pass in f64 by `scripts/make_vectors.py`.

use std::{fs::File, path::Path};

use unmask_core::{Architecture, ModelState, VitConfig, VitPreset};
use unmask_model::{
    Network, OracleOptions, Precision, WeightScope,
    device::OpenDevice,
    parity,
    weights::{TensorReader, read_state},
};

use super::{tests::norm, *};
use crate::NetworkOracle;

const LABEL: usize = 3;

fn open(file: &str) -> TensorReader<File> {
    TensorReader::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn deviation(given: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(given.len(), expected.len());
    let differences: Vec<f64> = given.iter().zip(expected).map(|(given, expected)| given - expected).collect();
    norm(&differences) / norm(expected)
}

/// Reads the update, half of it hidden with `masked`. Objectives must not use parameters missing from the file.
fn received(file: &mut TensorReader<File>, network: &Network, masked: bool) -> ReceivedGradient {
    let (mut update, mut kept) = (Vec::new(), Vec::new());
    for param in network.layout() {
        let gradient = format!("gradient/{}", param.name);
        if file.shape(&gradient).is_none() {
            update.resize(param.range.end, 0.0);
            kept.resize(param.range.end, false);
            continue;
        }
        let mask = file.read::<f32>(&format!("mask/{}", param.name)).unwrap().values;
        let mask = mask.iter().map(|&mask| !masked || mask == 1.0);
        let gradient = file.read::<f32>(&gradient).unwrap().values;
        update.extend(gradient.iter().zip(mask.clone()).map(|(&value, kept)| if kept { value } else { 0.0 }));
        kept.extend(mask);
    }
    ReceivedGradient::aware(&update, &kept).unwrap()
}

fn objective_slope_and_ten_steps_are_the_references(
    preset: VitPreset,
    state: &ModelState,
    mut file: TensorReader<File>,
) {
    let network = Network::new(Architecture::from(preset), OpenDevice::cpu().device()).unwrap();
    let start = file.read::<f64>("x0").unwrap().values;
    for (rate, masked) in [("r0.0", false), ("r0.5", true)] {
        let received = received(&mut file, &network, masked);
        let mut expected = |name: &str| file.read::<f64>(&format!("{rate}/{name}")).unwrap().values;
        let (terms, slope, after) = (expected("loss"), expected("dx"), expected("x_after_10"));
        for (precision, tolerance) in [(Precision::F64, 1e-9), (Precision::F32, 1e-4)] {
            let options = OracleOptions { scope: WeightScope::FirstBlock, precision, ..OracleOptions::default() };
            let oracle = NetworkOracle::new(&network, state, &[LABEL], options).unwrap();
            let objective = Objective::tokens(&VitConfig::from(preset));
            let problem = Problem::new(oracle, objective, received.clone()).unwrap();
            let Evaluation { terms: found, slope: found_slope, .. } = problem.evaluate(&start).unwrap();
            // The reference's steps have no total variation.
            let options = MatchingOptions { variation: 0.0, ..MatchingOptions::default() };
            let mut matching = Matching::from_normalised(problem, start.clone(), options);
            for _ in 0..10 {
                matching.step().unwrap();
            }
            let deviations = [
                deviation(&[found.token, found.patch, found.rest], &terms),
                deviation(&found_slope, &slope),
                deviation(&matching.x, &after),
            ];
            eprintln!("{rate}, {precision:?}: terms, slope and ten steps off by {deviations:?}");
            assert!(deviations.iter().all(|&deviation| deviation < tolerance), "{rate}, {precision:?}: {deviations:?}");
        }
    }
}

/// Uses the weights of the PyTorch parity check; every one of them is random.
#[test]
fn pico_matches_as_pytorch_does() {
    let state = parity::Reference::pico(false).unwrap().state;
    objective_slope_and_ten_steps_are_the_references(VitPreset::Pico, &state, open("testdata/matching.safetensors"));
}

#[test]
#[ignore = "needs `python scripts/make_vectors.py --lab`"]
fn lab_matches_as_pytorch_does() {
    let folder = "../../data/vectors/vit_lab_patch4_32";
    let weights = open(&format!("{folder}_standard_astronaut/weights.safetensors"));
    let state = read_state(weights, Architecture::from(VitPreset::Lab)).unwrap();
    let file = open(&format!("{folder}_matching/matching.safetensors"));
    objective_slope_and_ten_steps_are_the_references(VitPreset::Lab, &state, file);
}
