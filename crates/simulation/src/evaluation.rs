//! Tests of the model on unseen pictures.

use rayon::prelude::*;
use unmask_core::ModelState;
use unmask_data::datasets::Labelled;
use unmask_model::{ModelError, Network};

use crate::batches;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestScore {
    pub pictures: usize,
    pub correct: usize,
    /// Share classified correctly, in [0, 1].
    pub accuracy: f64,
    pub loss: f64,
}

/// Pixels of one channel in a batch of test pictures; limits the memory of a batch.
const PIXELS_TOGETHER: usize = 64 * 32 * 32;

/// Tests the model of `state` on the pictures `indices` of `set`, on all threads of the current pool. Batches and the
/// order of the sums depend only on the numbers of pictures and pixels.
pub(crate) fn evaluate(
    network: &Network,
    state: &ModelState,
    set: &Labelled,
    indices: &[usize],
) -> Result<TestScore, ModelError> {
    let side = network.architecture().side();
    let together = (PIXELS_TOGETHER / (side * side)).max(1);
    let parts: Vec<(f64, usize, usize)> = indices
        .par_chunks(together)
        .map(|indices| {
            let batch = batches::read_batch(set, indices, side, None);
            let found = network.evaluate_blocking(state, &batch.images, &batch.labels)?;
            let pictures = batch.labels.len();
            Ok((f64::from(found.loss) * pictures as f64, found.correct, pictures))
        })
        .collect::<Result<_, ModelError>>()?;
    let sum =
        |sums: (f64, usize, usize), part: (f64, usize, usize)| (sums.0 + part.0, sums.1 + part.1, sums.2 + part.2);
    let (loss, correct, pictures) = parts.into_iter().fold((0.0, 0, 0), sum);
    let share = |value: f64| value / pictures.max(1) as f64;
    Ok(TestScore { pictures, correct, accuracy: share(correct as f64), loss: share(loss) })
}
