//! A federation in one process: clients with shards, rounds, checkpoints, metrics and curves.
//!
//! [`Simulation`] runs the clients and the server on one machine with the same code as a room: `unmask_defence`
//! protects each client's update, and `unmask_federation` aggregates the updates (Eqs. 1 to 4). [`train`] adds files,
//! so that a run can be watched, interrupted and resumed. Every random number is derived from the seed, the round and
//! the client, so that a result depends neither on the number of threads nor on interruptions.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod batches;
mod checkpoint;
mod config;
mod curves;
mod error;
mod evaluation;
pub mod files;
mod learner;
mod metrics;
mod model_file;
mod order;
mod record;
mod secure;
mod seeds;
mod simulation;
mod start;
mod train;

pub use checkpoint::CheckpointError;
pub use config::{Config, ConfigError, EXAMPLE, KEYS, MaskPeriod, ParseSliceError, Schedule, Slice, StartWeights};
pub use error::SimulationError;
pub use evaluation::TestScore;
pub use metrics::Metrics;
pub use model_file::{ModelFileError, is_model_file, read_model_file};
pub use record::{Commit, add_to_record};
pub use secure::SecureRoundError;
pub use simulation::{RunEvent, RunOutcome, Simulation};
pub use start::{check_start, load_start, other_model, pretrained};
pub use train::{Files, TrainError, train};
