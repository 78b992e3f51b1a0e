//! The papers' experiments, each with its report.
//!
//! [`reproduce`] runs one [`Experiment`] at a [`Scale`] and writes a page, the numbers behind it and where they came
//! from. Trainings are run by `unmask-simulation`, attacks by `unmask-laboratory` and `unmask-matching`; what this crate
//! adds is which of them are compared, what the papers lead one to expect, and whether the numbers bear it out.
//!
//! Finished parts are kept in the output folder at once, so that a run that was cut off goes on where it stopped.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod attacks;
mod bench;
mod catalogue;
mod claim;
mod cost;
mod error;
mod figure;
mod hits;
mod index;
pub mod laboratory;
mod outline;
mod page;
mod ratios;
mod report;
mod reported;
mod store;
mod study;
mod training;
mod write;

pub use bench::{Event, Hear, Request};
pub use catalogue::{Experiment, Scale, UnknownExperiment, UnknownScale};
pub use claim::{Claim, Finding, tally, verdict};
pub use cost::Cost;
pub use error::PapersError;
pub use outline::{check, outline};
pub use write::{Reproduced, estimate, reproduce};
