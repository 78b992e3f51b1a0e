//! The two pages: `/`, where a student joins, and `/projector`, which the room watches.
//!
//! What can be computed without a browser (texts, addresses, curves, the check of a picture's header) are pure modules
//! and tested natively; the rest exists for wasm only.

pub mod address;
pub mod attack_groups;
pub mod chart;
pub mod classes;
pub mod confusion;
pub mod drafts;
pub mod histogram;
pub mod image_header;
pub mod nicknames;
pub mod pin;
pub mod residuals;
pub mod words;

#[cfg(target_family = "wasm")]
mod app;

#[cfg(target_family = "wasm")]
pub use app::mount;
