//! Running sums of a round's updates.

use std::sync::Arc;

use unmask_core::{Aggregation, Defence, MaskSeed, ParamLayout, UpdateForm};
use unmask_defence::{CheckedUpdate, Mask, ProtectedUpdate};

use crate::{
    Refusal,
    counts::{LANES, Tally},
    directions,
    norm_gate::NormGate,
};

/// Sums of one round's updates, added on arrival, so memory does not grow with the cohort. Only
/// [`Aligned`](Aggregation::Aligned), [`TrimmedMean`](Aggregation::TrimmedMean) and [`Median`](Aggregation::Median)
/// hold every update.
///
/// Of each mask only the seed is kept: closing the round draws the masks again to count the updates behind each
/// parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    layout: Arc<ParamLayout>,
    defence: Defence,
    aggregation: Aggregation,
    norms: NormGate,
    /// Norms known before this round.
    norms_before: NormGate,
    /// Norm up to which no update is implausible, however small the others are.
    harmless: f64,
    /// Updates that wait until enough norms are known, or until the round ends.
    held: Vec<Held>,
    /// Number of updates added in this round, including those left out later.
    added: usize,
    /// Updates left out in the end, as positions in the order of arrival.
    left_out: Vec<usize>,
    /// All values of each update, `[P]`, with NaN for dropped ones. Filled only if the aggregation sorts values.
    whole: Vec<Vec<f32>>,
    clipped: u32,
    opposed: u32,
    /// `[P]`: sum_n k_n theta_n over the updates that have the value, where k_n is the weight of update n.
    sums: Vec<f32>,
    masks: Vec<(MaskSeed, u32)>,
    updates: u32,
    weight: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Held {
    /// Position in the order of arrival.
    position: usize,
    update: ProtectedUpdate,
    weight: u32,
    norm: f64,
}

/// Up to 64 consecutive parameters at the end of a round.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// Index of the first parameter.
    pub(crate) start: usize,
    /// Weighted sums.
    pub(crate) sums: &'a [f32],
    /// Sum of weights of the updates that have the value: sum_n k_n B_n.
    pub(crate) weights: &'a [f32],
    /// Bit `i` says whether any update has the value of parameter `i`.
    pub(crate) sent: u64,
}

impl Aggregate {
    /// Empty sums for a model with this `layout` and updates under `defence`.
    pub fn new(layout: Arc<ParamLayout>, defence: Defence, aggregation: Aggregation) -> Self {
        let sums = vec![0.0; layout.len()];
        Self {
            layout,
            defence,
            aggregation,
            norms: NormGate::default(),
            norms_before: NormGate::default(),
            harmless: 0.0,
            held: Vec::new(),
            added: 0,
            left_out: Vec::new(),
            whole: Vec::new(),
            clipped: 0,
            opposed: 0,
            sums,
            masks: Vec::new(),
            updates: 0,
            weight: 0,
        }
    }

    /// The same sums with norms from earlier rounds.
    pub(crate) fn resumed(self, norms: NormGate) -> Self {
        Self { norms, ..self }
    }

    /// The norms known from earlier rounds.
    pub(crate) fn norms(&self) -> &NormGate {
        &self.norms
    }

    /// Starts a round in the same memory; norms of earlier rounds stay. In this round, no update with a norm up to
    /// `harmless` is refused: once a class has learnt its pictures, a newcomer's gradient can be any number of times as
    /// large as the others.
    pub(crate) fn begin(&mut self, harmless: f64) {
        self.harmless = harmless;
        self.norms_before.clone_from(&self.norms);
        self.restart();
    }

    /// Forgets this round's norms, because it took no step. Otherwise a single client in a room that waits for more
    /// would define the usual norm.
    pub(crate) fn forget_norms(&mut self) {
        self.norms.clone_from(&self.norms_before);
    }

    /// Resets the sums in the same memory.
    pub fn restart(&mut self) {
        self.sums.fill(0.0);
        self.masks.clear();
        self.held.clear();
        self.added = 0;
        self.left_out.clear();
        self.whole.clear();
        (self.updates, self.weight) = (0, 0);
        (self.clipped, self.opposed) = (0, 0);
    }

