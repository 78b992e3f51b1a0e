//! Running sums of a round's updates, and the weights behind them.

use std::sync::Arc;

use unmask_core::{Defence, MaskSeed, ParamLayout, UpdateForm};
use unmask_defence::{CheckedUpdate, Mask};

use crate::{
    Refusal,
    counts::{Behind, LANES, Tally},
};

/// The sums behind one step. Of each mask only the seed is kept: closing the round draws the masks again to count the
/// updates behind each parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sums {
    layout: Arc<ParamLayout>,
    defence: Defence,
    /// `[P]`: sum_n k_n theta_n over the updates that have the value, where k_n is the weight of update n.
    values: Vec<f32>,
    masks: Vec<(MaskSeed, Behind)>,
    /// `[P]`: the updates that have each value, if a secure sum counted them instead of revealing the masks.
    kept: Option<Vec<u8>>,
    updates: u32,
    weight: u32,
    min_kept: u32,
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
    /// Bit `i` says whether enough updates have the value of parameter `i`; its weight is 0 otherwise.
    pub(crate) sent: u64,
}

impl Sums {
    pub(crate) fn new(layout: Arc<ParamLayout>, defence: Defence) -> Self {
        let values = vec![0.0; layout.len()];
        Self { layout, defence, values, masks: Vec::new(), kept: None, updates: 0, weight: 0, min_kept: 1 }
    }

    /// Resets the sums in the same memory.
    pub(crate) fn restart(&mut self) {
        self.values.fill(0.0);
        self.masks.clear();
        (self.kept, self.updates, self.weight) = (None, 0, 0);
    }

    /// Resets the sums for updates under another defence.
    pub(crate) fn change(&mut self, defence: Defence) {
        self.defence = defence;
        self.restart();
    }

    /// From how many updates that have its value a parameter counts as sent; at least 1.
    pub(crate) fn min_kept(&self) -> u32 {
        self.min_kept
    }

    pub(crate) fn set_min_kept(&mut self, min_kept: u32) {
        self.min_kept = min_kept.max(1);
    }

    pub(crate) fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Number of accepted updates that were not left out.
    pub(crate) fn updates(&self) -> u32 {
        self.updates
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight
    }

