//! What a federation gives away, on one page that people who do not program can read.
//!
//! [`Audit::of_deployment`] predicts from a [`Deployment`] alone: for each attack, counting its equations says *exact*,
//! *counting forbids* or *unknown*. A program that runs the model adds what happened when it tried
//! ([`Audit::tried`]). [`RecordedFile::attack`] and [`Audit::of_updates`] do it with updates that were recorded. Both give the same report, as
//! JSON (`docs/schema/audit.json`) and as a page ([`page()`]).

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod controls;
mod deployment;
mod page;
mod privacy;
mod recorded;
mod report;

pub use controls::{Change, Control};
pub use deployment::{Deployment, DeploymentError, Viewer};
pub use page::page;
pub use privacy::{Guarantee, PrivacyClaim, TriedBound};
pub use recorded::{FolderError, HowToAttack, MayGoOn, RecordedAttack, RecordedFile, RecordedUpdate, recorded_files};
pub use report::{Audit, Finding, Tried, View};
