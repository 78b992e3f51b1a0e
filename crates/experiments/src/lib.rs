//! The papers' experiments with their reports, and every attack against every defence.
//!
//! - [`reproduce`] runs one [`Experiment`] at a [`Scale`] and writes a page, its numbers and their provenance.
//!   `unmask-simulation` runs the trainings, `unmask-attack` and `unmask-matching` run the attacks. This crate decides
//!   what is compared, lists the papers' claims with the formulas that decide them, and judges whether the numbers
//!   confirm them. `runner` runs any study and knows none; `studies` lists them, each as data in its own file.
//! - [`overview`]: every claim with its verdict, from the reports in a folder.
//! - [`matrix`]: every attack on every picture under every defence, with a page of what each attack sees.
//! - [`sweep`]: trainings of a config with every combination of some of its values.
//! - [`merge()`]: combines the [`Part`]s of a run that several machines computed into one report.
//!
//! A finished case is saved immediately, so that an interrupted run continues where it stopped.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod accuracy;
mod attacks;
mod canaries;
mod catalogue;
mod claim;
mod cost;
mod defences;
mod error;
mod figure;
pub mod matrix;
mod merge;
mod metric;
mod overview;
mod parts;
mod plan;
mod report;
mod reported;
mod reproduce;
mod request;
mod run;
mod runner;
mod store;
mod studies;
mod study;
pub mod sweep;
mod training;

pub use canaries::CanaryTrials;
pub use catalogue::{Experiment, Scale, UnknownScale};
pub use claim::{Claim, ClaimListError, Finding, Source, tally, verdict};
pub use cost::Cost;
pub use error::ExperimentError;
pub use merge::{Merged, MissingPart, merge};
pub use overview::overview;
pub use parts::{Part, PartFolder};
pub use reproduce::{estimate, reproduce, reproduce_part, write_overview};
pub use request::ExperimentRequest;
pub use run::{ExperimentEvent, OnEvent};
pub use runner::Reproduced;
pub use studies::{
    UnknownExperiment,
    trade_off::{LiveTradeOff, OnColumns},
};
