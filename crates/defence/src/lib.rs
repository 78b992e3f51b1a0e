//! What a client does to its update before it leaves the device.
//!
//! Pure transformations of a flat `f32` vector and its [`ParamLayout`](unmask_params::ParamLayout). Randomness is passed
//! in as a [`MaskSeed`]; the same seed gives the same mask, bit for bit, natively and in the browser.

mod mask;
mod policy;
mod update;

pub use mask::{Mask, MaskSeed, RateError, ZeroRate};
pub use policy::{Defence, ParseDefenceError};
pub use update::{ProtectedUpdate, UpdateError};
