//! Defences: transformations of a client's update before it leaves the device.
//!
//! All are pure functions of a flat `f32` vector and its [`ParamLayout`](unmask_core::ParamLayout). Callers pass
//! randomness in as a [`MaskSeed`](unmask_core::MaskSeed). The same seed gives the same mask, bit for bit, natively and
//! in the browser.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod drawn;
mod encryption;
mod finite;
mod mask;
mod noise;
mod protect;
pub mod published;
mod seed;
mod update;

pub use encryption::{Cipher, ClassKey, KeyError, RoomKey};
pub use mask::Mask;
pub use noise::clip_factor;
pub use protect::{FROZEN_SEED, KeyMaterial, PlainUpdate, Protect, ProtectError};
pub use seed::{commitment, drawn_seed};
pub use update::{CheckedUpdate, ProtectedUpdate, UpdateError};
