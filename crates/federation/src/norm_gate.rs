//! A bound on the norm of updates, based on whole rounds.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// A clipped mean scales updates down to this many times the running median of accepted norms.
///
/// Measured in honest updates: of N clients a share f is hostile and pushes as hard as it can. That gives 2 f N units
/// against (1 - f) N, so the honest clients lead while f < 1 / (1 + 2), a third of the clients. With 2 hostile clients
/// of 10, 4 units face 8; if all hostile ones point backwards, 0.4 of an honest step remains. With a factor of 4, 8
/// units would face 8, and nothing would remain. With a factor closer to 1, the median follows growing norms too
/// slowly: it lags by half a window, so norms can grow by the factor within 50 updates. Honest norms also vary: with a
/// batch of one, a picture that is already learnt has a gradient near zero.
pub const CLIP_FACTOR: f64 = 2.0;

/// An update this many times as large as the running median is refused, not clipped: no picture has such a gradient,
/// and it does harm even when clipped. Adam steps equally far along each parameter, so a small constant outweighs the
/// honest clients where their gradients are small. If all gradients are tiny, even this multiple is small; an update
/// that could be a training step on these weights is then clipped and accepted.
const IMPLAUSIBLE: f64 = 1e6;

/// The running median of the norms of earlier rounds, and the resulting bound.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct NormGate {
    /// The newest norms, in whole rounds. Those beyond the bound at the time were cut to it.
    norms: VecDeque<f64>,
}

impl NormGate {
    /// Fewer norms give no reliable median: two hostile clients among the first four would set it.
    pub(crate) const ENOUGH: usize = 5;

    /// Number of norms to remember.
    const MOST: usize = 101;

    /// Whether enough norms are known to judge the next one.
    pub(crate) fn is_ready(&self) -> bool {
        self.norms.len() >= Self::ENOUGH
    }

    /// Adds the norms of a whole round. A minority of it can neither lower nor raise the median by more than the spread
    /// of the others. Where most of a round is beyond the bound, the bound follows them.
    pub(crate) fn close(&mut self, round: &[f64]) {
        let own = Self::default().with(round.iter().copied());
        let cut = match (self.is_ready(), own.is_ready()) {
            (true, true) => self.bound().max(own.bound()),
            (true, false) => self.bound(),
            (false, true) => own.bound(),
            (false, false) => f64::INFINITY,
        };
        round.iter().for_each(|norm| self.accept(norm.min(cut)));
    }

    /// The norm to which larger updates are scaled down; infinite while no norm is known.
    pub(crate) fn bound(&self) -> f64 {
        let mut sorted: Vec<f64> = self.norms.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        // With an even number of norms, take the lower of the two middle ones, so that half of the clients cannot raise
        // it.
        match sorted.get(sorted.len().saturating_sub(1) / 2) {
            Some(median) => CLIP_FACTOR * median,
            None => f64::INFINITY,
        }
    }

    /// How many times as large as the running median `norm` is, if that is implausible. While too few norms are known,
    /// compares with `harmless` instead. A norm up to `harmless` is never implausible.
    pub(crate) fn implausible(&self, norm: f64, harmless: f64) -> Option<f64> {
        let (times, most) = match self.is_ready() {
            true => (CLIP_FACTOR * norm / self.bound(), IMPLAUSIBLE),
            false if harmless > 0.0 => (norm / harmless, 1.0),
            false => return None,
        };
        (times > most && norm > harmless).then_some(times)
    }

    /// This gate with additional norms.
    pub(crate) fn with(&self, norms: impl Iterator<Item = f64>) -> Self {
        let mut gate = self.clone();
        norms.for_each(|norm| gate.accept(norm));
        gate
    }

    /// Remembers the norm with which an update was accepted. Zeros do not count: once half of the clients have learnt
    /// their pictures, a median of zero would scale the rest to nothing or leave them without a bound.
    pub(crate) fn accept(&mut self, norm: f64) {
        if norm == 0.0 {
            return;
        }
        if self.norms.len() == Self::MOST {
            self.norms.pop_front();
        }
        self.norms.push_back(norm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(norms: &[f64]) -> NormGate {
        NormGate::default().with(norms.iter().copied())
    }

    #[test]
    fn the_bound_is_a_multiple_of_the_lower_median() {
        assert_eq!(gate(&[]).bound(), f64::INFINITY);
        assert_eq!(gate(&[2.0]).bound(), 2.0 * CLIP_FACTOR);
        assert_eq!(gate(&[1.0, 1e30, 3.0, 1e30]).bound(), 3.0 * CLIP_FACTOR);
        assert_eq!(gate(&[0.0, 0.0, 0.0]).bound(), f64::INFINITY);
        assert_eq!(gate(&[0.0, 0.0, 7.0]).bound(), 7.0 * CLIP_FACTOR);
    }

    #[test]
    fn what_is_no_gradient_is_told() {
        assert_eq!(gate(&[2.0; 5]).implausible(1.9e6, 0.0), None);
        assert_eq!(gate(&[2.0; 5]).implausible(4e6, 0.0), Some(2e6));
        assert_eq!(gate(&[2.0; 5]).implausible(4e6, 4e6), None, "harmless");
        assert_eq!(gate(&[2.0; 4]).implausible(4e6, 5e6), None, "too few, and harmless");
        assert_eq!(gate(&[2.0; 4]).implausible(1e7, 5e6), Some(2.0), "too few, and not a training step");
        assert_eq!(gate(&[]).implausible(f64::MAX, 0.0), None, "nothing is known");
        assert_eq!(gate(&[0.0, 0.0, 1e25]).implausible(1e25, 1e3), Some(1e22), "the others say nothing");
    }

    #[test]
    fn old_norms_are_forgotten() {
        let mut gate = gate(&[1.0; NormGate::MOST]);
        (0..NormGate::MOST).for_each(|_| gate.accept(3.0));
        assert_eq!(gate.bound(), 3.0 * CLIP_FACTOR);
    }

    /// The median must follow honest updates that grow by at most the factor within half a window.
    #[test]
    fn a_growing_cohort_is_followed() {
        let mut gate = gate(&[1.0; 20]);
        let mut norm = 1.0;
        for _ in 0..400 {
            norm *= 1.01;
            let bound = gate.bound();
            gate.accept(f64::min(norm, bound));
        }
        assert!(gate.bound() > norm, "{} against {norm}", gate.bound());
    }
}
