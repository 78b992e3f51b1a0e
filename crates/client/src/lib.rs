//! One federated client.
//!
//! A [`Client`] is the protocol as a state machine, without socket, clock or randomness. Its driver carries frames to
//! and from a socket, and trains when told to. A [`LocalTask`] is the work of a round: one gradient or local epochs on
//! a lazy [`PictureSource`], then the defence. The tab, the headless client (`native`), the simulation and the matrix
//! all use it. A [`PlanCheck`] looks for doctored weights before training, and [`Caution`] says what follows from what it
//! finds. Only this crate decides what leaves the device, and the passphrase of an encrypted room never leaves it.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod careful;
mod client;
mod groups;
mod history;
mod keys;
mod listed;
mod loan;
#[cfg(feature = "native")]
pub mod native;
mod pictures;
mod plan;
mod robot;
mod shard;
mod summing;
mod training;
mod watch;

pub use careful::{Announced, Doubt, PictureLoss, PlanCheck, flat_pictures, picture_losses};
pub use client::{Action, Client, ClientError, ClientEvent, OutgoingUpdate, ShowError, UpdateFailure};
pub use groups::{GroupComparison, compare_groups};
pub use history::ReconstructionScore;
pub use listed::{ListedRound, OwnUpdate};
pub use loan::Loan;
pub use pictures::{Batch, PictureSource, PrivatePicture, RoundPictures};
pub use plan::{Nonces, PictureSelection, RoundPlan, SealTask};
pub use robot::{Fresh, Outcome, PHOTOGRAPHS, Reaction, Robot, RobotError, RobotEvent, nickname};
pub use shard::Shard;
pub use training::{LocalTask, LocalUpdate, TrainingError};
pub use watch::Caution;
