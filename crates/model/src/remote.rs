//! Passes computed by another part of the program: in a tab, the worker with Burn and WebGPU.

use std::{fmt, future::Future, pin::Pin, rc::Rc};

use send_wrapper::SendWrapper;
use unmask_core::Architecture;
use unmask_engine::{Differentiated, Normalisation, Wanted};

/// The other part. A browser's worker is one thread, so attacks that may move between threads can hold it.
pub type Shared = SendWrapper<Rc<dyn Remote>>;

/// A future result, or the reason for its failure.
pub type Later<T> = Pin<Box<dyn Future<Output = Result<T, String>>>>;

/// One pass, with the same slices as for [`unmask_engine::Engine`].
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    pub architecture: Architecture,
    /// `[P]`
    pub weights: &'a [f32],
    /// `[Q]`
    pub statistics: &'a [f32],
    /// `[batch, 3, side, side]` in [0, 1].
    pub images: &'a [f32],
}

pub trait Remote: fmt::Debug {
    /// Like [`unmask_engine::Engine::differentiate`].
    fn differentiate(
        &self,
        pass: Pass<'_>,
        labels: &[usize],
        normalisation: Normalisation,
        wanted: Wanted,
    ) -> Later<Differentiated<f32>>;

    /// Returns logits `[batch, classes]`, like [`unmask_engine::Engine::logits`].
    fn logits(&self, pass: Pass<'_>, batch: usize) -> Later<Vec<f32>>;
}
