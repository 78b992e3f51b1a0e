//! The relay: rooms over HTTP(S) and WebSocket, rounds, storage and live attacks.
//!
//! [`serve`] binds two ports and runs one room until the returned [`Running`] is dropped. One task, the room's actor,
//! owns the federation's state machine and the roster. Sockets and HTTP handlers send it messages and read its
//! snapshots. Attacks run on their own threads, so rounds never wait for them.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod attacks;
mod config;
mod connection;
mod flower;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod journal;
mod peer;
mod private_file;
mod random;
mod recording;
mod room;
mod scores;
mod text;
mod unix_time;

pub use config::{CertificateFiles, JournalConfig, Limits, ModelFile, RelayConfig};
pub use flower::FlowerConfig;
pub use http::{Replaying, Route, Running, export_replay, replay, routes, serve};
pub use room::{
    BatchEvaluation, DataConfig, JoiningRoom, Membership, ModelEvaluator, OuterFederation, Pretrained, Resumed,
    ShadowRoom, last_lesson, privacy,
};
pub use unmask_core::Defence;
pub use unmask_core::OptimiserKind;
pub use unmask_core::Rule;
pub use unmask_data::datasets::Source;
pub use unmask_federation::Quorum;
