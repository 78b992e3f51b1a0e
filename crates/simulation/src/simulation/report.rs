//! What a run tells, on the way and in the end.

use unmask_core::ModelState;
use unmask_federation::UpdateCounts;

use crate::Metrics;

/// What [`Simulation::run`](crate::Simulation::run) and [`train`](crate::train) tell as they go.
#[derive(Debug, Clone, Copy)]
pub enum RunEvent<'e> {
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
pub struct RunOutcome {
    /// One entry for each round; the first is the test of the start, unless tests come only at the end.
    pub metrics: Vec<Metrics>,
    /// The plain model.
    pub state: ModelState,
    pub update_counts: UpdateCounts,
    pub finished: bool,
    /// Seconds spent in rounds and tests.
    pub seconds: f64,
}

impl RunOutcome {
    /// The last metrics with a test score.
    pub fn last_test(&self) -> Option<&Metrics> {
        self.metrics.iter().rev().find(|metrics| metrics.test_accuracy.is_some())
    }
}
