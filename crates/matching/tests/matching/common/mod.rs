//! Sample photographs and their similarity.

use std::path::PathBuf;

use unmask_data::{decode, metrics};

/// Loads a sample photograph as model input `[3, side, side]` in [0, 1].
pub fn photograph(name: &str, side: usize) -> Vec<f32> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../www/samples").join(name);
    decode(&std::fs::read(path).unwrap()).unwrap().for_model(side)
}

/// SSIM of two square pictures `[side, side, 3]`.
pub fn ssim(a: &[f32], b: &[f32], side: usize) -> f64 {
    metrics::ssim(a, b, side, side).unwrap()
}
