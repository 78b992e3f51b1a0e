//! A bound on norms, and the updates that are held until it is known. The clipped and the aligned mean share it.

use unmask_defence::CheckedUpdate;

use super::Weighted;
use crate::{Refusal, norm_gate::NormGate, sums::Sums};

/// Bytes of updates that wait at most in a round without a bound. Those that come later are judged by those that wait.
const HELD: usize = 512 << 20;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bounded {
    /// Norms of earlier rounds.
    norms: NormGate,
    norms_before: NormGate,
    /// Norm up to which no update is implausible, however small the others are.
    harmless: f64,
    /// The norms of this round's updates, in the order of arrival; `None` for those left out.
    round: Vec<Option<f64>>,
    /// The bound of this round, once it is known.
    bound: Option<f64>,
    /// Updates that wait until the round ends.
    held: Vec<Held>,
    /// Updates left out in the end, as positions in the order of arrival.
    left_out: Vec<usize>,
    /// Updates much larger than the round's others, as positions in the order of arrival.
    large: Vec<usize>,
    clipped: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Held {
    /// Position in the order of arrival.
    position: usize,
    update: Weighted<'static>,
}

impl Bounded {
    pub(super) fn begin(&mut self, harmless: f64) {
        self.harmless = harmless;
        self.norms_before.clone_from(&self.norms);
    }

    pub(super) fn restart(&mut self) {
        self.held.clear();
        self.round.clear();
        self.left_out.clear();
        self.large.clear();
        (self.bound, self.clipped) = (None, 0);
    }

    pub(super) fn resume(&mut self, norms: NormGate) {
        self.norms = norms;
    }

    pub(super) fn forget_norms(&mut self) {
        self.norms.clone_from(&self.norms_before);
    }

    pub(super) fn norms(&self) -> &NormGate {
        &self.norms
    }

    pub(super) fn left_out(&self) -> &[usize] {
        &self.left_out
    }

    pub(super) fn large(&self) -> &[usize] {
        &self.large
    }

    pub(super) fn clipped(&self) -> u32 {
        self.clipped
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &CheckedUpdate<'static>> {
        self.held.iter().map(|held| &held.update.update)
    }

    /// Returns the norm of an update's change.
    ///
    /// # Errors
    /// Enough norms are known, and this one is implausible.
    pub(super) fn check_norm(&self, update: &CheckedUpdate<'_>, reference: Option<&[f32]>) -> Result<f64, Refusal> {
        let norm = update.squared_norm(reference).sqrt();
        match self.norms.implausible(norm, self.harmless).filter(|_| self.norms.is_ready()) {
            Some(times) => Err(Refusal::Implausible { times }),
            None => Ok(norm),
        }
    }

    /// The bound that earlier rounds, or the updates that waited, set for this round.
    pub(super) fn known(&self) -> Option<f64> {
        self.bound.or_else(|| self.norms.is_ready().then(|| self.norms.bound()))
    }

    /// Whether the updates that wait fill the memory that they may have.
    pub(super) fn is_full(&self) -> bool {
        let bytes: usize = self.held().map(|update| 4 * update.values().len()).sum();
        self.held.len() >= NormGate::ENOUGH && bytes >= HELD
    }

    /// Number of held updates whose norm is implausible among the others.
    pub(super) fn implausible(&self) -> usize {
        let norms = self.norms.with(self.round.iter().flatten().copied());
        self.held.iter().filter(|held| norms.implausible(held.update.norm, self.harmless).is_some()).count()
    }

    /// Adds an update, scaled down to the bound.
    pub(super) fn add(&mut self, bound: f64, update: &Weighted<'_>, reference: Option<&[f32]>, sums: &mut Sums) {
        self.round.push(Some(update.norm));
        self.add_within(bound, update, reference, sums);
    }

    /// Holds an update until it can be judged. Copies only a borrowed one.
    pub(super) fn hold(&mut self, Weighted { update, weight, norm }: Weighted<'_>) {
        let update = Weighted { update: update.into_owned(), weight, norm };
        self.held.push(Held { position: self.round.len(), update });
        self.round.push(Some(norm));
    }

    /// Judges the held updates by all that arrived, and adds them.
    pub(super) fn release(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        if self.held.is_empty() {
            return;
        }
        let (judge, harmless) = (self.norms.with(self.round.iter().flatten().copied()), self.harmless);
        let implausible = self.leave_out(sums, |update| judge.implausible(update.norm, harmless).is_some());
        self.clipped += implausible;
        let from = self.left_out.len() - implausible as usize;
        self.large.extend(&self.left_out[from..]);
        let own = NormGate::default().with(self.round.iter().flatten().copied());
        let bound =
            if own.is_ready() { own.bound() } else { self.norms.with(self.round.iter().flatten().copied()).bound() };
        self.bound = Some(bound);
        for Held { update, .. } in std::mem::take(&mut self.held) {
            self.add_within(bound, &update, reference, sums);
        }
    }

    /// Ends the round: its norms count from the next one on. Finds the updates that are large among the others.
    pub(super) fn close(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        self.release(reference, sums);
        let round: Vec<f64> = self.round.iter().flatten().copied().collect();
        let own = NormGate::default().with(round.iter().copied());
        let applied = self.known().unwrap_or(f64::INFINITY);
        let usual = if own.is_ready() { own.bound().max(applied) } else { applied };
        let is_large = |norm: &Option<f64>| norm.is_some_and(|norm| norm > usual);
        self.large
            .extend(self.round.iter().enumerate().filter(|(_, norm)| is_large(norm)).map(|(position, _)| position));
        self.norms.close(&round);
        self.round.clear();
    }

    /// Leaves out held updates, in the order of their arrival. Returns how many.
    pub(super) fn leave_out(&mut self, sums: &mut Sums, mut is_left_out: impl FnMut(&Weighted<'_>) -> bool) -> u32 {
        let before = self.left_out.len();
        self.held.retain(|Held { position, update }| {
            let is_left_out = is_left_out(update);
            if is_left_out {
                self.left_out.push(*position);
                self.round[*position] = None;
                sums.leave_out(update.weight);
            }
            !is_left_out
        });
        u32::try_from(self.left_out.len() - before).unwrap_or(u32::MAX)
    }

    fn add_within(&mut self, bound: f64, update: &Weighted<'_>, reference: Option<&[f32]>, sums: &mut Sums) {
        let Weighted { update, weight, norm } = update;
        if *norm <= bound {
            return sums.add(update, *weight);
        }
        self.clipped += 1;
        let values = update.scaled(reference, bound / norm);
        sums.add(&update.with_values(&values), *weight);
    }
}
