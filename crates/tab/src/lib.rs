//! The web app: the student's and the teacher's pages, and the worker that trains.
//!
//! Two bundles come from this crate: `page`, small, so that it appears at once, and `worker`, heavy, which holds Burn,
//! the socket and the private picture; the feature `train` is what makes it heavy. Neither aggregates nor attacks.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod page;
#[cfg(target_family = "wasm")]
pub mod post;
pub mod prediction;
pub mod protocol;
#[cfg(all(target_family = "wasm", feature = "train"))]
pub mod worker;
