//! The trimmed mean and the median of each parameter.

use super::{Combine, Weighted};
use crate::sums::Sums;

/// Sorts each parameter's values, so it holds every update in full until the round closes. Every update counts once,
/// regardless of its weight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sorted {
    /// Share of the values that is dropped at each end.
    share: f32,
    /// All values of each update, `[P]`, with NaN for dropped ones.
    whole: Vec<Vec<f32>>,
}

impl Sorted {
    pub(super) fn trimmed_mean(share: f32) -> Self {
        Self { share, whole: Vec::new() }
    }

    pub(super) fn median() -> Self {
        Self::trimmed_mean(0.5)
    }
}

impl Combine for Sorted {
    fn restart(&mut self) {
        self.whole.clear();
    }

    fn add<'a>(&mut self, update: Weighted<'a>, _reference: Option<&[f32]>, sums: &mut Sums) -> Option<Weighted<'a>> {
        self.whole.push(update.update.expand_over(vec![f32::NAN; sums.layout().len()]));
        sums.remember_mask(update.update.form(), 1);
        Some(update)
    }

    fn finish(&mut self, _reference: Option<&[f32]>, sums: &mut Sums) {
        let mut values = Vec::with_capacity(self.whole.len());
        for (i, sum) in sums.values_mut().iter_mut().enumerate() {
            values.clear();
            values.extend(self.whole.iter().filter_map(|update| update.get(i)).filter(|value| !value.is_nan()));
            *sum = trimmed_mean(&mut values, self.share);
        }
        self.whole.clear();
    }

    fn is_single(&self) -> bool {
        true
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
