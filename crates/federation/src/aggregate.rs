//! One round's updates, combined by the room's aggregation.

use std::sync::Arc;

use unmask_core::{Aggregation, Defence, ParamLayout, UpdateForm};
use unmask_defence::{CheckedUpdate, ProtectedUpdate};

use crate::{
    Refusal,
    norm_gate::NormGate,
    rules::{AggregationRule, Weighted},
    sums::{Block, Sums},
};

/// Sums of one round's updates, added on arrival, so memory does not grow with the cohort. Only
/// [`Aligned`](Aggregation::Aligned), [`TrimmedMean`](Aggregation::TrimmedMean) and [`Median`](Aggregation::Median)
/// hold every update.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    sums: Sums,
    rule: AggregationRule,
}

impl Aggregate {
    /// Empty sums for a model with this `layout` and updates under `defence`.
    pub fn new(layout: Arc<ParamLayout>, defence: Defence, aggregation: Aggregation) -> Self {
        Self { sums: Sums::new(layout, defence), rule: AggregationRule::new(aggregation) }
    }

    /// The same sums, in which a parameter moves only if at least `min_kept` of a round's updates have its value. With
    /// random masks, few clients have a parameter in common, and one that a client alone has, this client alone moves.
    /// 0 means 1, as in the papers: whatever anybody sent moves.
    #[must_use]
    pub fn with_min_kept(mut self, min_kept: u32) -> Self {
        self.sums.set_min_kept(min_kept);
        self
    }

    pub(crate) fn min_kept(&self) -> u32 {
        self.sums.min_kept()
    }

    /// The same sums with norms from earlier rounds.
    pub(crate) fn resumed(mut self, norms: NormGate) -> Self {
        self.rule.get_mut().resume(norms);
        self
    }

    /// The norms known from earlier rounds, if the aggregation uses norms.
    pub(crate) fn norms(&self) -> Option<&NormGate> {
        self.rule.get().norms()
    }

    /// Starts a round in the same memory; norms of earlier rounds stay. In this round, no update with a norm up to
    /// `harmless` is refused: once a class has learnt its pictures, a newcomer's gradient can be any number of times as
    /// large as the others.
    pub(crate) fn begin(&mut self, harmless: f64) {
        self.rule.get_mut().begin(harmless);
        self.restart();
    }

    /// Forgets this round's norms, because it took no step. Otherwise a single client in a room that waits for more
    /// would define the usual norm.
    pub(crate) fn forget_norms(&mut self) {
        self.rule.get_mut().forget_norms();
    }

    /// Resets the sums in the same memory.
    pub fn restart(&mut self) {
        self.sums.restart();
        self.rule.get_mut().restart();
    }

    /// Resets everything for updates of another kind; known norms stay if they still hold.
    pub fn change(&mut self, defence: Defence, aggregation: Aggregation, keeps_norms: bool) {
        let norms = self.norms().filter(|_| keeps_norms).cloned();
        self.sums.change(defence);
        self.rule = AggregationRule::new(aggregation);
        if let Some(norms) = norms {
            self.rule.get_mut().resume(norms);
        }
    }

    pub fn layout(&self) -> &Arc<ParamLayout> {
        self.sums.layout()
    }

    /// Number of accepted updates, without those that may still be left out when the round closes.
    pub fn updates(&self) -> u32 {
        self.sums.updates().saturating_sub(u32::try_from(self.rule.get().doubtful()).unwrap_or(u32::MAX))
    }

    pub fn weight(&self) -> u32 {
        self.sums.weight()
    }

    /// Number of updates more than [`CLIP_FACTOR`](crate::CLIP_FACTOR) times as large as usual, which were scaled down
    /// or left out.
    pub fn clipped(&self) -> u32 {
        self.rule.get().clipped()
    }

    /// Updates much larger than the round's others, as positions in the order of arrival.
    pub(crate) fn large(&self) -> &[usize] {
        self.rule.get().large()
    }

    /// Number of updates left out because they pointed against the others.
    pub fn opposed(&self) -> u32 {
        self.rule.get().opposed()
    }

