//! Accuracy, loss and confusion.

use unmask_core::Architecture;
use unmask_federation::GlobalModel;

use super::{BatchEvaluation, HeldOut, MeasureError, Measured};
use crate::time::Moment;

/// Pictures per batch. Small enough that even a large model finishes a batch within a budget of a second.
const BATCH: usize = 20;

/// Runs the model on held-out pictures until all are used or the budget is spent. The pictures are in random order, so
/// those within the budget are a fair sample.
pub(super) fn measure(
    held_out: &HeldOut,
    model: &GlobalModel,
    now: &dyn Fn() -> Moment,
) -> Result<Measured, MeasureError> {
    let HeldOut { evaluator, data_set, budget } = held_out;
    let (started, classes) = (now(), data_set.classes.len());
    if classes > model.architecture.classes() {
        let (data_set, classes_of_model) = (data_set.name.clone(), model.architecture.classes());
        return Err(MeasureError::Classes { data_set, found: classes, classes: classes_of_model });
    }
    let side = model.architecture.side();
    let (mut confusion, mut losses, mut pictures, mut correct) = (vec![0; classes * classes], 0.0, 0, 0);
    let positions: Vec<usize> = (0..data_set.held_out.len()).collect();
    for batch in positions.chunks(BATCH) {
        if pictures > 0 && now() - started >= *budget {
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
            // A head may have more classes than the data set; ignore the others.
            let named = largest(&logits[..classes]);
            correct += u32::from(named == label);
            confusion[label * classes + named] += 1;
        }
        pictures += labels.len() as u32;
    }
    if pictures == 0 {
        return Err(MeasureError::NoPictures);
    }
    let (loss, seconds) = (losses / f64::from(pictures), (now() - started).as_secs_f64());
    Ok(Measured { pictures, correct, loss, confusion, seconds })
}

fn check(architecture: Architecture, labels: &[usize], loss: f32, logits: &[f32]) -> Result<(), MeasureError> {
    if logits.len() != labels.len() * architecture.classes() {
        return Err(MeasureError::Logits { logits: logits.len(), pictures: labels.len() });
    }
    if !loss.is_finite() || logits.iter().any(|logit| logit.is_nan()) {
        return Err(MeasureError::NotFinite);
    }
    Ok(())
}

fn largest(values: &[f32]) -> usize {
    values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc, time::Duration};

    use unmask_core::{ModelState, VitPreset};
    use unmask_data::datasets::{
        DataSet,
        generated::{Half, generate},
    };

    use super::*;
    use crate::{
        data_set::{DataConfig, SharedDataSet},
        evaluation::ModelEvaluator,
    };

    #[test]
    fn largest_of_several() {
        assert_eq!(largest(&[-1.0, 3.0, f32::NEG_INFINITY, 2.0]), 1);
        assert_eq!(largest(&[]), 0);
    }

    /// Takes every picture for one of class 0; its loss is the number of pictures.
    #[derive(Debug)]
    struct Zero;

    impl ModelEvaluator for Zero {
        fn evaluate(
            &self,
            architecture: Architecture,
            _: &ModelState,
            _: &[f32],
            labels: &[usize],
        ) -> anyhow::Result<BatchEvaluation> {
            let logits = |_| (0..architecture.classes()).map(|class| if class == 0 { 1.0 } else { 0.0 });
            Ok(BatchEvaluation { loss: labels.len() as f32, logits: labels.iter().flat_map(logits).collect() })
        }
    }

    fn load(_: &DataConfig, seed: u64) -> anyhow::Result<DataSet> {
        let half = |half, count| generate(half, count, seed);
        let (train, test) = (half(Half::Train, 10)?, half(Half::Test, 45)?);
        Ok(DataSet { name: "shapes".to_owned(), train, test, left_out: Vec::new() })
    }

    fn held_out(budget: Duration) -> (HeldOut, GlobalModel) {
        let data_set = Arc::new(SharedDataSet::load(load, &DataConfig::default(), 1).unwrap());
        let architecture = Architecture::from(VitPreset::Pico);
        let model = GlobalModel { architecture, state: architecture.initial(1) };
        (HeldOut { evaluator: Arc::new(Zero), data_set, budget }, model)
    }

    #[test]
    fn every_picture_counts_once() {
        let (held_out, model) = held_out(Duration::MAX);
        let measured = measure(&held_out, &model, &|| Moment::START).unwrap();
        let zeros = held_out.data_set.held_out.labels().iter().filter(|label| **label == 0).count() as u32;
        assert_eq!((measured.pictures, measured.correct), (45, zeros));
        assert!((measured.loss - f64::from(20 * 20 + 20 * 20 + 5 * 5) / 45.0).abs() < 1e-9, "{}", measured.loss);
        let classes = held_out.data_set.classes.len();
        for (label, row) in measured.confusion.chunks(classes).enumerate() {
            let count = held_out.data_set.held_out.labels().iter().filter(|own| usize::from(**own) == label).count();
            assert_eq!((row[0] as usize, row.iter().sum::<u32>() as usize), (count, count));
        }
    }

    #[test]
    fn a_spent_budget_ends_it_after_a_batch_at_least() {
        for (budget, pictures) in [(0, 20), (2, 20), (3, 40), (9, 45)] {
            let (held_out, model) = held_out(Duration::from_secs(budget));
            let looks = Cell::new(0);
            let now = || {
                looks.set(looks.get() + 1);
                Moment::after(Duration::from_secs(2 * looks.get()))
            };
            assert_eq!(measure(&held_out, &model, &now).unwrap().pictures, pictures, "{budget} s");
        }
    }
}
