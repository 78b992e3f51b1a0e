//! One federated client.
//!
//! A [`Client`] is the protocol as a state machine, without socket, clock or randomness: whoever drives it carries frames to
//! and from a socket, and trains when it says so. A [`LocalTask`] is what it does in a round: one gradient or local epochs on
//! a lazy [`PictureSource`], and the defence. Tab, headless client (`native`), simulation and matrix all run it. What
//! leaves the device is decided here and nowhere else; the passphrase of an encrypted room is kept here and goes no further.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod client;
mod groups;
mod history;
mod keys;
#[cfg(feature = "native")]
pub mod native;
mod pictures;
mod plan;
mod shard;
mod training;

pub use client::{Action, Client, ClientError, ClientEvent, OutgoingUpdate, ShowError, UpdateFailure};
pub use groups::{GroupComparison, compare_groups};
pub use history::ReconstructionScore;
pub use pictures::{Batch, PictureSource, PrivatePicture, RoundPictures};
pub use plan::{PictureSelection, RoundPlan, SealTask};
pub use shard::Shard;
pub use training::{LocalTask, LocalUpdate, TrainingError};
