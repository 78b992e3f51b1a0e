//! The clipped mean without updates that point against the others.

use unmask_defence::CheckedUpdate;

use super::{
    Combine, Weighted,
    bounded::Bounded,
    directions::{most_opposed, opposed},
};
use crate::{Refusal, norm_gate::NormGate, sums::Sums};

/// Holds all updates until the round closes, because a direction is judged by all others.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Aligned {
    bounded: Bounded,
    opposed: u32,
}

impl Aligned {
    fn leave_out_opposed(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        let opposed = {
            let changes: Vec<_> = self.bounded.held().map(|held| held.change(reference)).collect();
            let changes = self.bounded.held().zip(&changes).map(|(held, change)| held.with_values(change));
            opposed(&changes.collect::<Vec<_>>(), sums.layout().len())
        };
        let mut opposed = opposed.into_iter();
        self.opposed += self.bounded.leave_out(sums, |_| opposed.next().unwrap_or_default());
    }
}

impl Combine for Aligned {
    fn begin(&mut self, harmless: f64) {
        self.bounded.begin(harmless);
    }

    fn restart(&mut self) {
        self.bounded.restart();
        self.opposed = 0;
    }

    fn check_norm(&self, update: &CheckedUpdate<'_>, reference: Option<&[f32]>) -> Result<f64, Refusal> {
        self.bounded.check_norm(update, reference)
    }

    fn add<'a>(&mut self, update: Weighted<'a>, _reference: Option<&[f32]>, _sums: &mut Sums) -> Option<Weighted<'a>> {
        self.bounded.hold(update);
        None
    }

    /// Until directions are compared, only those sure to stay count, a little more than half.
    fn doubtful(&self) -> usize {
        let implausible = self.bounded.implausible();
        implausible + most_opposed(self.bounded.held().count().saturating_sub(implausible))
    }

    fn judge(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        self.leave_out_opposed(reference, sums);
        self.bounded.close(reference, sums);
    }

    fn left_out(&self) -> &[usize] {
        self.bounded.left_out()
    }

    fn finish(&mut self, reference: Option<&[f32]>, sums: &mut Sums) {
        self.judge(reference, sums);
    }

    fn large(&self) -> &[usize] {
        self.bounded.large()
    }

    fn clipped(&self) -> u32 {
        self.bounded.clipped()
    }

    fn opposed(&self) -> u32 {
        self.opposed
    }

    fn norms(&self) -> Option<&NormGate> {
        Some(self.bounded.norms())
    }

    fn resume(&mut self, norms: NormGate) {
        self.bounded.resume(norms);
    }

    fn forget_norms(&mut self) {
        self.bounded.forget_norms();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_earlier_rounds_are_its_own() {
        let known = NormGate::default().with([1.0, 2.0].into_iter());
        let mut rule = Aligned::default();
        rule.resume(known.clone());
        assert_eq!(rule.norms(), Some(&known));
    }
}
