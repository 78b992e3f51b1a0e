//! One local epoch of FedAvg with fixed inputs, and its results natively on the CPU.

use unmask_core::{Architecture, ModelState, VitConfig, VitPreset};
use unmask_model::{Device, LocalTraining, Network};

/// A line for the loss, then one for the change of every [`STRIDE`]th weight.
const EXPECTED: &str = include_str!("../../../testdata/local_training.txt");
const STRIDE: usize = 997;

pub struct Task {
    pub network: Network,
    pub state: ModelState,
    /// `[2, 3, side, side]`
    pub images: Vec<f32>,
    pub labels: Vec<usize>,
    pub batch: usize,
    pub epochs: u16,
    pub rate: f32,
}

impl Task {
    pub fn new(device: &Device) -> Self {
        let network = Network::new(Architecture::from(VitPreset::Pico), device).unwrap();
        let architecture = network.architecture();
        let pixels = 2 * VitConfig::CHANNELS * architecture.side() * architecture.side();
        // Avoids sine, which platforms round differently.
        let images = (0..pixels).map(|i| ((i * i) % 77) as f32 / 76.0).collect();
        Self { network, state: architecture.initial(21), images, labels: vec![3, 8], batch: 1, epochs: 1, rate: 0.1 }
    }

    /// Returns the loss and the changes W_n - w in the file's format.
    pub fn lines(&self, trained: &LocalTraining) -> String {
        let changes =
            trained.state.weights.iter().zip(&self.state.weights).step_by(STRIDE).map(|(after, before)| after - before);
        std::iter::once(trained.loss).chain(changes).map(|value| format!("{value:e}\n")).collect()
    }

    /// Compares each number with a tolerance of 1e-3 relative plus 1e-6: far above rounding, far below any mistake.
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
