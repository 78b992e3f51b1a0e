//! A recorded lesson: the room's states over time, and the pictures that the class saw.
//!
//! A recording is a text of JSON lines, optionally packed with gzip. The first line describes it; each other line holds
//! a picture, or the change of the room since the previous state. A writer omits everything that opens the room
//! ([`shown`]) and removes what a student withdraws ([`Recording::forget`]). A reader gets the valid part, within
//! limits.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod change;
mod forget;
mod line;
mod player;
mod recording;
mod shown;
mod summary;

pub use self::{
    change::{Change, ChangeError},
    forget::Forgotten,
    player::Player,
    recording::{MAX_BYTES, NAME, Read, Recording, RecordingError},
    shown::{Address, addresses, embed, shown},
    summary::{Finding, Summary},
};
