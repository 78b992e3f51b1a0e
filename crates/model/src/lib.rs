//! Vision Transformers and convolutional networks on Burn: loss, gradient as one flat vector, weights in and out.
//!
//! Everything goes in and comes out as flat `f32` slices in the order of [`unmask_core::ParamLayout`], so that callers
//! need no tensor library. [`Network`] computes on a device opened by [`device`]; `vit`, `resnet` and `lenet` hold the forward
//! passes, made of `layers`; everything else is written once for all. [`weights`] reads and writes them under timm's names. The crate knows
//! neither sockets, defences nor attacks.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod backward;
#[cfg(not(target_family = "wasm"))]
mod blocking;
pub mod device;
mod error;
mod forward;
mod layers;
mod lenet;
mod local;
mod network;
mod oracle;
#[cfg(feature = "parity")]
pub mod parity;
mod resnet;
mod tensors;
mod vit;

#[cfg(not(target_family = "wasm"))]
pub use blocking::block_on;
pub use burn::tensor::Device;
pub use error::ModelError;
pub use local::LocalTraining;
pub use network::{Evaluation, InputGradient, Network, Normalisation, Step};
pub use oracle::{GradientOracle, OracleOptions, Precision, WeightScope};
/// Weights in and out of files.
pub use unmask_tensors as weights;
