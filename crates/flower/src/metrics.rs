//! A node's training metrics. All nodes use the same names, because Flower averages only metrics that all of them
//! report.

use unmask_core::DefenceKind;

use crate::{MetricValue, Named};

/// The metrics of one training instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainMetrics {
    /// Number of training samples, by which strategies weight the result.
    pub samples: u64,
    pub loss: Option<f32>,
    /// Accuracy on held-out pictures, if it was measured.
    pub accuracy: Option<f64>,
    pub clients: u32,
    /// Rounds the node ran in this round of the federation.
    pub rounds: u32,
    pub defence: DefenceKind,
}

impl TrainMetrics {
    /// Returns the metrics as a record. Values that were not measured are NaN. The defence is one-hot encoded, so that
    /// the average is the share of samples that were trained under it.
    pub fn named(&self) -> Named<MetricValue> {
        let Self { samples, loss, accuracy, clients, rounds, defence } = *self;
        let mut metrics = vec![
            ("num-examples".to_owned(), MetricValue::Integer(samples.try_into().unwrap_or(i64::MAX))),
            ("loss".to_owned(), MetricValue::Float(loss.map_or(f64::NAN, f64::from))),
            ("accuracy".to_owned(), MetricValue::Float(accuracy.unwrap_or(f64::NAN))),
            ("clients".to_owned(), MetricValue::Integer(clients.into())),
            ("rounds".to_owned(), MetricValue::Integer(rounds.into())),
        ];
        metrics.extend(DefenceKind::ALL.iter().map(|kind| {
            let share = if *kind == defence { 1.0 } else { 0.0 };
            (format!("defence-{}", kind.name()), MetricValue::Float(share))
        }));
        metrics
    }
}
