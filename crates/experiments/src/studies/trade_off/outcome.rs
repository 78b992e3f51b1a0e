//! The trained models of each data set, and what attackers see of their clients.

use unmask_simulation::Config;

use super::leakage::Leaks;
use crate::{plan::TrainingPlan, training::TrainingRun};

pub(super) struct Outcome<'a> {
    /// One for each data set. The first has all cases.
    pub(super) plans: &'a [TrainingPlan],
    pub(super) photographs: usize,
    pub(super) initial: Vec<Leaks>,
    pub(super) trained: Vec<DataOutcome>,
}

pub(super) struct DataOutcome {
    pub(super) data: String,
    pub(super) config: Config,
    pub(super) runs: Vec<TrainingRun>,
    pub(super) leaks: Vec<Leaks>,
}
