//! The objective, its slope and ten steps against a double backward pass in f64.

use std::{fs::File, path::Path};

use unmask_core::{ModelSpec, Preset};
use unmask_model::{Precision, Reach, Vit, block_on, device::OpenDevice, weights::TensorReader};

use super::*;
use crate::VitNetwork;

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
fn case(file: &mut TensorReader<File>, vit: &Vit, rate: &str) -> ReceivedGradient {
    let (mut update, mut kept) = (Vec::new(), Vec::new());
    for param in vit.layout() {
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
    let Some(mut weights) = full_vectors("vit_lab_patch4_32_standard_astronaut/weights.safetensors") else { return };
    let vit = Vit::new(ModelSpec::new(Preset::VitLabPatch4_32), OpenDevice::cpu().device()).unwrap();
    let weights = weights.read_flat::<f32>(vit.layout()).unwrap();
    let start = file.read::<f64>("x0").unwrap().values;
    for rate in ["r0.0", "r0.5"] {
        let evidence = case(&mut file, &vit, rate);
        let mut expected = |name: &str| file.read::<f64>(&format!("{rate}/{name}")).unwrap().values;
        let (terms, slope, after) = (expected("loss"), expected("dx"), expected("x_after_10"));
        for precision in [Precision::F64, Precision::F32] {
            let network = VitNetwork::new(&vit, &weights, &[LABEL], Reach::FirstBlock, precision).unwrap();
            let problem = Problem::new(network, Objective::tokens(vit.config()), evidence.clone()).unwrap();
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