    /// Checks that the update's form fits the defence.
    pub(crate) fn check_form(&self, form: UpdateForm) -> Result<(), Refusal> {
        let defence = self.defence;
        let sent = match form {
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

    /// Checks that the defence draws masks, which a secure sum counted for each of the model's values.
    pub(crate) fn check_counted(&self, kept: &[u8]) -> Result<(), Refusal> {
        let is_counted = self.defence.rates().is_some() && kept.len() == self.values.len();
        let sent = || format!("counted in {} places", kept.len());
        if is_counted { Ok(()) } else { Err(Refusal::OtherDefence { sent: sent(), defence: self.defence }) }
    }

    /// Checks that the total weight can still grow by `weight`.
    pub(crate) fn check_weight(&self, weight: u32) -> Result<(), Refusal> {
        match self.weight.checked_add(weight) {
            Some(_) if weight > 0 => Ok(()),
            _ => Err(Refusal::Samples(weight)),
        }
    }

    /// Counts an accepted update, which a rule adds now or later.
    pub(crate) fn count(&mut self, weight: u32) {
        self.updates += 1;
        self.weight = self.weight.saturating_add(weight);
    }

    /// Takes an update back that was counted but not added; it is too late to refuse it.
    pub(crate) fn leave_out(&mut self, weight: u32) {
        self.updates -= 1;
        self.weight -= weight;
    }

    pub(crate) fn add(&mut self, update: &CheckedUpdate<'_>, weight: u32) {
        update.accumulate(weight as f32, &mut self.values);
        self.remember_mask(update.form(), weight);
    }

    /// Adds what the updates of a secure sum come to: their mean `[P]`, with the number of updates behind each value if
    /// they were masked.
    pub(crate) fn add_mean(&mut self, mean: &[f32], kept: Option<Vec<u8>>, updates: u32) {
        let sums = self.values.iter_mut().zip(mean);
        match &kept {
            Some(kept) => sums.zip(kept).for_each(|((sum, mean), kept)| *sum += f32::from(*kept) * mean),
            None => sums.for_each(|(sum, mean)| *sum += updates as f32 * mean),
        }
        self.kept = kept;
        self.updates += updates;
        self.weight = self.weight.saturating_add(updates);
    }

    pub(crate) fn remember_mask(&mut self, form: UpdateForm, weight: u32) {
        if let UpdateForm::Masked { seed, .. } = form {
            match self.masks.iter_mut().find(|(known, _)| *known == seed) {
                Some((_, shared)) => {
                    shared.weight += weight;
                    shared.updates += 1;
                }
                None => self.masks.push((seed, Behind { weight, updates: 1 })),
            }
        }
    }

    /// The sums themselves, `[P]`, for a rule that does not add values up.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Whether a step would overflow: some mean, or its square, may not be finite. Weights are integers, so no mean
    /// exceeds its sum, and the check needs no masks.
    pub(crate) fn overflow(&self) -> bool {
        const LARGEST: f32 = 1e18;
        // Without their sign bits, floats sort like integers, with infinity and NaN at the top. The compiler vectorises
        // this maximum.
        let magnitude = |sum: &f32| sum.to_bits() & !(1 << 31);
        self.values.iter().map(magnitude).fold(0, u32::max) > LARGEST.to_bits()
    }

    /// Visits all parameters in order, at most 64 at a time. With `is_single`, each sum is one value, no matter how many
    /// updates it comes from.
    pub(crate) fn for_each_block(&self, is_single: bool, mut f: impl FnMut(Block<'_>)) {
        match (self.defence.rates(), &self.kept) {
            (Some(_), Some(kept)) => self.for_each_counted_block(kept, is_single, f),
            (Some(rates), None) if self.updates > 0 => {
                let mask = |&(seed, behind): &(MaskSeed, Behind)| (Mask::new(seed, rates, &self.layout), behind);
                let mut tally = Tally::new(self.masks.iter().map(mask).collect(), self.min_kept);
                let mut weights = [0.0; LANES];
                let mut start = 0;
                while let Some((planes, sent, len)) = tally.next() {
                    planes.write(&mut weights);
                    if self.min_kept > 1 {
                        drop_unsent(&mut weights, sent);
                    }
                    if is_single {
                        count_once(&mut weights);
                    }
                    let sums = &self.values[start..start + len];
                    f(Block { start, sums, weights: &weights[..len], sent });
                    start += len;
                }
            }
            _ => self.for_each_unmasked_block(is_single, f),
        }
    }

    /// A secure sum has counted the updates behind each value.
    fn for_each_counted_block(&self, kept: &[u8], is_single: bool, mut f: impl FnMut(Block<'_>)) {
        for (block, (sums, kept)) in self.values.chunks(LANES).zip(kept.chunks(LANES)).enumerate() {
            let (mut weights, mut sent) = ([0.0; LANES], 0);
            for (lane, kept) in kept.iter().enumerate() {
                weights[lane] = f32::from(*kept);
                sent |= u64::from(u32::from(*kept) >= self.min_kept) << lane;
            }
            drop_unsent(&mut weights, sent);
            if is_single {
                count_once(&mut weights);
            }
            f(Block { start: block * LANES, sums, weights: &weights[..sums.len()], sent });
        }
    }

    /// Without masks every update has every value. Values fixed by the defence count as not sent, so neither rounding
    /// of the mean nor the optimiser's momentum can move them.
    fn for_each_unmasked_block(&self, is_single: bool, mut f: impl FnMut(Block<'_>)) {
        let is_enough = self.updates >= self.min_kept;
        for param in self.layout.iter() {
            let is_sent = is_enough && !self.defence.fixes(param.group);
            let mut weights = [if is_sent { self.weight as f32 } else { 0.0 }; LANES];
            if is_single {
                count_once(&mut weights);
            }
            for start in param.range.clone().step_by(LANES) {
                let len = LANES.min(param.range.end - start);
                let sent = if weights[0] > 0.0 { u64::MAX >> (LANES - len) } else { 0 };
                f(Block { start, sums: &self.values[start..start + len], weights: &weights[..len], sent });
            }
        }
    }
}

fn drop_unsent(weights: &mut [f32; LANES], sent: u64) {
    for (i, weight) in weights.iter_mut().enumerate() {
        *weight = if sent >> i & 1 == 1 { *weight } else { 0.0 };
    }
}

fn count_once(weights: &mut [f32; LANES]) {
    weights.iter_mut().for_each(|weight| *weight = weight.min(1.0));
}
