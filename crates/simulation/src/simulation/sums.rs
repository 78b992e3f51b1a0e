//! What is averaged without a mask.

use unmask_federation::WeightedMean;

use crate::learner::ClientUpdate;

/// Means over clients of what needs no mask: losses and batch norm's statistics.
pub(super) struct Sums {
    statistics: WeightedMean,
    loss: WeightedMean,
}

impl Sums {
    pub(super) fn new(statistics: usize) -> Self {
        Self { statistics: WeightedMean::new(statistics), loss: WeightedMean::new(1) }
    }

    pub(super) fn add(&mut self, sent: &ClientUpdate) {
        self.statistics.add(&sent.statistics, sent.weight);
        self.loss.add(&[sent.loss], sent.weight);
    }

    pub(super) fn loss(&self) -> f32 {
        self.loss.mean().into_iter().sum()
    }

    pub(super) fn statistics(&self) -> Vec<f32> {
        self.statistics.mean()
    }
}
