//! Tests the room's model on held-out pictures.

use unmask_core::{Architecture, ModelState};
use unmask_model::{Network, device::OpenDevice};
use unmask_relay::{BatchEvaluation, ModelEvaluator};

#[derive(Debug)]
pub struct OnHeldOut(pub OpenDevice);

impl ModelEvaluator for OnHeldOut {
    fn evaluate(
        &self,
        architecture: Architecture,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> anyhow::Result<BatchEvaluation> {
        let network = Network::new(architecture, self.0.device())?;
        let found = network.evaluate_blocking(state, images, labels)?;
        Ok(BatchEvaluation { loss: found.loss, logits: found.logits })
    }
}
