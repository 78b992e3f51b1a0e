//! A simulated client's part of a round.

use unmask_client::{LocalTask, TrainingError};
use unmask_core::{MaskSeed, Rule};
use unmask_data::datasets::Labelled;
use unmask_defence::ProtectedUpdate;
use unmask_model::{Network, block_on};

use crate::{MaskPeriod, SimulationError, batches, order::Order, seeds::Seeds};

#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientContext<'a> {
    pub(crate) network: &'a Network,
    pub(crate) pictures: &'a Labelled,
    pub(crate) seeds: Seeds,
    pub(crate) task: LocalTask<'a>,
    pub(crate) augment: bool,
    pub(crate) masks: MaskPeriod,
}

#[derive(Debug)]
pub(crate) struct ClientUpdate {
    pub(crate) update: ProtectedUpdate,
    /// `[Q]`, unprotected: batch norm's running statistics are neither masked nor noised.
    pub(crate) statistics: Vec<f32>,
    pub(crate) loss: f32,
    /// Weight in the averages: 1 under FedSGD, the number of pictures under FedAvg.
    pub(crate) weight: u32,
}

/// The pictures that the client of `order` trains on in round `round`, counted from 0, as indices into the training
/// set.
pub(crate) fn indices(seeds: Seeds, rule: Rule, batch: usize, order: &Order, round: u32) -> Vec<usize> {
    match rule {
        Rule::FedSgd => order.batch(seeds, round, batch),
        Rule::FedAvg { .. } => order.pass(seeds, round.into()),
    }
}

impl ClientContext<'_> {
    /// Trains client `client` on its pictures in round `round`, counted from 0, and protects the result.
    pub(crate) fn update(&self, client: usize, order: &Order, round: u32) -> Result<ClientUpdate, SimulationError> {
        let Self { network, seeds, task, .. } = *self;
        let failed = |source: TrainingError| SimulationError::Client { client, round: round + 1, source };
        let indices = indices(seeds, task.rule, task.batch, order, round);
        let mut rng = self.augment.then(|| seeds.rng("augmentation", round.into(), client));
        let pictures = batches::read_batch(self.pictures, &indices, network.architecture().side(), rng.as_mut());
        let trained = block_on(task.train(network, &pictures)).map_err(failed)?;
        let period = match (self.masks, task.rule) {
            (MaskPeriod::Epoch, Rule::FedSgd) => order.passes(round, task.batch),
            _ => round.into(),
        };
        let seed = MaskSeed(seeds.bytes("protection", period, client));
        let protected = task.protect(trained.values, trained.samples, seed);
        let update = protected.map_err(|source| SimulationError::Protect { client, round: round + 1, source })?;
        let weight = if task.rule.is_fedavg() { trained.samples } else { 1 };
        Ok(ClientUpdate { update, statistics: trained.statistics, loss: trained.loss, weight })
    }
}
