//! A client and its room, and what it computes.

mod bits;
mod careful;
mod encrypted;
mod golden;
mod join;
#[path = "../../../../tests/support/skipped.rs"]
mod skipped;
