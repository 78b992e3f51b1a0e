//! One federated client without its surroundings: no socket, no clock, no tensors.
//!
//! The tab's worker and the native client both drive a [`Client`]: they carry frames to and from the socket, train when
//! it says so, and hand what training gave back to be protected. What leaves the device is decided here and nowhere
//! else; the passphrase of an encrypted room is kept here and goes no further.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod client;
mod keys;
mod leaving;
mod plan;
mod shard;

pub use client::{Action, Client, ClientError, News, Outgoing, Step, UpdateFailure};
pub use leaving::{GroupLeaving, leaving};
pub use plan::{Plan, SealTask, TrainOn};
pub use shard::Shard;
