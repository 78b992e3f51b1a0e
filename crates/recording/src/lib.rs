//! A lesson as it was shown: the room's states over time, and the pictures that the class saw.
//!
//! A recording is a text of JSON lines, which may be packed with gzip. The first says what it is; each other one holds a
//! picture, or what changed in the room since the state before. Whoever writes one leaves out what opens the room
//! ([`shown`]) and takes out what a student withdraws ([`Recording::forget`]). Whoever reads one gets it in bounds, up to
//! where it is whole.

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
    shown::{Address, addresses, shown},
    summary::{Finding, Summary},
};
