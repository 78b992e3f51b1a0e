//! The update of the global weights when a round closes.

use unmask_core::Rule;

use crate::{Aggregate, Optimiser, UpdateCounts, sums::Block};

/// The mean of a round is too large for a step, because an update was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mean of the updates is too large for a step")]
pub struct Overflow;

impl Aggregate {
    /// Closes the round: updates weights (`[P]`) and update counts in one pass over the parameters.
    ///
    /// Under FedSGD the optimiser steps on the mean gradient (Eqs. 1 and 2); under FedAvg the mean of the clients'
    /// weights replaces the old weights (Eqs. 3 and 4). A parameter that nobody sent, or fewer
    /// clients than [`with_min_kept`](Self::with_min_kept) asks for, stays bit for bit the same, as do its moments.
    ///
    /// # Errors
    /// The step would overflow. Weights, optimiser and counts stay unchanged.
    pub fn close(
        &mut self,
        rule: Rule,
        optimiser: &mut Optimiser,
        weights: &mut [f32],
        counts: &mut UpdateCounts,
    ) -> Result<(), Overflow> {
        // So few updates move nothing. The optimiser must not count them as a step.
        if self.updates() < self.min_kept() {
            return Ok(());
        }
        self.finish(rule.is_fedavg().then_some(&*weights));
        if self.overflows() {
            return Err(Overflow);
        }
        let mut step = match rule {
            Rule::FedSgd => Some(optimiser.step(weights.len())),
            Rule::FedAvg { .. } => None,
        };
        self.for_each_block(|block| {
            let weights = &mut weights[block.start..block.start + block.sums.len()];
            match &mut step {
                Some(step) => step.apply(weights, &block),
                None => average(weights, &block),
            }
            counts.record(block.start, block.sums.len(), block.sent);
        });
        counts.end_round(self.updates(), self.min_kept());
        Ok(())
    }
}

fn average(weights: &mut [f32], block: &Block<'_>) {
    for (weight, (sum, &total)) in weights.iter_mut().zip(block.sums.iter().zip(block.weights)) {
        let mean = sum / total;
        *weight = if total > 0.0 { mean } else { *weight };
    }
}
