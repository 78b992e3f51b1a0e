//! How well the global model does on pictures that nobody trains on.

mod measure;
pub(super) mod thread;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use unmask_core::{Architecture, ModelState};
use unmask_federation::GlobalModel;

use super::data_set::SharedDataSet;

/// Runs a model on labelled pictures. The relay knows no tensors, so that whoever starts it hands this in.
pub trait ModelEvaluator: fmt::Debug + Send + Sync {
    /// What the model of `state` says to `images`, `[batch, 3, side, side]` in [0, 1], with labels `[batch]`.
    ///
    /// # Errors
    /// In words for people, if the model cannot be run on them.
    fn evaluate(
        &self,
        architecture: Architecture,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<BatchEvaluation, String>;
}

/// What a model says to a batch of pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchEvaluation {
    pub loss: f32,
    /// `[batch, classes]`, row-major.
    pub logits: Vec<f32>,
}

/// What a model can be measured with, by whoever has it.
#[derive(Debug, Clone)]
pub(crate) struct HeldOut {
    pub(crate) evaluator: Arc<dyn ModelEvaluator>,
    pub(crate) data_set: Arc<SharedDataSet>,
    pub(crate) budget: Duration,
}

impl HeldOut {
    /// Runs the model on held-out pictures until they or the budget are at an end, which takes a while.
    ///
    /// # Errors
    /// In words for people, if the model cannot be run on them.
    pub(crate) fn measure(&self, model: &GlobalModel) -> Result<Measured, String> {
        // What the model has become under strangers' updates decides what is computed here.
        catch_unwind(AssertUnwindSafe(|| measure::measure(self, model)))
            .unwrap_or_else(|_| Err("measuring the model broke down".to_owned()))
    }
}

#[derive(Debug)]
pub(crate) struct EvaluationJob {
    /// Tells results that are still wanted from others.
    pub(crate) serial: u64,
    /// The round after which the model came about; 0 before the first.
    pub(crate) round: u32,
    /// The model. Kept alive until it is measured: a round that closes meanwhile writes its new weights elsewhere.
    pub(crate) model: Arc<GlobalModel>,
    pub(crate) held_out: HeldOut,
}

/// The result of an [`EvaluationJob`], or why there is none.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) serial: u64,
    pub(crate) round: u32,
    pub(crate) outcome: Result<Measured, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    /// Number of pictures N.
    pub(crate) pictures: u32,
    pub(crate) correct: u32,
    pub(crate) loss: f64,
    /// `[classes, classes]`, row-major: rows are what pictures are, columns what they were taken for.
    pub(crate) confusion: Vec<u32>,
    pub(crate) seconds: f64,
}

/// The 95 % interval of a share of which `hits` of `of` were counted (Wilson, 1927): unlike the textbook's, it is right for
/// few pictures and for shares near 0 and 1.
pub(crate) fn interval(hits: u32, of: u32) -> [f64; 2] {
    const Z: f64 = 1.959_964;
    let n = f64::from(of.max(1));
    let share = f64::from(hits) / n;
    let centre = share + Z * Z / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    [((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same from the formula in another program, in double precision.
    #[test]
    fn intervals_are_wilsons() {
        for (hits, of, low, high) in
            [(0, 10, 0.0, 0.277_532_8), (9, 10, 0.595_849_9, 0.982_123_8), (250, 500, 0.456_341_3, 0.543_658_7)]
        {
            let [found_low, found_high] = interval(hits, of);
            assert!((found_low - low).abs() < 1e-4 && (found_high - high).abs() < 1e-4, "{found_low} {found_high}");
        }
    }
}
