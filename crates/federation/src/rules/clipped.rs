//! The weighted mean with a bound on norms.

use unmask_defence::CheckedUpdate;

use super::{Combine, Weighted, bounded::Bounded};
use crate::{Refusal, norm_gate::NormGate, sums::Sums};

/// Adds updates on arrival. Those of a round without a bound wait until it ends, because a few quick clients must not set
/// the bound for all.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Clipped(Bounded);

impl Combine for Clipped {
    fn begin(&mut self, harmless: f64) {
        self.0.begin(harmless);
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    fn check_norm(&self, update: &CheckedUpdate<'_>, reference: Option<&[f32]>) -> Result<f64, Refusal> {
        self.0.check_norm(update, reference)
    }

    fn add<'a>(&mut self, update: Weighted<'a>, reference: Option<&[f32]>, sums: &mut Sums) -> Option<Weighted<'a>> {
        if let Some(bound) = self.0.known() {
            self.0.add(bound, &update, reference, sums);
            return Some(update);
        }
        self.0.hold(update);
        if self.0.is_full() {
            self.0.release(reference, sums);
        }
        None
    }

    fn doubtful(&self) -> usize {
        self.0.implausible()
    }

    fn judge(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        self.0.close(reference, sums);
    }

    fn left_out(&self) -> &[usize] {
        self.0.left_out()
    }

    fn finish(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        self.judge(reference, sums);
    }

    fn large(&self) -> &[usize] {
        self.0.large()
    }

    fn clipped(&self) -> u32 {
        self.0.clipped()
    }

    fn norms(&self) -> Option<&NormGate> {
        Some(self.0.norms())
    }

    fn resume(&mut self, norms: NormGate) {
        self.0.resume(norms);
    }

    fn forget_norms(&mut self) {
        self.0.forget_norms();
    }
}
