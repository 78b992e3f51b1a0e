//! Attacks on updates that were dumped or made here: one, or all against all.
//!
//! - [`attempt`]: one attack by its name on an [`Observation`], which is what an attacker holds of one client.
//!   [`read_update`] makes one from files that any framework dumped.
//! - [`matrix`]: every attack on every picture under every defence. A client is played here, from pictures to protected
//!   updates, so the truth is known and each attempt gets a verdict.
//!
//! Which attacks there are, and how they work, is for `unmask-attack` and `unmask-matching` to say; this crate brings them
//! together with what they read.

mod attempt;
mod dump;
pub mod matrix;
mod observation;
mod reading;
mod score;
mod trial;

pub use attempt::{Attempt, CannotAttempt, Means, Progress, attempt};
pub use dump::{DumpError, Update, read_rounds, read_update, read_weights};
pub use observation::Observation;
pub use reading::{Labels, read_labels};
pub use score::{Score, ScoreError, Verdict, score};
pub use trial::{Needs, Trial, UnknownTrial, Wanted};
