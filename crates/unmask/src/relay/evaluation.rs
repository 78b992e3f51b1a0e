//! The room's model on held-out pictures.

use unmask_core::ModelSpec;
use unmask_model::{Vit, device::OpenDevice};
use unmask_relay::{Answers, Evaluates};

/// Runs a room's model on one device.
#[derive(Debug)]
pub struct OnHeldOut {
    device: OpenDevice,
}

impl OnHeldOut {
    /// On this device.
    pub fn new(device: OpenDevice) -> Self {
        Self { device }
    }
}

impl Evaluates for OnHeldOut {
    fn evaluate(&self, spec: ModelSpec, weights: &[f32], images: &[f32], labels: &[usize]) -> Result<Answers, String> {
        let vit = Vit::new(spec, self.device.device()).map_err(|error| error.to_string())?;
        let found = vit.evaluate_blocking(weights, images, labels).map_err(|error| error.to_string())?;
        Ok(Answers { loss: found.loss, logits: found.logits })
    }
}
