//! Accuracy, loss and confusion.

use std::time::Instant;

use unmask_core::Architecture;

use super::{BatchEvaluation, EvaluationJob, ModelEvaluator};

/// Pictures that go through the model at once: what fits a budget of a second even with a large one.
const BATCH: usize = 20;

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

/// Runs the model on held-out pictures until they or the budget are at an end. They come in random order, so that those
/// within the budget are a fair sample too.
pub(super) fn measure(evaluator: &dyn ModelEvaluator, job: &EvaluationJob) -> Result<Measured, String> {
    let EvaluationJob { model, data_set, budget, .. } = job;
    let (started, classes) = (Instant::now(), data_set.classes.len());
    if classes > model.architecture.classes() {
        return Err(format!("{} has {classes} classes, and the model {}", data_set.name, model.architecture.classes()));
    }
    let side = model.architecture.side();
    let (mut confusion, mut losses, mut pictures, mut correct) = (vec![0; classes * classes], 0.0, 0, 0);
    let positions: Vec<usize> = (0..data_set.held_out.len()).collect();
    for batch in positions.chunks(BATCH) {
        if pictures > 0 && started.elapsed() >= *budget {
            break;
        }
        let images: Vec<f32> = batch.iter().filter_map(|&i| data_set.held_out.chw_resized(i, side)).flatten().collect();
        let labels: Vec<usize> =
            batch.iter().filter_map(|&i| data_set.held_out.labels().get(i)).map(|label| usize::from(*label)).collect();
        let BatchEvaluation { loss, logits } =
            evaluator.evaluate(model.architecture, &model.state, &images, &labels)?;
        check(model.architecture, &labels, loss, &logits)?;
        losses += f64::from(loss) * labels.len() as f64;
        for (&label, logits) in labels.iter().zip(logits.chunks_exact(model.architecture.classes())) {
            // A head may have more classes than the data set; its pictures are of none of those.
            let named = largest(&logits[..classes]);
            correct += u32::from(named == label);
            confusion[label * classes + named] += 1;
        }
        pictures += labels.len() as u32;
    }
    if pictures == 0 {
        return Err("there are no held-out pictures".to_owned());
    }
    let (loss, seconds) = (losses / f64::from(pictures), started.elapsed().as_secs_f64());
    Ok(Measured { pictures, correct, loss, confusion, seconds })
}

fn check(architecture: Architecture, labels: &[usize], loss: f32, logits: &[f32]) -> Result<(), String> {
    if logits.len() != labels.len() * architecture.classes() {
        return Err(format!("the model gave {} logits to {} pictures", logits.len(), labels.len()));
    }
    if !loss.is_finite() || logits.iter().any(|logit| logit.is_nan()) {
        return Err("the model's answers are not finite; its training has diverged".to_owned());
    }
    Ok(())
}

fn largest(values: &[f32]) -> usize {
    values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at)
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

    #[test]
    fn largest_of_several() {
        assert_eq!(largest(&[-1.0, 3.0, f32::NEG_INFINITY, 2.0]), 1);
        assert_eq!(largest(&[]), 0);
    }
}
