//! What a client does to its update before it leaves the device.
//!
//! Pure transformations of a flat `f32` vector and its [`ParamLayout`](unmask_core::ParamLayout). Randomness is passed
//! in as a [`MaskSeed`]; the same seed gives the same mask, bit for bit, natively and in the browser.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod drawn;
mod encryption;
mod finite;
mod mask;
mod noise;
mod policy;
mod protect;
mod rates;
mod update;

pub use encryption::{Cipher, KeyCheck, KeyError, RoomKey};
pub use mask::{Mask, MaskSeed, RateError, ZeroRate};
pub use noise::{GaussianNoise, ParseNoiseError};
pub use policy::{Defence, ParseDefenceError, Start};
pub use protect::{FROZEN_SEED, Means, PlainUpdate, ProtectError};
pub use rates::{GroupRates, ParseRatesError, Run};
pub use update::{CheckedUpdate, ProtectedUpdate, UpdateError};
