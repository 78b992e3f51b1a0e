//! The web app: the student's and the teacher's pages, and the worker that trains.
//!
//! This crate builds three kinds of bundles. The pages, with the feature `page`, are small and so appear quickly.
//! `worker`, with the feature `train`, owns the socket and the private picture and trains on the CPU. `gpu`, with the
//! feature of that name, contains Burn and computes for the worker on WebGPU. None of them aggregates.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(all(target_family = "wasm", feature = "gpu"))]
pub mod gpu;
#[cfg(feature = "page")]
pub mod page;
#[cfg(target_family = "wasm")]
pub mod post;
pub mod prediction;
pub mod protocol;
#[cfg(all(target_family = "wasm", feature = "train"))]
pub mod worker;
