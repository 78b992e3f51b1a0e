//! What is averaged without a mask.

use crate::learner::Sent;

/// Weighted sums of what needs no mask: losses and batch norm's statistics.
pub(super) struct Sums {
    statistics: Vec<f64>,
    loss: f64,
    weight: f64,
}

impl Sums {
    pub(super) fn new(statistics: usize) -> Self {
        Self { statistics: vec![0.0; statistics], loss: 0.0, weight: 0.0 }
    }

    pub(super) fn add(&mut self, sent: &Sent) {
        let weight = f64::from(sent.weight);
        for (sum, value) in self.statistics.iter_mut().zip(&sent.statistics) {
            *sum += weight * f64::from(*value);
        }
        self.loss += weight * f64::from(sent.loss);
        self.weight += weight;
    }

    pub(super) fn loss(&self) -> f32 {
        (self.loss / self.weight) as f32
    }

    pub(super) fn statistics(&self) -> Vec<f32> {
        self.statistics.iter().map(|sum| (sum / self.weight) as f32).collect()
    }
}
