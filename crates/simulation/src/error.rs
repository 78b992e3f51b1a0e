//! Why a run cannot begin or go on.

use std::path::PathBuf;

use unmask_client::TrainingError;
use unmask_data::datasets::PartitionError;
use unmask_defence::{KeyError, ProtectError};
use unmask_federation::Refusal;
use unmask_model::{ModelError, weights::WeightsError};

use crate::{ConfigError, Slice};

/// Why a simulation cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The config cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There are not so many pictures.
    #[error(
        "train-slice = \"{slice}\" reaches beyond the {pictures} training pictures; end it at {pictures} or before"
    )]
    Slice {
        /// The slice asked for.
        slice: Slice,
        /// Training pictures of the data set.
        pictures: usize,
    },
    /// Nothing to test with.
    #[error("the data set {name} has no test pictures; add some")]
    NoTest {
        /// The data set.
        name: String,
    },
    /// The pictures cannot be divided.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The run is longer than can be counted.
    #[error("{epochs} epochs are {rounds} rounds here, at most {} can be run; give fewer epochs", u32::MAX)]
    TooLong {
        /// Epochs asked for.
        epochs: u32,
        /// Rounds these would be.
        rounds: u64,
    },
    /// A warm-up that is all there is.
    #[error(
        "the schedule warms up for {warmup} rounds, but there are only {rounds}; give a shorter warm-up or more epochs"
    )]
    Warmup {
        /// Rounds of the warm-up.
        warmup: u32,
        /// Rounds of the run.
        rounds: u32,
    },
    /// The weights to begin with are another model's.
    #[error(
        "{} looks like a {found}, not like a {wanted}; choose the model {found}, or give a file of a {wanted}",
        file.display()
    )]
    OtherModel {
        /// The file.
        file: PathBuf,
        /// The model whose tensors it holds.
        found: &'static str,
        /// The model that was to begin with it.
        wanted: &'static str,
    },
    /// The weights to begin with cannot be used.
    #[error("the weights to begin with: {0}")]
    Weights(#[from] WeightsError),
    /// The clients' keys cannot be made or used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The model cannot be built or tried.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A client's training failed.
    #[error(
        "client {client} failed in round {round}: {source}; where a loss or gradient is not finite, a lower rate helps"
    )]
    Client {
        /// Which client, from 0.
        client: usize,
        /// The round, from 1.
        round: u32,
        /// What happened.
        source: TrainingError,
    },
    /// An update could not be protected.
    #[error("client {client} could not protect its update of round {round}: {source}")]
    Protect {
        /// Which client, from 0.
        client: usize,
        /// The round, from 1.
        round: u32,
        /// What happened.
        source: ProtectError,
    },
    /// The server refused an update.
    #[error("the server refused the update of client {client} in round {round}: {source}")]
    Refused {
        /// Which client, from 0.
        client: usize,
        /// The round, from 1.
        round: u32,
        /// Why.
        source: Refusal,
    },
    /// The threads could not be started.
    #[error("{threads} threads could not be started ({reason}); give fewer threads")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system reported.
        reason: String,
    },
}

impl SimulationError {
    /// Whether what was given cannot work, and not the machine.
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
            | Self::Threads { .. } => false,
        }
    }
}
