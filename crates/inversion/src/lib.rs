//! Attacks on dumped updates of any framework, and their verdicts.
//!
//! [`Inversion`] is `unmask invert` without the command line: it takes files or bytes with an update and an attack, and
//! returns pictures and a [`Report`]. [`DumpedModel`] identifies the network from tensor shapes, [`read_update`] reads
//! what an attack needs, [`judge`] gives the verdict on the pictures, and [`score`] compares them with the private
//! ones.
//!
//! The caller provides everything that runs the model as [`unmask_attack::Searches`], so this crate compiles without a
//! tensor library.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod causes;
mod decay;
mod dump;
mod error;
mod fedavg;
mod grid;
mod inference;
mod inversion;
mod judge;
mod numbers;
mod report;
mod score;
mod truth;
mod zeros;

pub use dump::{
    Asked, DumpError, DumpedModel, DumpedUpdate, PixelError, PixelSpace, Told, UpdateFiles, read_gradient, read_model,
    read_update, read_weights, round_files,
};
pub use error::InversionError;
pub use fedavg::LocalTraining;
pub use inference::{InferenceAttack, UnknownAttack};
pub use inversion::{Inversion, KnownPictures, Update};
pub use judge::{Check, Reached, judge};
pub use report::{MembershipReport, Report};
pub use score::{Score, ScoreError, score};
pub use truth::{Fed, other_ways};
