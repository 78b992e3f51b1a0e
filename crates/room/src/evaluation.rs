//! Measures the global model on held-out pictures.

mod measure;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use unmask_core::{Architecture, ModelState};
use unmask_federation::GlobalModel;

use super::{data_set::SharedDataSet, time::Moment};

/// Runs a model on labelled pictures. The room has no tensor library, so its host supplies this.
pub trait ModelEvaluator: fmt::Debug + Send + Sync {
    /// Runs the model of `state` on `images`, `[batch, 3, side, side]` in [0, 1], with labels `[batch]`.
    ///
    /// # Errors
    /// In words for people, if the model cannot be run on them.
    fn evaluate(
        &self,
        architecture: Architecture,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> anyhow::Result<BatchEvaluation>;
}

/// A model's output for a batch of pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchEvaluation {
    pub loss: f32,
    /// `[batch, classes]`, row-major.
    pub logits: Vec<f32>,
}

/// Why measuring a model has no result, as a clause.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("{data_set} has {found} classes, and the model {classes}")]
    Classes { data_set: String, found: usize, classes: usize },
    #[error("there are no held-out pictures")]
    NoPictures,
    #[error(transparent)]
    Evaluator(#[from] anyhow::Error),
    #[error("the model gave {logits} logits to {pictures} pictures")]
    Logits { logits: usize, pictures: usize },
    #[error("the model's answers are not finite; its training has diverged")]
    NotFinite,
    #[error("measuring the model broke down")]
    BrokeDown,
}

/// Everything that measuring a model takes.
#[derive(Debug, Clone)]
pub struct HeldOut {
    pub(crate) evaluator: Arc<dyn ModelEvaluator>,
    pub(crate) data_set: Arc<SharedDataSet>,
    pub(crate) budget: Duration,
}

impl HeldOut {
    /// Runs the model on held-out pictures until all are used or the budget is spent by the clock `now`. Takes a while.
    ///
    /// # Errors
    /// If the model cannot be run on them.
    pub fn measure(&self, model: &GlobalModel, now: &dyn Fn() -> Moment) -> Result<Measured, MeasureError> {
        // Untrusted updates shaped the model, so its evaluation may panic.
        catch_unwind(AssertUnwindSafe(|| measure::measure(self, model, now)))
            .unwrap_or_else(|_| Err(MeasureError::BrokeDown))
    }
}

/// The result of measuring the room's model, or the reason why there is none.
#[derive(Debug)]
pub struct Evaluation {
    /// Tells current results from outdated ones.
    pub(crate) serial: u64,
    /// The round that produced the model; 0 before the first.
    pub(crate) round: u32,
    pub(crate) outcome: Result<Measured, MeasureError>,
}

/// The quality of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Number of pictures N.
    pub pictures: u32,
    pub correct: u32,
    pub loss: f64,
    /// `[classes, classes]`, row-major: rows are the true classes, columns the predicted ones.
    pub confusion: Vec<u32>,
    pub seconds: f64,
}

/// Returns the Wilson (1927) 95 % interval of the share `hits` / `of`. Unlike the textbook interval, it holds for few
/// pictures and for shares near 0 and 1.
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

    /// Reference values from another program, in double precision.
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
