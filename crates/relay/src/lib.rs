//! The relay: rooms over HTTP(S) and WebSocket, rounds, storage and live attacks.
//!
//! [`serve`] binds two ports and runs one room until the returned [`Running`] is dropped. One task
//! owns the room ([`unmask_room`]). Sockets and HTTP handlers send it inputs and read its snapshots. Attacks run on their
//! own threads, so rounds never wait for them.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod attackers;
mod clock;
mod config;
mod connection;
mod erasing;
mod flower;
mod http;
mod joining;
mod journal;
mod opening;
pub mod privacy;
mod private_file;
mod random;
mod recording;
mod room;
mod supervisor;

pub use config::{CertificateFiles, Limits, ModelFile, RelayConfig};
pub use flower::FlowerConfig;
pub use http::{Arrival, NetworkCheck, Replaying, Route, Running, export_replay, replay, routes, serve};
pub use joining::{JoiningRoom, Membership, OuterFederation};
pub use opening::last_lesson;
pub use unmask_core::Defence;
pub use unmask_core::OptimiserKind;
pub use unmask_core::Rule;
pub use unmask_data::datasets::Source;
pub use unmask_federation::Quorum;
pub use unmask_room::{
    BatchEvaluation, DataConfig, JournalConfig, ModelEvaluator, Pretrained, Resumed, RoomConfig, RoomLimits, ShadowRoom,
};
