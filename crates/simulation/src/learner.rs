//! What a client does in a round.

use unmask_core::{Defence, MaskSeed, ModelState, ParamLayout, Rule};
use unmask_data::datasets::Labelled;
use unmask_defence::{Cipher, Means, PlainUpdate, Protect, ProtectedUpdate};
use unmask_model::{ModelError, Network};

use crate::{SimulationError, batches::Batch, order::Order, pieces, seeds::Seeds};

/// What all clients work with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workshop<'a> {
    pub(crate) network: &'a Network,
    pub(crate) layout: &'a ParamLayout,
    pub(crate) pictures: &'a Labelled,
    pub(crate) cipher: Option<&'a Cipher>,
    pub(crate) seeds: Seeds,
    pub(crate) rule: Rule,
    pub(crate) defence: Defence,
    pub(crate) batch: usize,
    pub(crate) augment: bool,
    /// Whether threads share a client's batch.
    pub(crate) in_pieces: bool,
}

/// What a client sends.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) update: ProtectedUpdate,
    /// `[Q]`, in the plain: running statistics of batch norm are neither masked nor noised.
    pub(crate) statistics: Vec<f32>,
    pub(crate) loss: f32,
    /// Its weight in the averages: 1 under FedSGD, its number of pictures under FedAvg.
    pub(crate) weight: u32,
}

/// The plain result of a client's training.
struct Trained {
    values: Vec<f32>,
    statistics: Vec<f32>,
    loss: f32,
    weight: u32,
}

impl Workshop<'_> {
    /// The pictures that client `client` trains on in round `round`, counted from 0, as indices into the training set.
    pub(crate) fn indices(&self, order: &Order, round: u32) -> Vec<usize> {
        match self.rule {
            Rule::FedSgd => order.batch(self.seeds, round, self.batch),
            Rule::FedAvg { .. } => order.pass(self.seeds, round.into()),
        }
    }

    /// One client's round, counted from 0: trains from the global `state` on its own pictures, and protects the result.
    pub(crate) fn update(
        &self,
        client: usize,
        order: &Order,
        round: u32,
        state: &ModelState,
    ) -> Result<Sent, SimulationError> {
        let failed = |source| SimulationError::Client { client, round: round + 1, source };
        let Trained { values, statistics, loss, weight } = self.train(client, order, round, state).map_err(failed)?;
        let reference = self.rule.is_fedavg().then_some(state.weights.as_slice());
        let seed = MaskSeed(self.seeds.bytes("protection", round.into(), client));
        let means = Means { seed, cipher: self.cipher };
        let update = self.defence.protect(self.layout, PlainUpdate { values, reference }, means);
        let update = update.map_err(|source| SimulationError::Protect { client, round: round + 1, source })?;
        Ok(Sent { update, statistics, loss, weight })
    }

    fn train(&self, client: usize, order: &Order, round: u32, state: &ModelState) -> Result<Trained, ModelError> {
        let mut rng = self.augment.then(|| self.seeds.rng("augmentation", round.into(), client));
        let side = self.network.architecture().side();
        let Batch { images, labels } = Batch::new(self.pictures, &self.indices(order, round), side, rng.as_mut());
        match self.rule {
            Rule::FedSgd => {
                let step = if self.in_pieces {
                    pieces::loss_and_gradient(self.network, state, &images, &labels)?
                } else {
                    self.network.loss_and_gradient_blocking(state, &images, &labels)?
                };
                Ok(Trained { values: step.gradient, statistics: step.statistics, loss: step.loss, weight: 1 })
            }
            Rule::FedAvg { epochs, rate } => {
                let local = self.network.train_locally_blocking(state, &images, &labels, self.batch, epochs, rate)?;
                let ModelState { weights: values, statistics } = local.state;
                let weight = u32::try_from(labels.len()).unwrap_or(u32::MAX);
                Ok(Trained { values, statistics, loss: local.loss, weight })
            }
        }
    }
}
