//! What the relay announces about its steps, so that a client can check what a plan asks it to train on.

use serde::{Deserialize, Serialize};
use unmask_core::OptimiserKind;

/// How the weights of a plan come from those of the plan before.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerPlan {
    /// The server's step at the end of this round; it means nothing under FedAvg.
    pub optimiser: OptimiserKind,
    /// The same number as long as each plan's weights follow from those before by the announced steps; another one after a
    /// reset, a new model, weights from an outer federation or a restart of the relay.
    pub start: u64,
}
