//! Vision Transformers and residual networks on Burn: loss, gradient as one flat vector, weights in and out.
//!
//! Everything goes in and comes out as flat `f32` slices in the order of [`unmask_core::ParamLayout`], so that callers
//! need no tensor library. [`Vit`], [`Resnet`] and [`Network`], which is either, compute on a device opened by [`device`];
//! [`weights`] reads and writes timm-named safetensors. The crate knows neither sockets, defences nor attacks.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(not(target_family = "wasm"))]
mod blocking;
mod border;
pub mod device;
mod error;
mod forward;
mod leaves;
mod local;
mod network;
#[cfg(feature = "parity")]
pub mod parity;
mod patches;
mod resident;
mod resnet;
mod vit;
pub mod weights;

#[cfg(not(target_family = "wasm"))]
pub use blocking::block_on;
pub use burn::tensor::Device;
pub use error::ModelError;
pub use local::LocalTraining;
pub use network::{Network, NetworkLocalTraining, NetworkStep};
pub use resident::{Precision, Reach, Resident};
pub use resnet::{Normalisation, ResidentResnet, Resnet};
pub use vit::{Evaluation, InputGradient, Step, Vit};
