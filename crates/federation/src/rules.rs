//! The rules that combine a round's updates. A rule has a file of its own, with all that only it keeps; a new rule
//! needs such a file, and a variant of [`AggregationRule`] with its three arms.

mod aligned;
mod bounded;
mod clipped;
mod directions;
mod mean;
mod sorted;

use std::fmt;

use unmask_core::Aggregation;
use unmask_defence::CheckedUpdate;

use self::{aligned::Aligned, clipped::Clipped, mean::Mean, sorted::Sorted};
use crate::{Refusal, norm_gate::NormGate, sums::Sums};

/// An update that passed all checks, with its weight in the round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weighted<'a> {
    pub(crate) update: CheckedUpdate<'a>,
    pub(crate) weight: u32,
    /// The norm of its change; 0 if the rule does not use norms.
    pub(crate) norm: f64,
}

/// One rule with the updates that it holds.
///
/// `reference` (`[P]`) is what the values are a change of: the global weights under FedAvg, nothing under FedSGD.
pub(crate) trait Combine: fmt::Debug {
    /// Starts a round in which no update with a norm up to `harmless` is implausible.
    fn begin(&mut self, _harmless: f64) {}

    /// Drops the updates of this round.
    fn restart(&mut self) {}

    /// Returns the update's norm, or 0 if the rule does not use norms.
    ///
    /// # Errors
    /// The norm is implausible.
    fn check_norm(&self, _update: &CheckedUpdate<'_>, _reference: Option<&[f32]>) -> Result<f64, Refusal> {
        Ok(0.0)
    }

    /// Adds an update, which `sums` has counted. Returns it unless the rule holds it until it can be judged.
    fn add<'a>(&mut self, update: Weighted<'a>, reference: Option<&[f32]>, sums: &mut Sums) -> Option<Weighted<'a>>;

    /// Number of held updates that may still be left out.
    fn doubtful(&self) -> usize {
        0
    }

    /// Judges the held updates, since no more will arrive.
    fn judge(&mut self, _reference: Option<&[f32]>, _sums: &mut Sums) {}

    /// Updates left out in this round, as positions in the order of arrival.
    fn left_out(&self) -> &[usize] {
        &[]
    }

    /// Completes the sums.
    fn finish(&mut self, _reference: Option<&[f32]>, _sums: &mut Sums) {}

    /// Whether each sum ends up as one value, no matter how many updates it comes from.
    fn is_single(&self) -> bool {
        false
    }

    /// Updates much larger than the round's others, as positions in the order of arrival.
    fn large(&self) -> &[usize] {
        &[]
    }

    /// Number of updates scaled down or left out because they are too large.
    fn clipped(&self) -> u32 {
        0
    }

    /// Number of updates left out because they point against the others.
    fn opposed(&self) -> u32 {
        0
    }

    /// The norms known from earlier rounds, if the rule uses norms.
    fn norms(&self) -> Option<&NormGate> {
        None
    }

    /// Continues with norms of earlier rounds.
    fn resume(&mut self, _norms: NormGate) {}

    /// Forgets this round's norms.
    fn forget_norms(&mut self) {}
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AggregationRule {
    Mean(Mean),
    Clipped(Clipped),
    Aligned(Aligned),
    Sorted(Sorted),
}

impl AggregationRule {
    pub(crate) fn new(aggregation: Aggregation) -> Self {
        match aggregation {
            Aggregation::Mean | Aggregation::SecureSum(_) => Self::Mean(Mean),
            Aggregation::Clipped => Self::Clipped(Clipped::default()),
            Aggregation::Aligned => Self::Aligned(Aligned::default()),
            Aggregation::TrimmedMean { share } => Self::Sorted(Sorted::trimmed_mean(share)),
            Aggregation::Median => Self::Sorted(Sorted::median()),
        }
    }

    pub(crate) fn get(&self) -> &dyn Combine {
        match self {
            Self::Mean(rule) => rule,
            Self::Clipped(rule) => rule,
            Self::Aligned(rule) => rule,
            Self::Sorted(rule) => rule,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut dyn Combine {
        match self {
            Self::Mean(rule) => rule,
            Self::Clipped(rule) => rule,
            Self::Aligned(rule) => rule,
            Self::Sorted(rule) => rule,
        }
    }
}
