//! What a node tells of its training, under the same names from every node: Flower averages nothing else.

use unmask_core::DefenceKind;

use crate::{MetricValue, Named};

/// What a node trained, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainMetrics {
    /// Samples that were trained on, by which the weights count.
    pub samples: u64,
    pub loss: Option<f32>,
    /// On held-out pictures, where that was measured.
    pub accuracy: Option<f64>,
    /// Clients behind the node.
    pub clients: u32,
    /// Rounds of the node for this one of the federation.
    pub rounds: u32,
    pub defence: DefenceKind,
}

impl TrainMetrics {
    /// As a record. NaN is what was not measured. Of a defence's name a number tells: 1 under the one in force, 0 under the
    /// others, so that an average is the share of the samples that were trained on under it.
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
