//! Clients and server in one process.

mod opening;
mod plan;
mod report;

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
    time::Instant,
};

use rayon::{ThreadPool, prelude::*};
use unmask_client::LocalTask;
use unmask_core::{Architecture, ModelState, ParamLayout, Rule};
use unmask_data::datasets::DataSet;
use unmask_defence::Cipher;
use unmask_federation::{Aggregate, Optimiser, UpdateCounts, WeightedMean};
use unmask_model::Network;

use self::plan::RunPlan;
pub use self::report::{RunEvent, RunOutcome};
use crate::{
    Config, Metrics, SimulationError, TestScore,
    evaluation::evaluate,
    learner::{self, ClientContext, ClientUpdate},
    order::Order,
    seeds::Seeds,
};

/// How many clients' updates are in memory at a time.
const CLIENTS_TOGETHER: usize = 16;

/// A federation that runs its clients and server in this process. The clients of a round train in parallel; the server
/// adds up their updates in the order of the clients.
///
/// The number of threads affects only the duration; results are the same, bit for bit.
#[derive(Debug)]
pub struct Simulation<'a> {
    plan: RunPlan,
    notes: Vec<String>,
    data: &'a DataSet,
    /// Indices of the pictures to test on.
    test: Vec<usize>,
    orders: Vec<Order>,
    architecture: Architecture,
    network: Network,
    layout: Arc<ParamLayout>,
    cipher: Option<Cipher>,
    seeds: Seeds,
    pool: ThreadPool,
    pub(crate) current: RunState,
    aggregate: Aggregate,
}

#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) round: u32,
    /// The server's weights, `[P]`: cipher text in an encrypted run.
    pub(crate) weights: Vec<f32>,
    pub(crate) statistics: Vec<f32>,
    pub(crate) optimiser: Optimiser,
    pub(crate) counts: UpdateCounts,
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) seconds: f64,
}

impl<'a> Simulation<'a> {
    pub fn config(&self) -> &Config {
        &self.plan.config
    }

    pub fn rounds(&self) -> u32 {
        self.plan.rounds
    }

    pub fn round(&self) -> u32 {
        self.current.round
    }

    /// Whether a test is due after round `round`, counted from 1; 0 means before the first round.
    pub fn is_test_due(&self, round: u32) -> bool {
        self.plan.is_test_due(round)
    }

    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Remarks about the initial weights: a replaced head, unused tensors.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    pub fn metrics(&self) -> &[Metrics] {
        &self.current.metrics
    }

    pub fn update_counts(&self) -> &UpdateCounts {
        &self.current.counts
    }

    /// The pictures of the next round, for each client in its order, as indices into the training set.
    pub fn next_pictures(&self) -> Vec<Vec<usize>> {
        let settings = &self.plan.settings;
        let indices =
            |order| learner::indices(self.seeds, settings.rule(), settings.batch().into(), order, self.current.round);
        self.orders.iter().map(indices).collect()
    }

    /// The current model, decrypted in an encrypted run.
    ///
    /// # Errors
    /// If the key does not fit, which [`new`](Self::new) rules out.
    pub fn state(&self) -> Result<ModelState, SimulationError> {
        let RunState { weights, statistics, .. } = &self.current;
        let (mut weights, statistics) = (weights.clone(), statistics.clone());
        if let Some(cipher) = &self.cipher {
            cipher.decrypt(&mut weights)?;
        }
        Ok(ModelState { weights, statistics })
    }

    /// Runs one round without a test: every client trains and protects its update, the server aggregates and takes a
    /// step.
    ///
    /// # Errors
    /// [`SimulationError`] names the client and the round. The model is unchanged.
    pub fn step(&mut self) -> Result<Metrics, SimulationError> {
        let begin = Instant::now();
        let state = self.state()?;
        let (round, rate) = (self.current.round, self.plan.rate(self.current.round));
        let (mut mean_loss, mut mean_statistics) = (WeightedMean::new(1), WeightedMean::new(state.statistics.len()));
        self.aggregate.restart();
        let mut in_sum = Vec::new();
        for first in (0..self.orders.len()).step_by(CLIENTS_TOGETHER) {
            let last = self.orders.len().min(first + CLIENTS_TOGETHER);
            for (client, sent) in (first..last).zip(self.train(first..last, &state)) {
                let mut sent = sent?;
                if self.plan.secure.is_some() {
                    sent.weight = 1;
                }
                mean_loss.add(&[sent.loss], sent.weight);
                mean_statistics.add(&sent.statistics, sent.weight);
                if self.plan.secure.is_some() {
                    in_sum.push(sent.update);
                    continue;
                }
                let refused = |source| SimulationError::Refused { client, round: round + 1, source };
                // The plain mean of the papers: updates are not clipped against a reference.
                self.aggregate.add(&sent.update, sent.weight, None).map_err(refused)?;
            }
        }
        if let Some(secure) = self.plan.secure {
            let clients = in_sum.len() as u32;
            let reference = self.plan.settings.rule().is_fedavg().then_some(state.weights.as_slice());
            let layout = self.aggregate.layout();
            let mean = secure.mean(in_sum, layout, reference, &self.current.weights, (self.seeds, round));
            let mean = mean.map_err(|source| SimulationError::SecureSum { round: round + 1, source })?;
            let refused = |source| SimulationError::RefusedSum { round: round + 1, source };
            self.aggregate.add_mean(mean.values, mean.kept, clients).map_err(refused)?;
        }
        let RunState { weights, statistics, optimiser, counts, .. } = &mut self.current;
        optimiser.set_rate(rate);
        let overflow = |source| SimulationError::Overflow { round: round + 1, source };
        self.aggregate.close(self.plan.settings.rule(), optimiser, weights, counts).map_err(overflow)?;
        *statistics = mean_statistics.mean();
        self.current.round += 1;
        self.current.seconds += begin.elapsed().as_secs_f64();
        Ok(Metrics {
            round: self.current.round,
            epoch: self.plan.epoch(self.current.round),
            loss: mean_loss.mean().first().copied(),
            rate,
            test_accuracy: None,
            test_loss: None,
            seconds: self.current.seconds,
        })
    }

