//! A bound on norms, and the updates that are held until it is known. The clipped and the aligned mean share it.

use unmask_defence::CheckedUpdate;

use super::Weighted;
use crate::{Refusal, norm_gate::NormGate, sums::Sums};

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bounded {
    norms: NormGate,
    /// Norms known before this round.
    norms_before: NormGate,
    /// Norm up to which no update is implausible, however small the others are.
    harmless: f64,
    /// Updates that wait until enough norms are known, or until the round ends.
    held: Vec<Held>,
    /// Number of updates that arrived in this round.
    arrived: usize,
    /// Updates left out in the end, as positions in the order of arrival.
    left_out: Vec<usize>,
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
        self.arrived = 0;
        self.left_out.clear();
        self.clipped = 0;
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
        match self.norms.implausible(norm, self.harmless).filter(|_| self.has_bound()) {
            Some(times) => Err(Refusal::Implausible { times }),
            None => Ok(norm),
        }
    }

    /// Whether enough norms are known to judge the next update.
    pub(super) fn has_bound(&self) -> bool {
        self.norms.is_ready(0)
    }

    /// Whether enough norms would be known with those of the held updates.
    pub(super) fn would_have_bound(&self) -> bool {
        self.norms.is_ready(self.held.iter().filter(|held| held.update.norm > 0.0).count())
    }

    /// Number of held updates whose norm is implausible among the others.
    pub(super) fn implausible(&self) -> usize {
        let norms = self.norms_with_held();
        self.held.iter().filter(|held| norms.implausible(held.update.norm, self.harmless).is_some()).count()
    }

    /// Adds an update, scaled down to the bound, and remembers its norm.
    pub(super) fn add(&mut self, update: &Weighted<'_>, reference: Option<&[f32]>, sums: &mut Sums) {
        self.arrived += 1;
        let bound = self.norms.bound();
        self.add_within(bound, update, reference, sums);
        self.norms.accept(update.norm.min(bound));
    }

    /// Holds an update until it can be judged. Copies only a borrowed one.
    pub(super) fn hold(&mut self, Weighted { update, weight, norm }: Weighted<'_>) {
        let update = Weighted { update: update.into_owned(), weight, norm };
        self.held.push(Held { position: self.arrived, update });
        self.arrived += 1;
    }

    /// Judges and adds the held updates: there are enough now, or no more will come.
    pub(super) fn release(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        let (judge, harmless) = (self.norms_with_held(), self.harmless);
        self.clipped += self.leave_out(sums, |update| judge.implausible(update.norm, harmless).is_some());
        let held = std::mem::take(&mut self.held);
        // Only accepted updates define the usual norm, and only as far as they count.
        let most = if self.has_bound() { self.norms.bound() } else { f64::INFINITY };
        self.norms = self.norms.with(held.iter().map(|held| held.update.norm.min(most)));
        let bound = self.norms.bound();
        for Held { update, .. } in held {
            self.add_within(bound, &update, reference, sums);
        }
    }

    /// Leaves out held updates, in the order of their arrival. Returns how many.
    pub(super) fn leave_out(&mut self, sums: &mut Sums, mut is_left_out: impl FnMut(&Weighted<'_>) -> bool) -> u32 {
        let before = self.left_out.len();
        self.held.retain(|Held { position, update }| {
            let is_left_out = is_left_out(update);
            if is_left_out {
                self.left_out.push(*position);
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

    /// The known norms, including those of held updates.
    fn norms_with_held(&self) -> NormGate {
        self.norms.with(self.held.iter().map(|held| held.update.norm))
    }
}
