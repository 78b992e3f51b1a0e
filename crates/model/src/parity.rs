//! Compares any device with PyTorch and timm.
//!
//! The references are `vit_pico_patch4_16` with and without the April block, batch 2, computed in float64 by
//! `scripts/make_reference.py`. Every parameter is random, so that no zero bias or unit norm hides a mistake.

use unmask_core::{Architecture, ModelState, ParamLayout, VitPreset};

use crate::{
    Device, ModelError, Network,
    weights::{TensorReader, WeightsError},
};

pub const LOGIT_TOLERANCE: f64 = 1e-5;
pub const LOSS_TOLERANCE: f64 = 1e-6;
/// Largest norm-wise relative error of a parameter's gradient.
pub const GRADIENT_TOLERANCE: f64 = 1e-4;
/// A model with weights and a batch, and PyTorch's results.
#[derive(Debug, Clone)]
pub struct Reference {
    pub architecture: Architecture,
    pub state: ModelState,
    /// `[batch, 3, side, side]` in [0, 1].
    pub images: Vec<f32>,
    /// `[batch]`
    pub labels: Vec<usize>,
    /// `[batch, classes]`
    pub logits: Vec<f64>,
    pub loss: f64,
    /// Flat gradient of the loss.
    pub gradient: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    pub logits: f64,
    pub loss: f64,
    /// Largest norm-wise relative error of a parameter's gradient.
    pub gradient: f64,
    pub worst_param: String,
}

impl Deviation {
    /// Whether all three are within this module's tolerances.
    pub fn is_within_tolerance(&self) -> bool {
        self.logits <= LOGIT_TOLERANCE && self.loss <= LOSS_TOLERANCE && self.gradient <= GRADIENT_TOLERANCE
    }
}

/// Deviations of one device from the committed references.
#[derive(Debug, Clone, PartialEq)]
pub struct ParityReport {
    pub standard: Deviation,
    pub april: Deviation,
}

#[derive(Debug, thiserror::Error)]
pub enum ParityError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Reference(#[from] WeightsError),
    #[error(
        "{} (April block: {}) deviates from PyTorch: logits by {:e}, loss by {:e}, gradient of {} by {:e}",
        architecture, architecture.april_block(), deviation.logits, deviation.loss, deviation.worst_param, deviation.gradient
    )]
    Deviates { architecture: Architecture, deviation: Deviation },
}

impl Reference {
    /// Reads the committed reference of `vit_pico_patch4_16`.
    ///
    /// # Errors
    /// If the file does not have the contents that its script writes.
    pub fn pico(april_block: bool) -> Result<Self, WeightsError> {
        let bytes: &[u8] = if april_block {
            include_bytes!("../testdata/pico_april.safetensors")
        } else {
            include_bytes!("../testdata/pico_standard.safetensors")
        };
        let architecture = Architecture::from(VitPreset::Pico).with_april_block(april_block);
        let mut reader = TensorReader::from_bytes("the pico reference", bytes)?;
        let layout = architecture.layout();
        let mut weights = Vec::with_capacity(layout.len());
        let mut gradient = Vec::with_capacity(layout.len());
        for param in &layout {
            weights.extend(reader.read::<f32>(&format!("weights.{}", param.name))?.values);
            gradient.extend(reader.read::<f64>(&format!("gradients.{}", param.name))?.values);
        }
        Ok(Self {
            architecture,
            state: ModelState::from_weights(weights),
            images: reader.read("input")?.values,
            labels: reader.read::<f32>("labels")?.values.iter().map(|&label| label as usize).collect(),
            logits: reader.read("logits")?.values,
            loss: reader.read::<f64>("loss")?.values.iter().sum(),
            gradient,
        })
    }

    /// Computes logits, loss and gradient on `device` and compares them.
    ///
    /// # Errors
    /// If the step fails.
    pub async fn deviation(&self, device: &Device) -> Result<Deviation, ModelError> {
        let network = Network::new(self.architecture, device)?;
        let evaluation = network.evaluate(&self.state, &self.images, &self.labels).await?;
        let step = network.loss_and_gradient(&self.state, &self.images, &self.labels).await?;
        let logits = max_error(&evaluation.logits, &self.logits);
        let loss = [evaluation.loss, step.loss].map(|loss| (f64::from(loss) - self.loss).abs());
        let (worst_param, gradient) = worst_gradient(network.layout(), &step.gradient, &self.gradient);
        Ok(Deviation { logits, loss: loss[0].max(loss[1]), gradient, worst_param })
    }
}

/// Compares `device` with PyTorch on both committed references.
///
/// # Errors
/// If a step fails or a deviation exceeds its tolerance.
pub async fn check(device: &Device) -> Result<ParityReport, ParityError> {
    let mut deviations = Vec::new();
    for april_block in [false, true] {
        let reference = Reference::pico(april_block)?;
        let deviation = reference.deviation(device).await?;
        if !deviation.is_within_tolerance() {
            return Err(ParityError::Deviates { architecture: reference.architecture, deviation });
        }
        deviations.push(deviation);
    }
    let april = deviations.remove(1);
    let standard = deviations.remove(0);
    Ok(ParityReport { standard, april })
}

/// Returns infinity if the lengths differ.
fn max_error(given: &[f32], expected: &[f64]) -> f64 {
    if given.len() != expected.len() {
        return f64::INFINITY;
    }
    given.iter().zip(expected).map(|(&g, &e)| (f64::from(g) - e).abs()).fold(0.0, f64::max)
}

/// Returns the parameter whose gradient has the largest relative error in norm. Treats the thirds of `attn.qkv`
/// separately.
///
/// The norm of a third counts as at least a hundredth of the whole tensor's. Softmax ignores a constant added to all
/// its inputs, so the key bias has gradient zero in exact arithmetic and only rounding noise otherwise. After the April
/// block, tokens are nearly equal, and q and k have almost no gradient either. f32 resolves none of these.
fn worst_gradient(layout: &ParamLayout, given: &[f32], expected: &[f64]) -> (String, f64) {
    let mut worst = (String::new(), 0.0);
    for param in layout {
        let thirds: &[&str] = if param.name.contains("attn.qkv") { &["(q)", "(k)", "(v)"] } else { &[""] };
        let len = param.range.len() / thirds.len();
        let whole = norm(expected[param.range.clone()].iter().copied());
        for (index, third) in thirds.iter().enumerate() {
            let range = param.range.start + index * len..param.range.start + (index + 1) * len;
            let scale = norm(expected[range.clone()].iter().copied()).max(0.01 * whole);
            let error = norm(given[range.clone()].iter().zip(&expected[range]).map(|(&g, &e)| f64::from(g) - e));
            let relative = error / scale;
            if relative.is_nan() || relative > worst.1 {
                worst = (format!("{}{third}", param.name), relative);
            }
        }
    }
    worst
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}
