//! Every byte on the socket, and the JSON a projector reads.
//!
//! A message is a small header ([`ClientMessage`] or [`RelayMessage`]) and, behind it, a run of `f32` values; behind the
//! header of a shard they are words of four bytes each. It travels
//! as one or more [frames](Assembler) of at most [`MAX_FRAME`] bytes, each with magic, version and length, so that a
//! receiver can refuse what is malformed, unknown or too long before it allocates for it. No other crate knows the format.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod bytes;
mod frame;
mod message;
mod original;
mod shard;
pub mod view;

pub use frame::{Assembler, Framer, MAX_FRAME, VERSION, WireError, frames};
pub use message::{ClientMessage, EncryptionPlan, LessonState, OpenPoll, PlanHeader, RelayMessage};
pub use original::{ORIGINAL_BYTES, ORIGINAL_SIDE, OriginalError, original_words, read_original};
pub use shard::{MAX_CLASS_NAME, MAX_CLASSES, MAX_SHARD, ShardError, ShardHeader};
