//! A client's work in a round: one gradient or local epochs, then the defence.

use unmask_core::{Defence, MaskSeed, ModelState, ParamLayout, Rule};
use unmask_data::PictureError;
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, ProtectError, ProtectedUpdate};
use unmask_model::{ModelError, Network, Step};

use crate::{Batch, PictureSource};

/// The result of a client's training. It must not leave the device unprotected.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalUpdate {
    /// Mean loss over the samples: at the round's weights under FedSGD, over the first local epoch under FedAvg.
    pub loss: f32,
    /// `[P]`: theta_n, the gradient of that loss, under FedSGD; W_n, the weights after the local epochs, under FedAvg.
    pub values: Vec<f32>,
    /// `[Q]`: batch norm's running statistics after training, which leave in plaintext; empty for a ViT.
    pub statistics: Vec<f32>,
    pub samples: u32,
}

/// A client's work in a round, in a tab, a native client or a simulation.
#[derive(Debug, Clone, Copy)]
pub struct LocalTask<'a> {
    /// The order of `[P]`.
    pub layout: &'a ParamLayout,
    /// Global weights w in plaintext, and running statistics.
    pub state: &'a ModelState,
    /// One gradient, or local epochs.
    pub rule: Rule,
    /// Samples of one local gradient.
    pub batch: usize,
    /// The defence applied to the update before it leaves.
    pub defence: Defence,
    pub cipher: Option<&'a Cipher>,
}

#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Picture(#[from] PictureError),
}

impl LocalTask<'_> {
    pub async fn train(&self, network: &Network, pictures: &impl PictureSource) -> Result<LocalUpdate, TrainingError> {
        match self.rule {
            Rule::FedSgd => {
                let Batch { images, labels } = pictures.batch(0, pictures.len())?;
                let Step { loss, gradient, statistics } =
                    network.loss_and_gradient(self.state, &images, &labels).await?;
                Ok(LocalUpdate { loss, values: gradient, statistics, samples: count(labels.len()) })
            }
            Rule::FedAvg { epochs, rate } => self.local_epochs(network, pictures, epochs, rate).await,
        }
    }

    /// `epochs` epochs of SGD, one batch at a time. SGD keeps no state between batches, so the result equals that of
    /// [`Network::train_locally`] on all pictures, without holding them all at the model's size.
    async fn local_epochs(
        &self,
        network: &Network,
        pictures: &impl PictureSource,
        epochs: u16,
        rate: f32,
    ) -> Result<LocalUpdate, TrainingError> {
        let mut state: Option<ModelState> = None;
        let (mut first_pass, mut samples) = (0.0, 0);
        for epoch in 0..epochs {
            for first in (0..pictures.len()).step_by(self.batch.max(1)) {
                let Batch { images, labels } = pictures.batch(first, self.batch)?;
                let before = state.as_ref().unwrap_or(self.state);
                let trained = network.train_locally(before, &images, &labels, self.batch, 1, rate).await?;
                if epoch == 0 {
                    first_pass += f64::from(trained.loss) * labels.len() as f64;
                    samples += labels.len();
                }
                state = Some(trained.state);
            }
        }
        let ModelState { weights, statistics } =
            state.ok_or(if epochs == 0 { ModelError::NoLocalEpochs } else { ModelError::EmptyBatch })?;
        let loss = (first_pass / samples as f64) as f32;
        Ok(LocalUpdate { loss, values: weights, statistics, samples: count(samples) })
    }

    /// Protects the update so that it may leave the device. `seed` must be fresh from the operating system; in a
    /// simulation it makes the run repeatable.
    ///
    /// # Errors
    /// The values do not fit the layout or are not finite, or the cipher is missing or for another model.
    pub fn protect(&self, values: Vec<f32>, seed: MaskSeed) -> Result<ProtectedUpdate, ProtectError> {
        let reference = self.rule.is_fedavg().then_some(self.state.weights.as_slice());
        self.defence.protect(self.layout, PlainUpdate { values, reference }, KeyMaterial { seed, cipher: self.cipher })
    }
}

fn count(samples: usize) -> u32 {
    u32::try_from(samples).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, VitPreset};
    use unmask_model::{block_on, device::OpenDevice};

    use super::*;

    fn network() -> Network {
        Network::new(Architecture::from(VitPreset::Pico), OpenDevice::cpu().device()).unwrap()
    }

    fn pictures(network: &Network) -> Batch {
        let side = network.architecture().side();
        let images = (0..5 * 3 * side * side).map(|i| (i * i % 251) as f32 / 250.0).collect();
        Batch { images, labels: vec![5, 3, 1, 4, 1] }
    }

    #[test]
    fn local_epochs_in_batches_end_where_one_call_ends() {
        let network = network();
        let (architecture, pictures) = (network.architecture(), pictures(&network));
        let (layout, state) = (architecture.layout(), architecture.initial(7));
        let rule = Rule::FedAvg { epochs: 2, rate: 0.05 };
        let task = LocalTask { layout: &layout, state: &state, rule, batch: 2, defence: Defence::None, cipher: None };
        let found = block_on(task.train(&network, &pictures)).unwrap();
        let Batch { images, labels } = &pictures;
        let expected = block_on(network.train_locally(&state, images, labels, 2, 2, 0.05)).unwrap();
        assert_eq!((found.samples, &found.values), (5, &expected.state.weights));
        assert!((found.loss - expected.loss).abs() < 1e-6, "{} and {}", found.loss, expected.loss);
    }

    #[test]
    fn a_round_without_pictures_is_refused() {
        let network = network();
        let (layout, state) = (network.architecture().layout(), network.architecture().initial(7));
        for rule in [Rule::FedSgd, Rule::FedAvg { epochs: 1, rate: 0.1 }] {
            let task =
                LocalTask { layout: &layout, state: &state, rule, batch: 2, defence: Defence::None, cipher: None };
            let refused = block_on(task.train(&network, &Batch::default()));
            assert!(matches!(refused, Err(TrainingError::Model(ModelError::EmptyBatch))), "{rule}: {refused:?}");
        }
    }
}
