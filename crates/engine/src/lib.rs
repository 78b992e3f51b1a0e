//! The three network families on the CPU: forward and backward passes on flat buffers.
//!
//! [`Engine::differentiate`] and [`Engine::logits`] are the main entry points. Weights, gradients and running
//! statistics are flat slices in the order of [`unmask_core::ParamLayout`]. `vit`, `resnet` and `lenet` hold the passes
//! of each family; the other modules hold their operations. Every operation splits its work only by sizes, so results
//! have the same bits on any number of threads.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod activation;
mod attention;
mod batch_norm;
mod buffer;
mod convolution;
mod direct;
mod elementary;
mod engine;
mod gelu;
mod layer_norm;
mod lenet;
mod linear;
mod loss;
mod matrix;
mod parallel;
mod parameters;
mod pooling;
mod real;
mod resnet;
mod shape;
mod vector;
mod vit;

pub use batch_norm::Normalisation;
pub use engine::{Differentiated, Engine, Recording, Statistics, Wanted};
pub use real::Real;
