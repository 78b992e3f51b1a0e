//! The lesson without a relay, a page or a language: its scenes, their beats, the questions to the class with their
//! answers, and the plan that takes a room from where it is to any beat.
//!
//! Everything here is an identifier or a rule. The wire sends the identifiers and pages put them into words. A room
//! describes itself as a [`Situation`]; [`plan`] answers with [`Change`]s, which the wire turns into the teacher's
//! controls.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod mask;
mod needs;
mod place;
mod plan;
mod poll;
mod scene;
mod situation;

pub use mask::{flipped, masked, stepped, uniform_rate};
pub use needs::{MAX_LENT_PARAMETERS, MAX_OWN_MASK_PARAMETERS};
pub use place::Place;
pub use plan::{Change, Plan, plan};
pub use poll::{Answers, MAX_SUSPECTS, NO, Poll, PollError, Question, Suspect, YES, median};
pub use scene::{Beat, Scene, SumKind, UnknownScene};
pub use situation::{Asked, Situation, Volunteer};
