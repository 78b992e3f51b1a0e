//! The local epochs of FedAvg.

use unmask_core::ModelState;

use crate::{ModelError, NetworkLocalTraining, NetworkStep, Resnet, Vit, border::Border};

/// What a client's local epochs gave.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalTraining {
    /// Mean cross-entropy over all samples, each measured in the first epoch just before the step its batch led to. With
    /// one batch an epoch that is the loss at the weights given.
    pub loss: f32,
    /// W_n of FLRSP Eqs. 3 and 4: the client's weights after the last step, in the order of the model's
    /// [`ParamLayout`](unmask_core::ParamLayout).
    pub weights: Vec<f32>,
}

/// How a client trains on its own samples.
#[derive(Clone, Copy)]
struct Plan {
    batch: usize,
    epochs: u16,
    rate: f32,
}

impl Plan {
    fn new(batch: usize, epochs: u16, rate: f32) -> Result<Self, ModelError> {
        if batch == 0 {
            return Err(ModelError::NoLocalBatch);
        }
        if epochs == 0 {
            return Err(ModelError::NoLocalEpochs);
        }
        if !(rate.is_finite() && rate > 0.0) {
            return Err(ModelError::LocalRate { rate });
        }
        Ok(Self { batch, epochs, rate })
    }

    /// Goes through the samples batch by batch from `state` on, with `step` at each.
    async fn run(
        self,
        border: &Border,
        mut state: ModelState,
        images: &[f32],
        labels: &[usize],
        step: impl AsyncFn(&ModelState, &[f32], &[usize]) -> Result<NetworkStep, ModelError>,
    ) -> Result<NetworkLocalTraining, ModelError> {
        let image_len = border.image_len();
        let mut first_pass = 0.0;
        for epoch in 0..self.epochs {
            let images = images.chunks(self.batch.saturating_mul(image_len));
            for (labels, images) in labels.chunks(self.batch).zip(images) {
                let step = step(&state, images, labels).await?;
                if epoch == 0 {
                    first_pass += f64::from(step.loss) * labels.len() as f64;
                }
                for (weight, gradient) in state.weights.iter_mut().zip(&step.gradient) {
                    *weight -= self.rate * gradient;
                }
                state.statistics = step.statistics;
            }
        }
        // Every later step would have found this out; after the last one nobody else looks.
        match state.weights.iter().find(|weight| !weight.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "weights after local training".into(), value }),
            None => Ok(NetworkLocalTraining { loss: (first_pass / labels.len() as f64) as f32, state }),
        }
    }
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
        let plan = Plan::new(batch, epochs, rate)?;
        self.border.check(weights, images, labels.len())?;
        let state = ModelState { weights: weights.to_vec(), statistics: Vec::new() };
        let step = async |state: &ModelState, images: &[f32], labels: &[usize]| {
            let step = self.loss_and_gradient(&state.weights, images, labels).await?;
            Ok(NetworkStep { loss: step.loss, gradient: step.gradient, statistics: Vec::new() })
        };
        let NetworkLocalTraining { loss, state } = plan.run(&self.border, state, images, labels, step).await?;
        Ok(LocalTraining { loss, weights: state.weights })
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

impl Resnet {
    /// Plain SGD as [`Vit::train_locally`] does it, in training mode: every batch moves the running statistics.
    ///
    /// # Errors
    /// Besides those of a [step](Resnet::loss_and_gradient): a batch of 0, 0 epochs, or a rate that is not a finite
    /// number above 0.
    pub async fn train_locally(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        batch: usize,
        epochs: u16,
        rate: f32,
    ) -> Result<NetworkLocalTraining, ModelError> {
        let plan = Plan::new(batch, epochs, rate)?;
        self.check(state, images, labels.len())?;
        let step = async |state: &ModelState, images: &[f32], labels: &[usize]| {
            self.loss_and_gradient(state, images, labels).await
        };
        plan.run(&self.border, state.clone(), images, labels, step).await
    }
}