    /// Tests the model on the test pictures.
    ///
    /// # Errors
    /// If the model cannot be run, or its output is not finite.
    pub fn evaluate(&self) -> Result<TestScore, SimulationError> {
        let state = self.state()?;
        Ok(self.pool.install(|| evaluate(&self.network, &state, &self.data.test, &self.test))?)
    }

    /// Runs the next round, and its test if one is due. Before the first round, tests the initial weights. Returns
    /// `None` when all rounds are closed.
    pub fn advance(&mut self) -> Result<Option<Metrics>, SimulationError> {
        let is_start =
            self.current.metrics.is_empty() && self.current.round == 0 && self.plan.config.evaluate_every > 0;
        let mut metrics = if is_start {
            let rate = self.plan.rate(0);
            Metrics { round: 0, epoch: 0.0, loss: None, rate, test_accuracy: None, test_loss: None, seconds: 0.0 }
        } else if self.current.round < self.plan.rounds {
            self.step()?
        } else {
            return Ok(None);
        };
        if is_start || self.plan.is_test_due(metrics.round) {
            let begin = Instant::now();
            let score = self.evaluate()?;
            self.current.seconds += begin.elapsed().as_secs_f64();
            (metrics.test_accuracy, metrics.test_loss) = (Some(score.accuracy), Some(score.loss));
            metrics.seconds = self.current.seconds;
        }
        self.current.metrics.push(metrics);
        Ok(Some(metrics))
    }

    /// Runs all remaining rounds and reports each. If `on_event` breaks, returns the outcome so far.
    pub fn run(
        &mut self,
        on_event: &mut dyn FnMut(RunEvent<'_>) -> ControlFlow<()>,
    ) -> Result<RunOutcome, SimulationError> {
        if on_event(RunEvent::Started { rounds: self.plan.rounds, notes: &self.notes }).is_break() {
            return self.outcome();
        }
        while let Some(metrics) = self.advance()? {
            if on_event(RunEvent::Round(&metrics)).is_break() {
                break;
            }
        }
        self.outcome()
    }

    pub fn outcome(&self) -> Result<RunOutcome, SimulationError> {
        let RunState { metrics, counts, seconds, round, .. } = &self.current;
        Ok(RunOutcome {
            metrics: metrics.clone(),
            state: self.state()?,
            update_counts: counts.clone(),
            finished: *round == self.plan.rounds,
            seconds: *seconds,
        })
    }

    /// Check value of the clients' key in hexadecimal; empty without encryption.
    pub(crate) fn key(&self) -> String {
        let check = self.cipher.as_ref().map(|cipher| cipher.check().0);
        check.iter().flatten().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Trains `clients` from the plain `state` and returns their updates for the next round.
    fn train(&self, clients: Range<usize>, state: &ModelState) -> Vec<Result<ClientUpdate, SimulationError>> {
        let (settings, round) = (&self.plan.settings, self.current.round);
        let rate = self.plan.rate(round);
        let context = ClientContext {
            network: &self.network,
            pictures: &self.data.train,
            seeds: self.seeds,
            task: LocalTask {
                layout: &self.layout,
                state,
                rule: match settings.rule() {
                    Rule::FedAvg { epochs, .. } => Rule::FedAvg { epochs, rate },
                    Rule::FedSgd => Rule::FedSgd,
                },
                batch: settings.batch().into(),
                defence: self.plan.secure.map_or(settings.defence(), |secure| secure.defence()),
                cipher: self.cipher.as_ref(),
            },
            augment: self.plan.config.augment,
            masks: self.plan.config.masks,
        };
        let orders = self.orders.get(clients.clone()).unwrap_or_default();
        let train = |(order, client): (&Order, usize)| context.update(client, order, round);
        self.pool.install(|| orders.par_iter().zip(clients).map(train).collect())
    }
}
