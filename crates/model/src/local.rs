//! The local epochs of FedAvg.

use unmask_params::VitConfig;

use crate::{ModelError, Vit};

/// What a client's local epochs gave.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalTraining {
    /// Mean cross-entropy over all samples, each measured in the first epoch just before the step its batch led to. With
    /// one batch an epoch that is the loss at the weights given.
    pub loss: f32,
    /// W_n of FLRSP Eqs. 3 and 4: the client's weights after the last step, in the order of the model's
    /// [`ParamLayout`](unmask_params::ParamLayout).
    pub weights: Vec<f32>,
}

impl Vit {
    /// Plain SGD, w <- w - `rate` * dl/dw, over `images` `[samples, 3, side, side]` with `labels` `[samples]`: in their
    /// order, `batch` at a time (the last batch takes what is left), `epochs` times over.
    ///
    /// # Errors
    /// Besides those of a [step](Vit::loss_and_gradient): a batch of 0, 0 epochs, or a rate that is not a finite number
    /// above 0.
    pub async fn train_locally(
        &self,
        weights: &[f32],
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
        self.check(weights, images, labels.len())?;
        let VitConfig { image: side, .. } = *self.config();
        let image_len = VitConfig::CHANNELS * side * side;
        let mut weights = weights.to_vec();
        let mut first_pass = 0.0;
        for epoch in 0..epochs {
            for (labels, images) in labels.chunks(batch).zip(images.chunks(batch.saturating_mul(image_len))) {
                let step = self.loss_and_gradient(&weights, images, labels).await?;
                if epoch == 0 {
                    first_pass += f64::from(step.loss) * labels.len() as f64;
                }
                for (weight, gradient) in weights.iter_mut().zip(&step.gradient) {
                    *weight -= rate * gradient;
                }
            }
        }
        // Every later step would have found this out; after the last one nobody else looks.
        match weights.iter().find(|weight| !weight.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "weights after local training".into(), value }),
            None => Ok(LocalTraining { loss: (first_pass / labels.len() as f64) as f32, weights }),
        }
    }

    /// [`Vit::train_locally`], waiting on the current thread.
    ///
    /// # Errors
    /// As [`Vit::train_locally`].
    #[cfg(not(target_family = "wasm"))]
    pub fn train_locally_blocking(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
        batch: usize,
        epochs: u16,
        rate: f32,
    ) -> Result<LocalTraining, ModelError> {
        crate::blocking::block_on(self.train_locally(weights, images, labels, batch, epochs, rate))
    }
}
