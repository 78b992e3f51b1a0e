//! Vision Transformers and convolutional networks: loss, gradient as one flat vector, weights in and out.
//!
//! Everything goes in and comes out as flat `f32` slices in the order of [`unmask_core::ParamLayout`]. A [`Network`]
//! computes on a device opened by [`device`]: on the processor through [`unmask_engine`], and with the feature `gpu` on a graphics
//! adapter through Burn. It checks all that goes in and comes out. [`weights`] reads and writes weights under timm's names. The
//! crate knows neither sockets, defences nor attacks.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(not(target_family = "wasm"))]
mod blocking;
pub mod device;
mod error;
#[cfg(feature = "burn")]
mod gpu;
mod local;
mod network;
mod oracle;
#[cfg(feature = "parity")]
pub mod parity;
#[cfg(target_family = "wasm")]
pub mod remote;

#[cfg(not(target_family = "wasm"))]
pub use blocking::block_on;
pub use device::Device;
pub use error::ModelError;
pub use local::LocalTraining;
pub use network::{Evaluation, InputGradient, Network, Step};
pub use oracle::{GradientAt, GradientOracle, OracleOptions, Precision, WeightScope};
/// What a pass is asked for, and what it gives.
pub use unmask_engine::{Differentiated, Normalisation, Statistics, Wanted};
/// Weights in and out of files.
pub use unmask_tensors as weights;
