use std::path::PathBuf;

use unmask_client::TrainingError;
use unmask_data::datasets::PartitionError;
use unmask_defence::{KeyError, ProtectError};
use unmask_federation::{Overflow, Refusal};
use unmask_model::{ModelError, weights::WeightsError};

use crate::{ConfigError, Slice, secure::SecureRoundError};

/// Why a simulation cannot start or continue. Clients are counted from 0, rounds from 1.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(
        "train-slice = \"{slice}\" reaches beyond the {pictures} training pictures; end it at {pictures} or before"
    )]
    Slice { slice: Slice, pictures: usize },
    #[error("the data set {name} has no test pictures; add some")]
    NoTest { name: String },
    #[error(transparent)]
    Partition(#[from] PartitionError),
    #[error("{epochs} epochs are {rounds} rounds here, but the limit is {}; give fewer epochs", u32::MAX)]
    TooLong { epochs: u32, rounds: u64 },
    #[error(
        "the schedule warms up for {warmup} rounds, but there are only {rounds}; give a shorter warm-up or more epochs"
    )]
    Warmup { warmup: u32, rounds: u32 },
    #[error(
        "{} looks like a {found}, not like a {wanted}; choose the model {found}, or give a file of a {wanted}",
        file.display()
    )]
    OtherModel { file: PathBuf, found: String, wanted: String },
    #[error("the weights to begin with: {0}")]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(
        "client {client} failed in round {round}: {source}; if a loss or gradient is not finite, a lower rate helps"
    )]
    Client { client: usize, round: u32, source: TrainingError },
    #[error("client {client} could not protect its update of round {round}: {source}")]
    Protect { client: usize, round: u32, source: ProtectError },
    #[error("the server refused the update of client {client} in round {round}: {source}")]
    Refused { client: usize, round: u32, source: Refusal },
    #[error("the updates of round {round} could not be added up: {source}")]
    SecureSum { round: u32, source: SecureRoundError },
    #[error("the server refused the sum of round {round}: {source}")]
    RefusedSum { round: u32, source: Refusal },
    #[error("round {round}: {source}; try a smaller rate")]
    Overflow { round: u32, source: Overflow },
    #[error("{threads} threads could not be started ({reason}); give fewer threads")]
    Threads { threads: usize, reason: String },
}

impl SimulationError {
    /// Whether the input is at fault, and not the machine.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Slice { .. }
            | Self::NoTest { .. }
            | Self::Partition(_)
            | Self::TooLong { .. }
            | Self::Warmup { .. }
            | Self::OtherModel { .. }
            | Self::Weights(_)
            | Self::Key(_) => true,
            Self::Model(_)
            | Self::Client { .. }
            | Self::Protect { .. }
            | Self::Refused { .. }
            | Self::SecureSum { .. }
            | Self::RefusedSum { .. }
            | Self::Overflow { .. }
            | Self::Threads { .. } => false,
        }
    }
}
