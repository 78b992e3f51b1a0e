//! The papers' experiments, each with its report, and every attack against every defence.
//!
//! - [`reproduce`] runs one [`Experiment`] at a [`Scale`] and writes a page, the numbers behind it and where they came
//!   from. Trainings are run by `unmask-simulation`, attacks by `unmask-attack` and `unmask-matching`; what this crate adds
//!   is which of them are compared, what the papers claim, as a list with the formulas that decide it, and whether the numbers
//!   bear it out.
//! - [`overview`]: every claim with its verdict, from the reports of a folder.
//! - [`matrix`]: every attack on every picture under every defence, with a page of what each of them sees.
//! - [`sweep`]: trainings of a config with every combination of some of its values.
//! - [`merge()`]: what several machines have computed of one of these, each a [`Part`], becomes one report.
//!
//! Finished cases are kept in the output folder at once, so that a run that was cut off goes on where it stopped.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod accuracy;
mod attacks;
mod catalogue;
mod claim;
mod cost;
mod defences;
mod error;
mod figure;
pub mod matrix;
mod merge;
mod overview;
mod page;
mod parts;
mod report;
mod reported;
mod reproduce;
mod request;
mod run;
mod store;
mod study;
pub mod sweep;
mod trade_off;
mod training;
mod update_ratios;

pub use catalogue::{Experiment, Scale, UnknownExperiment, UnknownScale};
pub use claim::{Claim, ClaimListError, Finding, Source, tally, verdict};
pub use cost::Cost;
pub use error::ExperimentError;
pub use merge::{Merged, MissingPart, merge};
pub use overview::overview;
pub use parts::{Part, PartFolder};
pub use reproduce::{Reproduced, estimate, reproduce, reproduce_part, write_overview};
pub use request::ExperimentRequest;
pub use run::{ExperimentEvent, OnEvent};
pub use trade_off::{LiveTradeOff, OnPoint};
