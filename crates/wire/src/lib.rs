//! The binary format of the socket, and the JSON that pages read.
//!
//! A message is a small header ([`ClientMessage`] or [`RelayMessage`]) followed by `f32` values; after the header of a
//! shard or a picture, each word holds four bytes. A message travels in one or more [frames](Assembler) of at most
//! [`MAX_FRAME`] bytes with magic, version and length, so a receiver can refuse malformed, unknown or overlong input
//! before it allocates memory. No other crate knows the format.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod announced;
mod bytes;
pub mod channel;
mod frame;
mod listing;
mod message;
mod original;
mod shard;
pub mod view;

pub use announced::ServerPlan;
pub use frame::{Assembler, Framer, MAX_FRAME, VERSION, WireError, frames};
pub use listing::{ListPath, Listing};
pub use message::{
    ClientMessage, EncryptionPlan, FORGOTTEN, FORGOTTEN_BUT, LessonState, LoanHeader, PlanHeader, PollState,
    RelayMessage, SeedDraw, SumPlan, SumTask, TAKEN_OVER,
};
pub use original::{ORIGINAL_SIDE, ORIGINAL_VALUES, OriginalError, check_original};
pub use shard::{MAX_CLASS_NAME, MAX_CLASSES, MAX_SHARD, ShardError, ShardHeader};
