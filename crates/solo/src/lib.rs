//! A room and its robots without a relay, for one browser.
//!
//! A [`SoloRoom`] hosts the room: it answers what a relay would answer over HTTP, and carries frames instead of sockets.
//! [`Robots`] are clients without a person, and an [`attack_desk`] attacks what they send. Each does one piece of work at a
//! time and shares nothing with the others, so tests run them on one thread; in a browser each has a worker of its own.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod attacks;
mod columns;
mod robots;
mod room;
mod setting;
#[cfg(target_family = "wasm")]
pub mod worker;

pub use attacks::attack_desk;
pub use robots::{Robots, RobotsError, Task};
pub use room::{News, OpenError, SoloRoom};
pub use setting::Setting;