    /// Resets everything for updates of another kind, including known norms.
    pub fn change(&mut self, defence: Defence, aggregation: Aggregation) {
        (self.defence, self.aggregation) = (defence, aggregation);
        self.norms.clear();
        self.restart();
    }

    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Number of accepted updates. Updates that wait to be judged count only while their norm is plausible. An aligned
    /// mean compares directions when the round closes; until then it counts only those sure to stay, a little more than
    /// half.
    pub fn updates(&self) -> u32 {
        let norms = self.norms_with_held();
        let is_left_out = |held: &&Held| norms.implausible(held.norm, self.harmless).is_some();
        let mut left_out = self.held.iter().filter(is_left_out).count();
        if self.aggregation == Aggregation::Aligned {
            left_out += directions::most_opposed(self.held.len().saturating_sub(left_out));
        }
        self.updates.saturating_sub(u32::try_from(left_out).unwrap_or(u32::MAX))
    }

    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Number of updates more than [`CLIP_FACTOR`](crate::CLIP_FACTOR) times as large as usual, which were scaled down
    /// or left out.
    pub fn clipped(&self) -> u32 {
        self.clipped
    }

    /// Number of updates left out because they pointed against the others.
    pub fn opposed(&self) -> u32 {
        self.opposed
    }

    /// Adds an update with an integer weight: 1 under FedSGD (Eqs. 1 and 2), its number of samples under FedAvg (Eqs. 3
    /// and 4). `reference` (`[P]`) is what the values are a change of: the global weights under FedAvg, nothing under
    /// FedSGD. A refused update leaves the sums unchanged.
    ///
    /// # Errors
    /// The update was made under another defence, does not fit the model, has a value that is not finite, is far too
    /// large for a clipped mean, or has a weight that is zero or overflows the total.
    pub fn add(&mut self, update: &ProtectedUpdate, weight: u32, reference: Option<&[f32]>) -> Result<(), Refusal> {
        let (checked, total, norm) = self.check(update, weight, reference)?;
        match self.aggregation {
            Aggregation::Mean => self.sum(update.form, &checked, weight),
            Aggregation::Clipped | Aggregation::Aligned => {
                if self.aggregation == Aggregation::Clipped && self.norms.is_ready(0) {
                    let bound = self.norms.bound();
                    self.sum_clipped(update.form, &checked, weight, norm, reference);
                    self.norms.accept(norm.min(bound));
                } else {
                    self.held.push(Held { position: self.added, update: update.clone(), weight, norm });
                }
            }
            Aggregation::TrimmedMean { .. } | Aggregation::Median => {
                self.whole.push(update.expand_over(&self.layout, vec![f32::NAN; self.layout.len()])?);
                self.remember_mask(update.form, 1);
            }
        }
        self.added += 1;
        self.updates += 1;
        self.weight = total;
        let telling = self.held.iter().filter(|held| held.norm > 0.0).count();
        if self.aggregation == Aggregation::Clipped && self.norms.is_ready(telling) {
            self.release(reference);
        }
        Ok(())
    }

