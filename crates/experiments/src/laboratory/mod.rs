//! Attacks on updates that were dumped or made here: one, or all against all.
//!
//! - [`read_update`] reads what an attack needs from files that any framework dumped.
//! - [`matrix`]: every attack on every picture under every defence. A client is played here, from pictures to protected
//!   updates, so the truth is known and each attempt gets a verdict.
//!
//! Which attacks there are, and how they work, is for `unmask-attack` and `unmask-matching` to say.

mod dump;
pub mod matrix;
mod score;
mod trial;

pub use dump::{DumpError, Update, read_rounds, read_update, read_weights};
pub use score::{Score, ScoreError, Verdict, score};
pub use trial::{Trial, UnknownTrial};
