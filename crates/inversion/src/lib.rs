//! An update that any framework dumped, attacked and judged.
//!
//! [`Inversion`] is `unmask invert` without its command line: which files or bytes hold the update, which attack is asked of it, and
//! out of that pictures and a [`Report`]. [`DumpedModel`] tells the network by the shapes of its tensors, [`read_update`] reads
//! what an attack needs, [`judge`] says what its pictures show, and [`score`] how alike they are to the private ones.
//!
//! Searches, and whatever else runs the model, come from outside, as [`unmask_attack::Searches`]: this crate compiles without a
//! tensor library.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod dump;
mod error;
mod fedavg;
mod inference;
mod inversion;
mod judge;
mod report;
mod score;

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
