//! Rounds as a pure state machine, and aggregation.
//!
//! [`Room::handle`] takes an [`Event`] and returns [`Effect`]s. It opens no sockets, reads no clock and draws no random
//! numbers: deadlines, fresh weights and salts arrive as events. It never fails on bad input, but refuses it with a
//! reason.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod aggregate;
mod closing;
mod counts;
mod gate;
mod mean;
mod norm_gate;
mod optimiser;
mod room;
mod rules;
mod sums;
mod update_counts;

pub use aggregate::Aggregate;
pub use closing::Overflow;
pub use mean::WeightedMean;
pub use norm_gate::CLIP_FACTOR;
pub use optimiser::{Moments, Optimiser, OptimiserState};
pub use room::{
    Accepted, Effect, Event, GlobalModel, Quorum, ReceivedKeys, ReceivedUpdate, Refusal, Refused, RestoreError, Room,
    RoomPhase, RoomRecords, RoomState, RoundSummary, SavedRoom, Seal, Void,
};
pub use update_counts::{CountBin, GroupCounts, UpdateCounts};
