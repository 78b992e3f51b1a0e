//! Running sums of a round's updates.

use std::sync::Arc;

use unmask_core::{Defence, MaskSeed, ParamLayout, UpdateForm};
use unmask_defence::{Mask, ProtectedUpdate};

use crate::{
    Refusal,
    counts::{LANES, Tally},
};

/// Sums of the updates of one round, added as they arrive, so that memory does not grow with the cohort.
///
/// Of the masks only the seeds are kept: how many updates stand behind each parameter is drawn again from them when the
/// round closes.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    layout: Arc<ParamLayout>,
    defence: Defence,
    /// `[P]`: sum_n k_n theta_n over the updates that have the value, k_n being the weight of update n.
    sums: Vec<f32>,
    masks: Vec<(MaskSeed, u32)>,
    updates: u32,
    weight: u32,
}

/// Up to 64 parameters in a row, as they stand when the round closes.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// Index of the first one.
    pub(crate) start: usize,
    /// Weighted sums.
    pub(crate) sums: &'a [f32],
    /// Sums of the weights of the updates that have the value: sum_n k_n B_n.
    pub(crate) weights: &'a [f32],
    /// Bit `i` says whether any update has the value of parameter `i`.
    pub(crate) sent: u64,
}

impl Aggregate {
    /// Nothing received yet, for a model of this `layout` whose updates come under `defence`.
    pub fn new(layout: Arc<ParamLayout>, defence: Defence) -> Self {
        let sums = vec![0.0; layout.len()];
        Self { layout, defence, sums, masks: Vec::new(), updates: 0, weight: 0 }
    }

    /// Forgets what was added and begins again, in the same memory.
    pub fn restart(&mut self, defence: Defence) {
        self.defence = defence;
        self.sums.fill(0.0);
        self.masks.clear();
        (self.updates, self.weight) = (0, 0);
    }

    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    pub fn updates(&self) -> u32 {
        self.updates
    }

    /// Sum of the weights of the updates added.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Adds an update with an integer weight: 1 under FedSGD (Eqs. 1 and 2), its number of samples under FedAvg (Eqs. 3
    /// and 4). One that does not fit leaves the sums as they were.
    ///
    /// # Errors
    /// If it was made under another defence, does not fit the model, has a value that is not finite, or weighs nothing or
    /// more than can be counted.
    pub fn add(&mut self, update: &ProtectedUpdate, weight: u32) -> Result<(), Refusal> {
        self.check_kind(update)?;
        let total = self.weight.checked_add(weight).filter(|_| weight > 0).ok_or(Refusal::Samples(weight))?;
        update.checked(&self.layout)?.accumulate(weight as f32, &mut self.sums);
        if let UpdateForm::Masked { seed, .. } = &update.form {
            match self.masks.iter_mut().find(|(known, _)| known == seed) {
                Some((_, shared)) => *shared += weight,
                None => self.masks.push((*seed, weight)),
            }
        }
        self.updates += 1;
        self.weight = total;
        Ok(())
    }

    /// Whether the update looks as the defence makes them.
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

    /// `[P]` weighted means `sum_n k_n B_n theta_n / sum_n k_n B_n`, `None` where no update has the value. Masks are drawn
    /// again for it.
    pub fn mean(&self) -> Vec<Option<f32>> {
        let mut means = Vec::with_capacity(self.sums.len());
        self.for_each_block(|block| {
            let means_of = block.sums.iter().zip(block.weights);
            means.extend(means_of.map(|(sum, &weight)| (weight > 0.0).then(|| sum / weight)));
        });
        means
    }

    /// All parameters in order, at most 64 at a time.
    pub(crate) fn for_each_block(&self, mut f: impl FnMut(Block<'_>)) {
        match self.defence.rates() {
            Some(rates) if self.updates > 0 => {
                let mask = |&(seed, weight): &(MaskSeed, u32)| (Mask::new(seed, rates, &self.layout), weight);
                let mut tally = Tally::new(self.masks.iter().map(mask).collect());
                let mut weights = [0.0; LANES];
                let mut start = 0;
                while let Some((planes, len)) = tally.next() {
                    planes.write(&mut weights);
                    let sums = &self.sums[start..start + len];
                    f(Block { start, sums, weights: &weights[..len], sent: planes.any() });
                    start += len;
                }
            }
            _ => self.for_each_unmasked_block(f),
        }
    }

    /// Without masks every update has every value. Values that the defence fixes count as not sent, so that neither a
    /// rounded mean nor an optimiser's momentum moves them.
    fn for_each_unmasked_block(&self, mut f: impl FnMut(Block<'_>)) {
        for param in self.layout.iter() {
            let weights = [if self.defence.fixes(param.group) { 0.0 } else { self.weight as f32 }; LANES];
            for start in param.range.clone().step_by(LANES) {
                let len = LANES.min(param.range.end - start);
                let sent = if weights[0] > 0.0 { u64::MAX >> (LANES - len) } else { 0 };
                f(Block { start, sums: &self.sums[start..start + len], weights: &weights[..len], sent });
            }
        }
    }
}
