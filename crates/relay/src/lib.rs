//! The relay: rooms over HTTP(S) and WebSocket, rounds, storage and live attacks.
//!
//! [`serve`] binds two ports and runs one room until the [`Running`] it returns is dropped. One task, the room's actor,
//! owns the federation's state machine and the roster; sockets and HTTP handlers talk to it by messages and read
//! snapshots. Attacks run on threads of their own, so that rounds never wait for them.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod addresses;
mod app;
mod attacks;
mod candidate;
mod config;
mod control;
mod evaluation;
mod events;
mod initialiser;
mod outbox;
mod page;
mod pictures;
pub mod privacy;
mod qr;
mod random;
mod reusable_buffer;
mod room;
mod roster;
mod serve;
mod sharing;
mod snapshot;
mod socket;
mod text;
mod tls;

pub use config::{Limits, RelayConfig};
pub use evaluation::{BatchEvaluation, ModelEvaluator};
pub use initialiser::Pretrained;
pub use serve::{Running, serve};
pub use sharing::DataConfig;
pub use unmask_core::Defence;
pub use unmask_core::OptimiserKind;
pub use unmask_core::Rule;
pub use unmask_data::datasets::Source;
pub use unmask_federation::Quorum;
