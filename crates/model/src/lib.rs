//! Vision Transformers and convolutional networks: loss, and gradient as one flat vector.
//!
//! Inputs and outputs are flat `f32` slices in the order of [`unmask_core::ParamLayout`]. A [`Network`] runs on a
//! device opened by [`device`]: on the CPU through [`unmask_engine`], or with the feature `gpu` on a graphics adapter
//! through Burn. It checks its inputs and results. [`weights`] reads and writes weights under timm's names. The crate
//! does not depend on sockets, defences or attacks.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod blocking;
pub mod device;
mod error;
#[cfg(feature = "burn")]
mod gpu;
mod local;
mod network;
mod oracle;
pub mod parity;
#[cfg(target_family = "wasm")]
pub mod remote;

pub use blocking::block_on;
pub use device::Device;
pub use error::ModelError;
pub use local::LocalTraining;
pub use network::{Evaluation, InputGradient, Network, Step};
pub use oracle::{GradientAt, GradientOracle, OracleOptions, Precision, WeightScope};
pub use unmask_engine::{Differentiated, Normalisation, Statistics, Wanted};
pub use unmask_tensors as weights;
