//! The objective, its slope and ten steps against a double backward pass in f64.

use std::{fs::File, path::Path};

use unmask_core::{Architecture, VitPreset, VitSpec};
use unmask_model::{
    Network, OracleOptions, Precision, WeightScope, block_on,
    device::OpenDevice,
    weights::{TensorReader, read_state},
};

use super::*;
use crate::NetworkOracle;

const LABEL: usize = 3;
const TOLERANCE: f64 = 1e-3;

/// A file of the full reference vectors, which lie beside the checkout where there are any.
fn full_vectors(file: &str) -> Option<TensorReader<File>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors").join(file);
    if path.is_file() {
        return Some(TensorReader::open(&path).unwrap());
    }
    eprintln!("skipped: no reference vectors at {}", path.display());
    None
}

fn deviation(given: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(given.len(), expected.len());
    let differences: Vec<f64> = given.iter().zip(expected).map(|(given, expected)| given - expected).collect();
    norm(&differences) / norm(expected)
}

/// Update and mask of one case; what is not in the file, no objective may look at.
fn case(file: &mut TensorReader<File>, network: &Network, rate: &str) -> ReceivedGradient {
    let (mut update, mut kept) = (Vec::new(), Vec::new());
    for param in network.layout() {
        let gradient = format!("{rate}/gradient/{}", param.name);
        if file.shape(&gradient).is_some() {
            update.extend(file.read::<f32>(&gradient).unwrap().values);
            let mask = file.read::<f32>(&format!("{rate}/mask/{}", param.name)).unwrap().values;
            kept.extend(mask.iter().map(|&mask| mask == 1.0));
        } else {
            update.resize(param.range.end, 0.0);
            kept.resize(param.range.end, false);
        }
    }
    ReceivedGradient::aware(&update, &kept).unwrap()
}

#[test]
fn objective_slope_and_ten_steps_are_the_references() {
    let Some(mut file) = full_vectors("vit_lab_patch4_32_matching/matching.safetensors") else { return };
    let Some(weights) = full_vectors("vit_lab_patch4_32_standard_astronaut/weights.safetensors") else { return };
    let network = Network::new(Architecture::from(VitPreset::Lab), OpenDevice::cpu().device()).unwrap();
    let state = read_state(weights, network.architecture()).unwrap();
    let start = file.read::<f64>("x0").unwrap().values;
    for rate in ["r0.0", "r0.5"] {
        let evidence = case(&mut file, &network, rate);
        let mut expected = |name: &str| file.read::<f64>(&format!("{rate}/{name}")).unwrap().values;
        let (terms, slope, after) = (expected("loss"), expected("dx"), expected("x_after_10"));
        for precision in [Precision::F64, Precision::F32] {
            let options = OracleOptions { scope: WeightScope::FirstBlock, precision, ..OracleOptions::default() };
            let oracle = NetworkOracle::new(&network, &state, &[LABEL], options).unwrap();
            let problem =
                Problem::new(oracle, Objective::tokens(&VitSpec::new(VitPreset::Lab).config()), evidence.clone())
                    .unwrap();
            let (found, found_slope) = block_on(problem.evaluate(&start)).unwrap();
            // The reference's steps leave total variation out.
            let settings = Settings { variation: 0.0, ..Settings::default() };
            let mut matching = Matching::from_normalised(problem, start.clone(), settings);
            for _ in 0..10 {
                matching.step_blocking().unwrap();
            }
            let deviations = [
                deviation(&[found.token, found.patch, found.rest], &terms),
                deviation(&found_slope, &slope),
                deviation(&matching.x, &after),
            ];
            eprintln!("{rate}, {precision:?}: terms, slope and ten steps off by {deviations:?}");
            assert!(deviations.iter().all(|&deviation| deviation < TOLERANCE), "{rate}, {precision:?}: {deviations:?}");
        }
    }
}
