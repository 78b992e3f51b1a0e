//! The local epochs of FedAvg.

use unmask_core::ModelState;

use crate::{ModelError, Network, error::check_finite};

#[derive(Debug, Clone, PartialEq)]
pub struct LocalTraining {
    /// Mean cross entropy over all samples in the first epoch, each measured just before its batch's step. With one
    /// batch per epoch, this is the loss at the initial weights.
    pub loss: f32,
    /// Weights (W_n of FLRSP Eqs. 3 and 4) and running statistics after the last step.
    pub state: ModelState,
}

impl Network {
    /// Runs plain SGD, w <- w - `rate` * dl/dw, over `images` `[samples, 3, side, side]` with `labels` `[samples]` for
    /// `epochs` epochs. Takes the samples in order, `batch` at a time; the last batch may be smaller. Batch norm's
    /// running statistics move with every batch.
    ///
    /// # Errors
    /// Those of a [step](Network::loss_and_gradient), and: a batch of 0, 0 epochs, or a rate that is not a finite
    /// number above 0.
    pub async fn train_locally(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        batch: usize,
        epochs: u16,
        rate: f32,
    ) -> Result<LocalTraining, ModelError> {
        if batch == 0 {
            return Err(ModelError::NoLocalBatch);
        }
        if epochs == 0 {
            return Err(ModelError::NoLocalEpochs);
        }
        if !(rate.is_finite() && rate > 0.0) {
            return Err(ModelError::LocalRate { rate });
        }
        self.check_state(state)?;
        self.check_images(images, labels.len())?;
        let mut state = state.clone();
        let mut first_pass = 0.0;
        for epoch in 0..epochs {
            let images = images.chunks(batch.saturating_mul(self.image_len()));
            for (labels, images) in labels.chunks(batch).zip(images) {
                let step = self.loss_and_gradient(&state, images, labels).await?;
                if epoch == 0 {
                    first_pass += f64::from(step.loss) * labels.len() as f64;
                }
                for (weight, gradient) in state.weights.iter_mut().zip(&step.gradient) {
                    *weight -= rate * gradient;
                }
                state.statistics = step.statistics;
                self.recycle(step.gradient);
            }
        }
        // A later step would detect this, but nothing checks the weights after the last one.
        check_finite("weights after local training", &state.weights)?;
        Ok(LocalTraining { loss: (first_pass / labels.len() as f64) as f32, state })
    }
}
