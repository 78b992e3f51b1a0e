//! Load for a relay: light clients that do not train but send updates of the right size, and hostile strangers.
//!
//! [`soak`] lets light clients join and leave for a given time. [`hostile`] runs hostile strangers beside a few light
//! clients, and [`attempts`] what hostile clients of a room try. All start the relay as a separate process and measure it from outside. Memory and file descriptors are
//! read from `/proc`, which only Linux has.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod attempts;
mod client;
mod hostile;
mod measure;
mod network;
mod relay;
mod soak;
mod socket;
mod strangers;

pub use attempts::{Attempt, Attempts, attempts};
pub use hostile::{HostileOptions, HostileReport, hostile};
pub use measure::{Times, processor};
pub use network::{has_foreign_addresses, in_own_network};
pub use soak::{SoakOptions, SoakReport, soak};
