//! The three families of networks on the processor: forward and backward passes, written out on flat buffers.
//!
//! [`Engine::differentiate`] and [`Engine::logits`] are the two entries. Weights, gradients and running statistics are flat
//! slices in the order of [`unmask_core::ParamLayout`]. The passes of a family stand in `vit`, `resnet` and `lenet`; the
//! operations that they are made of in the other modules. Every operation divides its work by the sizes alone, so that a
//! result has the same bits on any number of threads.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod attention;
mod batch_norm;
mod buffer;
mod convolution;
mod direct;
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
mod vector;
mod vit;

pub use engine::{Differentiated, Engine, Normalisation, Recording, Statistics, Wanted};
pub use real::Real;