    /// The checks of [`add`](Self::add), which change nothing. Returns the checked update, the new total weight, and
    /// the norm, or 0 if norms do not matter.
    pub(crate) fn check<'a>(
        &self,
        update: &'a ProtectedUpdate,
        weight: u32,
        reference: Option<&[f32]>,
    ) -> Result<(CheckedUpdate<'a>, u32, f64), Refusal> {
        self.check_kind(update)?;
        let total = self.weight.checked_add(weight).filter(|_| weight > 0).ok_or(Refusal::Samples(weight))?;
        let checked = update.checked(&self.layout)?;
        if !self.aggregation.bounds_norms() {
            return Ok((checked, total, 0.0));
        }
        let norm = checked.squared_norm(reference).sqrt();
        match self.norms.implausible(norm, self.harmless).filter(|_| self.norms.is_ready(0)) {
            Some(times) => Err(Refusal::Implausible { times }),
            None => Ok((checked, total, norm)),
        }
    }

    /// Judges the waiting updates, since no more will arrive. Returns the positions of updates left out, in order of
    /// arrival; their losses and statistics must not count either.
    pub(crate) fn judge(&mut self, reference: Option<&[f32]>) -> &[usize] {
        if self.aggregation == Aggregation::Aligned {
            self.leave_out_opposed(reference);
        }
        self.release(reference);
        &self.left_out
    }

    /// Adds the updates that waited for the end of the round.
    pub(crate) fn finish(&mut self, reference: Option<&[f32]>) {
        match self.aggregation {
            Aggregation::Mean => {}
            Aggregation::Clipped | Aggregation::Aligned => {
                self.judge(reference);
            }
            Aggregation::TrimmedMean { share } => self.sort(|values| trimmed_mean(values, share)),
            Aggregation::Median => self.sort(|values| trimmed_mean(values, 0.5)),
        }
    }

    /// Judges and adds the waiting updates: there are enough now, or no more will come.
    fn release(&mut self, reference: Option<&[f32]>) {
        let judge = self.norms_with_held();
        let is_left_out = |held: &Held| judge.implausible(held.norm, self.harmless).is_some();
        let (left_out, taken): (Vec<Held>, Vec<Held>) =
            std::mem::take(&mut self.held).into_iter().partition(is_left_out);
        self.clipped += u32::try_from(left_out.len()).unwrap_or(u32::MAX);
        self.forget(left_out);
        // Only accepted updates define the usual norm, and only as far as they count.
        let most = if self.norms.is_ready(0) { self.norms.bound() } else { f64::INFINITY };
        self.norms = self.norms.with(taken.iter().map(|held| held.norm.min(most)));
        for Held { update, weight, norm, .. } in taken {
            if let Ok(checked) = update.checked(&self.layout) {
                self.sum_clipped(update.form, &checked, weight, norm, reference);
            }
        }
    }

    /// Leaves out the waiting updates that point against the others.
    fn leave_out_opposed(&mut self, reference: Option<&[f32]>) {
        let updates: Vec<_> = self.held.iter().filter_map(|held| held.update.checked(&self.layout).ok()).collect();
        let changes: Vec<_> = updates.iter().map(|update| update.change(reference)).collect();
        let changes: Vec<_> = updates.iter().zip(&changes).map(|(update, change)| update.with_values(change)).collect();
        let mut opposed = directions::opposed(&changes, self.layout.len()).into_iter();
        let (left_out, taken): (Vec<Held>, Vec<Held>) =
            std::mem::take(&mut self.held).into_iter().partition(|_| opposed.next().unwrap_or_default());
        self.held = taken;
        self.opposed += u32::try_from(left_out.len()).unwrap_or(u32::MAX);
        self.forget(left_out);
    }

    /// Drops updates that were already accepted; it is too late to refuse them.
    fn forget(&mut self, left_out: Vec<Held>) {
        for Held { position, weight, .. } in left_out {
            self.left_out.push(position);
            self.updates -= 1;
            self.weight -= weight;
        }
    }

    /// The known norms, including those of waiting updates.
    fn norms_with_held(&self) -> NormGate {
        self.norms.with(self.held.iter().map(|held| held.norm))
    }

    fn sum_clipped(
        &mut self,
        form: UpdateForm,
        checked: &CheckedUpdate<'_>,
        weight: u32,
        norm: f64,
        reference: Option<&[f32]>,
    ) {
        let bound = self.norms.bound();
        if norm <= bound {
            return self.sum(form, checked, weight);
        }
        self.clipped += 1;
        let values = checked.scaled(reference, bound / norm);
        self.sum(form, &checked.with_values(&values), weight);
    }

    fn sum(&mut self, form: UpdateForm, checked: &CheckedUpdate<'_>, weight: u32) {
        checked.accumulate(weight as f32, &mut self.sums);
        self.remember_mask(form, weight);
    }

    fn remember_mask(&mut self, form: UpdateForm, weight: u32) {
        if let UpdateForm::Masked { seed, .. } = form {
            match self.masks.iter_mut().find(|(known, _)| *known == seed) {
                Some((_, shared)) => *shared += weight,
                None => self.masks.push((seed, weight)),
            }
        }
    }

    /// Combines the values of each parameter into one.
    fn sort(&mut self, one_of: impl Fn(&mut [f32]) -> f32) {
        let mut values = Vec::with_capacity(self.whole.len());
        for (i, sum) in self.sums.iter_mut().enumerate() {
            values.clear();
            values.extend(self.whole.iter().filter_map(|update| update.get(i)).filter(|value| !value.is_nan()));
            *sum = one_of(&mut values);
        }
        self.whole.clear();
    }

    /// Whether a step would overflow: some mean, or its square, may not be finite. Weights are integers, so no mean
    /// exceeds its sum, and the check needs no masks.
    pub(crate) fn overflows(&self) -> bool {
        const LARGEST: f32 = 1e18;
        // Without their sign bits, floats sort like integers, with infinity and NaN at the top. The compiler vectorises
        // this maximum.
        let magnitude = |sum: &f32| sum.to_bits() & !(1 << 31);
        self.sums.iter().map(magnitude).fold(0, u32::max) > LARGEST.to_bits()
    }

    /// Checks that the update's form fits the defence.
    pub(crate) fn check_kind(&self, update: &ProtectedUpdate) -> Result<(), Refusal> {
        let defence = self.defence;
        let sent = match update.form {
            UpdateForm::Masked { rates, .. } if defence.rates() == Some(&rates) => return Ok(()),
            UpdateForm::Masked { rates, .. } => format!("masked at rate {rates}"),
            UpdateForm::Encrypted { .. } if defence.is_encrypted() => return Ok(()),
            UpdateForm::Encrypted { .. } => "encrypted".to_owned(),
            UpdateForm::Dense if defence.is_encrypted() => "not encrypted".to_owned(),
            UpdateForm::Dense if defence.rates().is_some() => "not masked".to_owned(),
            UpdateForm::Dense => return Ok(()),
        };
        Err(Refusal::OtherDefence { sent, defence })
    }

    /// `[P]` weighted means `sum_n k_n B_n theta_n / sum_n k_n B_n`, `None` where no update has the value. Draws the
    /// masks again.
    pub fn mean(&self) -> Vec<Option<f32>> {
        let mut means = Vec::with_capacity(self.sums.len());
        self.for_each_block(|block| {
            let means_of = block.sums.iter().zip(block.weights);
            means.extend(means_of.map(|(sum, &weight)| (weight > 0.0).then(|| sum / weight)));
        });
        means
    }

    /// Visits all parameters in order, at most 64 at a time.
    pub(crate) fn for_each_block(&self, mut f: impl FnMut(Block<'_>)) {
        match self.defence.rates() {
            Some(rates) if self.updates > 0 => {
                let mask = |&(seed, weight): &(MaskSeed, u32)| (Mask::new(seed, rates, &self.layout), weight);
                let mut tally = Tally::new(self.masks.iter().map(mask).collect());
                let mut weights = [0.0; LANES];
                let mut start = 0;
                while let Some((planes, len)) = tally.next() {
                    planes.write(&mut weights);
                    self.count_once(&mut weights);
                    let sums = &self.sums[start..start + len];
                    f(Block { start, sums, weights: &weights[..len], sent: planes.any() });
                    start += len;
                }
            }
            _ => self.for_each_unmasked_block(f),
        }
    }

    /// A sorted aggregation yields one value per parameter, no matter how many it was chosen from.
    fn count_once(&self, weights: &mut [f32; LANES]) {
        if self.aggregation.sorts_values() {
            weights.iter_mut().for_each(|weight| *weight = weight.min(1.0));
        }
    }

    /// Without masks every update has every value. Values fixed by the defence count as not sent, so neither rounding
    /// of the mean nor the optimiser's momentum can move them.
    fn for_each_unmasked_block(&self, mut f: impl FnMut(Block<'_>)) {
        for param in self.layout.iter() {
            let mut weights = [if self.defence.fixes(param.group) { 0.0 } else { self.weight as f32 }; LANES];
            self.count_once(&mut weights);
            for start in param.range.clone().step_by(LANES) {
                let len = LANES.min(param.range.end - start);
                let sent = if weights[0] > 0.0 { u64::MAX >> (LANES - len) } else { 0 };
                f(Block { start, sums: &self.sums[start..start + len], weights: &weights[..len], sent });
            }
        }
    }
}

/// The mean of `values` after dropping a `share` at each end; at least one value stays, and a share of 0.5 gives the
/// median. 0 if there are no values.
fn trimmed_mean(values: &mut [f32], share: f32) -> f32 {
    values.sort_unstable_by(f32::total_cmp);
    let most = values.len().saturating_sub(1) / 2;
    let dropped = ((share * values.len() as f32) as usize).min(most);
    let left = &values[dropped..values.len() - dropped];
    if left.is_empty() {
        0.0
    } else {
        (left.iter().map(|&value| f64::from(value)).sum::<f64>() / left.len() as f64) as f32
    }
}
