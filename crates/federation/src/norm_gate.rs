//! How large an update may be, told by those that were accepted before.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// A clipped mean takes an update at no more than this many times the running median of the norms of accepted ones.
///
/// Count in units of an honest update. Of N clients a share f is hostile and pushes as hard as it may: f N times this many
/// units against (1 - f) N honest ones, so that the honest lead while f < 1 / (1 + 2): a third of the clients. 2 hostile of 10
/// have 4 units against 8, and if all of theirs point backwards, 0.4 of an honest step is left; with a factor of 4 they
/// would have 8 against 8, and nothing would be left. Nearer to 1 the median follows norms that grow too slowly: it is half a
/// window late, so that it lets them grow by the factor within 50 updates. And honest norms spread: under a batch of one a
/// picture that is learnt already has a gradient near zero.
pub const CLIP_FACTOR: f64 = 2.0;

/// An update this many times as large as the running median is refused, not clipped: no picture has such a gradient, and
/// what is left of it once clipped still hurts. Adam steps equally far along each parameter, so that a bit of the same value
/// everywhere outweighs the honest clients wherever their gradient is small. Where all gradients are tiny, that many times is
/// still little: what could be the step of a training on these weights is clipped and taken.
const IMPLAUSIBLE: f64 = 1e6;

/// The running median of the norms of accepted updates, and the bound that follows from it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct NormGate {
    /// The newest norms, each at most the bound that held when it came; the first few as they are, where none held yet.
    norms: VecDeque<f64>,
}

impl NormGate {
    /// With fewer norms than this a median says nothing: two hostile clients among the first four would set it.
    pub(crate) const ENOUGH: usize = 5;

    /// Norms remembered.
    const MOST: usize = 101;

    /// Whether enough norms are known, with so many that `wait`, to judge the next one.
    pub(crate) fn is_ready(&self, wait: usize) -> bool {
        self.norms.len() + wait >= Self::ENOUGH
    }

    /// The norm to which a larger update is scaled down; infinite while nothing is known.
    pub(crate) fn bound(&self) -> f64 {
        let mut sorted: Vec<f64> = self.norms.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        // Of an even number the lower one of the two in the middle, so that half of the clients cannot raise it.
        match sorted.get(sorted.len().saturating_sub(1) / 2) {
            Some(median) => CLIP_FACTOR * median,
            None => f64::INFINITY,
        }
    }

    /// How many times as large as the running median `norm` is, where that is implausible; as `harmless`, while too few norms
    /// are known for a median. What is no larger than `harmless` never is.
    pub(crate) fn implausible(&self, norm: f64, harmless: f64) -> Option<f64> {
        let (times, most) = match self.is_ready(0) {
            true => (CLIP_FACTOR * norm / self.bound(), IMPLAUSIBLE),
            false if harmless > 0.0 => (norm / harmless, 1.0),
            false => return None,
        };
        (times > most && norm > harmless).then_some(times)
    }

    /// What would be known with these norms as well.
    pub(crate) fn with(&self, norms: impl Iterator<Item = f64>) -> Self {
        let mut gate = self.clone();
        norms.for_each(|norm| gate.accept(norm));
        gate
    }

    /// Remembers the norm of an accepted update, as it was taken. Zero is not one to judge others by: half of the clients have
    /// learnt their picture, and the rest would count nothing, or without bound.
    pub(crate) fn accept(&mut self, norm: f64) {
        if norm == 0.0 {
            return;
        }
        if self.norms.len() == Self::MOST {
            self.norms.pop_front();
        }
        self.norms.push_back(norm);
    }

    /// Forgets everything: the updates to come are of another kind.
    pub(crate) fn clear(&mut self) {
        self.norms.clear();
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
        assert_eq!(gate(&[2.0; 4]).implausible(1e7, 5e6), Some(2.0), "too few, and no step of any training");
        assert_eq!(gate(&[]).implausible(f64::MAX, 0.0), None, "nothing is known");
        assert_eq!(gate(&[0.0, 0.0, 1e25]).implausible(1e25, 1e3), Some(1e22), "the others say nothing");
    }

    #[test]
    fn old_norms_are_forgotten() {
        let mut gate = gate(&[1.0; NormGate::MOST]);
        (0..NormGate::MOST).for_each(|_| gate.accept(3.0));
        assert_eq!(gate.bound(), 3.0 * CLIP_FACTOR);
    }

    /// The median follows honest updates that grow: by the factor within half a window at most.
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
