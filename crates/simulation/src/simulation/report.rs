//! Events and outcome of a run.

use unmask_core::ModelState;
use unmask_federation::UpdateCounts;

use crate::Metrics;

/// Events that [`Simulation::run`](crate::Simulation::run) and [`train`](crate::train) report.
#[derive(Debug, Clone, Copy)]
pub enum RunEvent<'e> {
    Started {
        rounds: u32,
        /// Remarks about the initial weights: a replaced head, unused tensors.
        notes: &'e [String],
    },
    /// The run resumes from a checkpoint. Only [`train`](crate::train) reports this.
    Resumed {
        /// Number of rounds in the checkpoint.
        round: u32,
        /// Newer checkpoints that are damaged, with the reasons.
        problems: &'e [String],
    },
    /// A round has closed, or the initial weights were tested (round 0).
    Round(&'e Metrics),
}

#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// One entry per round. The first is the test of the initial weights, unless the only test is at the end.
    pub metrics: Vec<Metrics>,
    /// The model, decrypted.
    pub state: ModelState,
    pub update_counts: UpdateCounts,
    pub finished: bool,
    /// Time in rounds and tests, in seconds.
    pub seconds: f64,
}

impl RunOutcome {
    pub fn last_test(&self) -> Option<&Metrics> {
        self.metrics.iter().rev().find(|metrics| metrics.test_accuracy.is_some())
    }
}
