//! Gradients of photographs, for tests.

use unmask_core::{Architecture, InitOptions, ParamLayout, VitConfig, initial_weights};
use unmask_data::{Picture, decode};
use unmask_engine::{Engine, Normalisation, Wanted};

use crate::{Evidence, Rounding, TensorSource, Tensors};

pub(super) struct Case {
    pub(super) evidence: Evidence,
    /// `[side, side, 3]` in [0, 1].
    pub(super) pictures: Vec<Vec<f32>>,
}

/// The sample photographs, `[3, side, side]` in [0, 1], rounded to 8 bits as a data set stores them.
pub(super) fn photographs(side: usize) -> Vec<Vec<f32>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    let files = ["astronaut.png", "cameraman.jpg", "cat.png", "coffee.png", "hubble.jpg", "rocket.png"];
    let read = |name| -> Picture { decode(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let rounded = |value: f32| (value * 255.0).round() / 255.0;
    files.map(|name| read(name).for_model(side).into_iter().map(rounded).collect()).to_vec()
}

/// The gradient of a batch of the sample photographs `which`, with these labels, at fresh weights.
pub(super) fn case(config: &VitConfig, which: &[usize], labels: &[usize], seed: u64, rounding: Rounding) -> Case {
    let photographs = photographs(config.image);
    let images: Vec<f32> = which.iter().flat_map(|&index| photographs[index].clone()).collect();
    let weights = wide(&initial_weights(config, seed, InitOptions::default()));
    let evidence = Evidence {
        weights: tensors(config, TensorSource::Weights, Rounding::F32, &weights),
        gradients: gradient(config, &images, labels, seed, rounding),
    };
    let hwc = |index: &usize| unmask_data::chw_to_hwc(&photographs[*index], config.image, config.image);
    Case { evidence, pictures: which.iter().map(hwc).collect() }
}

/// The gradient of pictures `[3, side, side]` at fresh weights.
pub(super) fn gradient(config: &VitConfig, images: &[f32], labels: &[usize], seed: u64, rounding: Rounding) -> Tensors {
    let weights = initial_weights(config, seed, InitOptions::default());
    let architecture = Architecture::Vit(*config);
    let wanted = Wanted { weights: weights.len(), images: false };
    let gradient = if rounding == Rounding::F64 {
        let engine = Engine::<f64>::new(architecture);
        engine.differentiate(&wide(&weights), &[], &wide(images), labels, Normalisation::Running, wanted).gradient
    } else {
        let engine = Engine::<f32>::new(architecture);
        wide(&engine.differentiate(&weights, &[], images, labels, Normalisation::Running, wanted).gradient)
    };
    tensors(config, TensorSource::Gradients, rounding, &gradient)
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn tensors(config: &VitConfig, source: TensorSource, rounding: Rounding, flat: &[f64]) -> Tensors {
    let mut tensors = Tensors::new(source, config, rounding);
    for param in &ParamLayout::vit(config) {
        tensors.insert(&param.name, &param.shape, flat[param.range.clone()].to_vec()).unwrap();
    }
    tensors
}
