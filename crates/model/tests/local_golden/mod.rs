//! One local epoch of FedAvg with fixed numbers going in, and what came out of it natively on the CPU.

use unmask_core::{InitOptions, ModelSpec, Preset, VitConfig, initial_weights};
use unmask_model::{Device, LocalTraining, Vit};

/// A line for the loss, then one for the change of one of [`STRIDE`] weights.
const EXPECTED: &str = include_str!("../../testdata/local_training.txt");
const STRIDE: usize = 997;

/// What goes in.
pub struct Task {
    pub vit: Vit,
    pub weights: Vec<f32>,
    /// `[2, 3, side, side]`
    pub images: Vec<f32>,
    pub labels: Vec<usize>,
    pub batch: usize,
    pub epochs: u16,
    pub rate: f32,
}

impl Task {
    pub fn new(device: &Device) -> Self {
        let vit = Vit::new(ModelSpec::new(Preset::VitPicoPatch4_16), device).unwrap();
        let config = vit.config();
        let weights = initial_weights(config, 21, InitOptions::default());
        let pixels = 2 * VitConfig::CHANNELS * config.image * config.image;
        // Sevenths and elevenths need no sine, which platforms round differently.
        let images = (0..pixels).map(|i| ((i * i) % 77) as f32 / 76.0).collect();
        Self { vit, weights, images, labels: vec![3, 8], batch: 1, epochs: 1, rate: 0.1 }
    }

    /// The loss and the changes W_n - w as they stand in the file.
    pub fn lines(&self, trained: &LocalTraining) -> String {
        let changes = trained.weights.iter().zip(&self.weights).step_by(STRIDE).map(|(after, before)| after - before);
        std::iter::once(trained.loss).chain(changes).map(|value| format!("{value:e}\n")).collect()
    }

    /// Each number within a thousandth of itself and a millionth: far above rounding, far below any mistake.
    pub fn check(&self, trained: &LocalTraining) -> Result<(), String> {
        let read = |text: &str| -> Vec<f32> { text.lines().map(|line| line.parse().unwrap()).collect() };
        let (found, expected) = (read(&self.lines(trained)), read(EXPECTED));
        if found.len() != expected.len() {
            return Err(format!("{} numbers, the file has {}", found.len(), expected.len()));
        }
        let differs = |(found, expected): (&f32, &f32)| (found - expected).abs() > 1e-3 * expected.abs() + 1e-6;
        match found.iter().zip(&expected).position(differs) {
            Some(line) => Err(format!("line {}: {} instead of {}", line + 1, found[line], expected[line])),
            None => Ok(()),
        }
    }
}
