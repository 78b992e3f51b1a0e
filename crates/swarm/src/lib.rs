//! Load for a relay: light clients that train nothing and send an update of the right size, and strangers who mean harm.
//!
//! [`soak`] lets light clients come and go for as long as asked; [`hostile`] lets strangers do their worst beside a few of
//! them. Both start a relay's program as a process of its own, and measure it from outside. Memory and file descriptors
//! are read from `/proc`, which Linux alone has.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod client;
mod hostile;
mod measure;
mod relay;
mod soak;
mod socket;
mod strangers;

pub use hostile::{HostileOptions, HostileReport, hostile};
pub use measure::{Times, processor};
pub use soak::{SoakOptions, SoakReport, soak};
