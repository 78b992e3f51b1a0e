//! What a run tells, on the way and in the end.

use unmask_core::ModelState;
use unmask_federation::UpdateCounts;

use crate::Metrics;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundReport {
    /// Its number, from 1.
    pub round: u32,
    /// How often all training pictures were seen by its end.
    pub epoch: f64,
    /// Mean cross-entropy of the clients' batches at the weights the round began with; under FedAvg as
    /// [`train_locally`](unmask_model::Network::train_locally_blocking) measures it.
    pub loss: f32,
    /// Learning rate of the server's step, or of the clients' under FedAvg.
    pub rate: f32,
    pub seconds: f64,
}

/// What [`Simulation::run`](crate::Simulation::run) and [`train`](crate::train) tell as they go.
#[derive(Debug, Clone, Copy)]
pub enum Event<'e> {
    /// The run is about to begin, or to go on.
    Started {
        rounds: u32,
        /// What is to be said of the weights it begins with: a head replaced, tensors left aside.
        notes: &'e [String],
    },
    /// The run goes on from a checkpoint. Only [`train`](crate::train) tells it.
    Resumed {
        /// Rounds that were closed by then.
        round: u32,
        /// Newer checkpoints that are not whole, and why.
        problems: &'e [String],
    },
    /// A round has closed, or the start was tested (round 0).
    Round(&'e Metrics),
}

#[derive(Debug, Clone)]
pub struct Outcome {
    /// One entry for each round; the first is the test of the start, unless tests come only at the end.
    pub metrics: Vec<Metrics>,
    /// The plain model.
    pub state: ModelState,
    pub update_counts: UpdateCounts,
    pub finished: bool,
    /// Seconds spent in rounds and tests.
    pub seconds: f64,
}

impl Outcome {
    /// The last metrics with a test score.
    pub fn last_test(&self) -> Option<&Metrics> {
        self.metrics.iter().rev().find(|metrics| metrics.test_accuracy.is_some())
    }
}
