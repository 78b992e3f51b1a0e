//! A client's work in a round: one gradient or local epochs, then the defence.

use unmask_core::{Defence, GaussianNoise, MaskSeed, ModelState, ParamLayout, Rule};
use unmask_data::PictureError;
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, ProtectError, ProtectedUpdate, clip_factor};
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
                if let Some(clip) = self.defence.noise().and_then(GaussianNoise::clip_of_picture) {
                    return self.clipped_gradients(network, pictures, clip).await;
                }
                let Batch { images, labels } = pictures.batch(0, pictures.len())?;
                let Step { loss, gradient, statistics } =
                    network.loss_and_gradient(self.state, &images, &labels).await?;
                Ok(LocalUpdate { loss, values: gradient, statistics, samples: count(labels.len()) })
            }
            Rule::FedAvg { epochs, rate } => self.local_epochs(network, pictures, epochs, rate).await,
        }
    }

    /// The mean of the pictures' gradients, each clipped to L2 norm `clip`: (1 / B) sum_b g_b min(1, clip / |g_b|), which
    /// DP-SGD adds noise to (Abadi et al. 2016, Algorithm 1).
    async fn clipped_gradients(
        &self,
        network: &Network,
        pictures: &impl PictureSource,
        clip: f64,
    ) -> Result<LocalUpdate, TrainingError> {
        let count = pictures.len();
        let (mut values, mut loss) = (vec![0.0; self.layout.len()], 0.0);
        let mut statistics = vec![0.0; self.state.statistics.len()];
        for place in 0..count {
            let Batch { images, labels } = pictures.batch(place, 1)?;
            let step = network.loss_and_gradient(self.state, &images, &labels).await?;
            let factor = (clip_factor(&step.gradient, clip) / count as f64) as f32;
            values.iter_mut().zip(&step.gradient).for_each(|(sum, value)| *sum += factor * value);
            statistics.iter_mut().zip(&step.statistics).for_each(|(sum, value)| *sum += value / count as f32);
            loss += f64::from(step.loss) / count as f64;
        }
        if count == 0 {
            return Err(ModelError::EmptyBatch.into());
        }
        Ok(LocalUpdate { loss: loss as f32, values, statistics, samples: self::count(count) })
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

    /// Protects the update of `samples` pictures so that it may leave the device. `seed` must be fresh from the operating
    /// system; in a simulation it makes the run repeatable.
    ///
    /// # Errors
    /// The values do not fit the layout or are not finite, or the cipher is missing or for another model.
    pub fn protect(&self, values: Vec<f32>, samples: u32, seed: MaskSeed) -> Result<ProtectedUpdate, ProtectError> {
        let reference = self.rule.is_fedavg().then_some(self.state.weights.as_slice());
        let defence = match self.defence {
            Defence::Gaussian(noise) => Defence::Gaussian(noise.of_mean(samples)),
            other => other,
        };
        defence.protect(self.layout, PlainUpdate { values, reference }, KeyMaterial { seed, cipher: self.cipher })
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

    /// DP-SGD by hand: each picture's gradient is clipped by itself, and the noise is divided by their number.
    #[test]
    fn each_picture_is_clipped_and_the_noise_is_of_their_mean() {
        let network = network();
        let (layout, state) = (network.architecture().layout(), network.architecture().initial(7));
        let Batch { images, labels } = pictures(&network);
        let noise: Defence = "gaussian:eps=4,delta=1e-5,clip=0.5,per=picture".parse().unwrap();
        let task =
            LocalTask { layout: &layout, state: &state, rule: Rule::FedSgd, batch: 5, defence: noise, cipher: None };
        let values = images.len() / 5;
        let mut expected = vec![0.0_f64; layout.len()];
        for (image, label) in images.chunks(values).zip(&labels) {
            let gradient = block_on(network.loss_and_gradient(&state, image, &[*label])).unwrap().gradient;
            let norm = gradient.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            assert!(norm > 0.5, "{norm}: clipping must matter");
            expected.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += f64::from(value) * 0.5 / norm / 5.0);
        }
        let trained = block_on(task.train(&network, &Batch { images, labels })).unwrap();
        assert_eq!(trained.samples, 5);
        for (found, expected) in trained.values.iter().zip(&expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
        }
        let sent = task.protect(trained.values, 5, MaskSeed([3; 32])).unwrap().values;
        let squares: f64 = sent.iter().zip(&expected).map(|(sent, mean)| (f64::from(*sent) - mean).powi(2)).sum();
        let deviation = (squares / sent.len() as f64).sqrt();
        let whole = noise.noise().unwrap().deviation();
        assert!((deviation * 5.0 / whole - 1.0).abs() < 0.02, "{deviation} of {whole}");
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