    /// Checks and adds an update with an integer weight: 1 under FedSGD (Eqs. 1 and 2), its number of samples under
    /// FedAvg (Eqs. 3 and 4). `reference` (`[P]`) is what the values are a change of: the global weights under FedAvg,
    /// nothing under FedSGD. A refused update leaves the sums unchanged.
    ///
    /// # Errors
    /// The update was made under another defence, does not fit the model, has a value that is not finite, is far too
    /// large for a clipped mean, or has a weight that is zero or overflows the total.
    pub fn add(&mut self, update: &ProtectedUpdate, weight: u32, reference: Option<&[f32]>) -> Result<(), Refusal> {
        self.check_form(update.form)?;
        self.check_weight(weight)?;
        let update = update.checked(self.layout())?;
        let norm = self.check_norm(&update, reference)?;
        self.take(Weighted { update, weight, norm }, reference);
        Ok(())
    }

    /// Adds the mean `[P]` of several updates that count alike, as a secure sum gives it: nobody sees the updates, so only
    /// the mean itself is checked, and no other aggregation than [`Aggregation::Mean`] has a meaning. Under a mask, `kept`
    /// `[P]` says of how many updates each value is the mean.
    ///
    /// # Errors
    /// The defence sends no plain vectors, the mean does not fit the model or is not finite, or there are no updates.
    pub fn add_mean(&mut self, mean: Vec<f32>, kept: Option<Vec<u8>>, updates: u32) -> Result<(), Refusal> {
        match &kept {
            Some(kept) => self.sums.check_counted(kept)?,
            None => self.check_form(UpdateForm::Dense)?,
        }
        self.check_weight(updates)?;
        let mean = ProtectedUpdate::dense(mean);
        mean.checked(self.layout())?;
        self.sums.add_mean(&mean.values, kept, updates);
        Ok(())
    }

    /// Checks that the update's form fits the defence.
    pub(crate) fn check_form(&self, form: UpdateForm) -> Result<(), Refusal> {
        self.sums.check_form(form)
    }

    /// Checks that the total weight can still grow by `weight`.
    pub(crate) fn check_weight(&self, weight: u32) -> Result<(), Refusal> {
        self.sums.check_weight(weight)
    }

    /// Returns the update's norm, or 0 if norms do not matter.
    ///
    /// # Errors
    /// The norm is implausible.
    pub(crate) fn check_norm(&self, update: &CheckedUpdate<'_>, reference: Option<&[f32]>) -> Result<f64, Refusal> {
        self.rule.get().check_norm(update, reference)
    }

    /// Adds an update that passed all checks. Returns it if the rule does not hold it, so that its memory can be used
    /// again.
    pub(crate) fn take<'a>(&mut self, update: Weighted<'a>, reference: Option<&[f32]>) -> Option<Weighted<'a>> {
        self.sums.count(update.weight);
        self.rule.get_mut().add(update, reference, &mut self.sums)
    }

    /// Judges the waiting updates, since no more will arrive. Returns the updates left out as positions
    /// in the order of arrival; the list itself is unordered. Their losses and statistics must not count either.
    pub(crate) fn judge(&mut self, reference: Option<&[f32]>) -> &[usize] {
        self.rule.get_mut().judge(reference, &mut self.sums);
        self.rule.get().left_out()
    }

    /// Adds the updates that waited for the end of the round.
    pub(crate) fn finish(&mut self, reference: Option<&[f32]>) {
        self.rule.get_mut().finish(reference, &mut self.sums);
    }

    /// Whether a step would overflow.
    pub(crate) fn overflows(&self) -> bool {
        self.sums.overflow()
    }

    /// `[P]` weighted means `sum_n k_n B_n theta_n / sum_n k_n B_n`, `None` where too few updates have the
    /// value. Draws the masks again.
    pub fn mean(&self) -> Vec<Option<f32>> {
        let mut means = Vec::with_capacity(self.layout().len());
        self.for_each_block(|block| {
            let means_of = block.sums.iter().zip(block.weights);
            means.extend(means_of.map(|(sum, &weight)| (weight > 0.0).then(|| sum / weight)));
        });
        means
    }

    /// Visits all parameters in order, at most 64 at a time.
    pub(crate) fn for_each_block(&self, f: impl FnMut(Block<'_>)) {
        self.sums.for_each_block(self.rule.get().is_single(), f);
    }
}
