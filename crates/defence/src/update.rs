//! Protected updates, as they leave the device.

use std::borrow::Cow;

use unmask_core::{ParamLayout, UpdateForm};

use crate::{Mask, drawn::DrawnMask, finite::all_finite};

/// An update after its defence, as the client sends it and the relay adds it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProtectedUpdate {
    pub form: UpdateForm,
    /// The transmitted values, in layout order.
    pub values: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    #[error("update has {values} values, its {} {expected}", if *masked { "mask keeps" } else { "layout has" })]
    Length { values: usize, expected: usize, masked: bool },
    #[error("update has a value that is {value} at position {position}; the client's training has diverged")]
    NotFinite { position: usize, value: String },
}

impl ProtectedUpdate {
    /// Creates an update of all P values.
    pub fn dense(values: Vec<f32>) -> Self {
        Self { form: UpdateForm::Dense, values }
    }

    pub fn mask(&self, layout: &ParamLayout) -> Option<Mask> {
        match &self.form {
            UpdateForm::Masked { seed, rates } => Some(Mask::new(*seed, rates, layout)),
            UpdateForm::Dense | UpdateForm::Encrypted { .. } => None,
        }
    }

    /// Checks the update against a model of `layout`.
    ///
    /// # Errors
    /// If the number of values is wrong or one of them is not finite.
    pub fn check(&self, layout: &ParamLayout) -> Result<(), UpdateError> {
        self.drawn(layout).map(drop)
    }

    /// Checks the update like [`check`](Self::check) and keeps the mask drawn for the check.
    pub fn checked(&self, layout: &ParamLayout) -> Result<CheckedUpdate<'_>, UpdateError> {
        let mask = self.drawn(layout)?.map(Cow::Owned);
        Ok(CheckedUpdate { form: self.form, values: Cow::Borrowed(&self.values), mask })
    }

    /// Like [`checked`](Self::checked), but takes the values over without a copy. An error comes with the values, so
    /// that their memory can be used again.
    pub fn into_checked(self, layout: &ParamLayout) -> Result<CheckedUpdate<'static>, (UpdateError, Vec<f32>)> {
        match self.drawn(layout) {
            Ok(mask) => {
                Ok(CheckedUpdate { form: self.form, values: Cow::Owned(self.values), mask: mask.map(Cow::Owned) })
            }
            Err(error) => Err((error, self.values)),
        }
    }

    /// Draws the mask, if there is one, and checks the values against it.
    fn drawn(&self, layout: &ParamLayout) -> Result<Option<DrawnMask>, UpdateError> {
        let values = self.values.as_slice();
        let mask = self.mask(layout).map(DrawnMask::new);
        let expected = mask.as_ref().map_or(layout.len(), DrawnMask::kept);
        if values.len() != expected {
            return Err(UpdateError::Length { values: values.len(), expected, masked: mask.is_some() });
        }
        if !all_finite(values)
            && let Some(position) = values.iter().position(|value| !value.is_finite())
        {
            return Err(UpdateError::NotFinite { position, value: values[position].to_string() });
        }
        Ok(mask)
    }

    /// Returns all P values in layout order, with zeros where the mask dropped one: B theta, which a naive attacker
    /// takes for the update. Returns the errors of [`check`](Self::check).
    pub fn expand(&self, layout: &ParamLayout) -> Result<Vec<f32>, UpdateError> {
        self.expand_over(layout, vec![0.0; layout.len()])
    }

    /// Like [`expand`](Self::expand), with the values of `background`, `[P]`, where the mask dropped one.
    pub fn expand_over(&self, layout: &ParamLayout, background: Vec<f32>) -> Result<Vec<f32>, UpdateError> {
        Ok(self.checked(layout)?.expand_over(background))
    }
}

/// An update that fits its model: the right number of values, all of them finite. Holds its mask as bits, so nothing
/// that reads the update has to draw the mask again.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedUpdate<'a> {
    form: UpdateForm,
    values: Cow<'a, [f32]>,
    mask: Option<Cow<'a, DrawnMask>>,
}

impl CheckedUpdate<'_> {
    pub fn form(&self) -> UpdateForm {
        self.form
    }

    /// Returns the transmitted values, in layout order.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the mask as `(word, number of entries)`, like [`Mask`]; `None` if the update has none.
    pub fn words(&self) -> Option<impl Iterator<Item = (u64, usize)> + Clone> {
        self.mask.as_ref().map(|mask| mask.words())
    }

    /// Returns the transmitted values; copies them only if they are borrowed.
    pub fn into_values(self) -> Vec<f32> {
        self.values.into_owned()
    }

    /// Returns the same update with values and mask of its own; copies only what is borrowed.
    pub fn into_owned(self) -> CheckedUpdate<'static> {
        CheckedUpdate {
            form: self.form,
            values: Cow::Owned(self.values.into_owned()),
            mask: self.mask.map(|mask| Cow::Owned(mask.into_owned())),
        }
    }

    /// Returns all P values in layout order, with those of `background`, `[P]`, where the mask dropped one.
    pub fn expand_over(&self, mut background: Vec<f32>) -> Vec<f32> {
        match &self.mask {
            None => background.copy_from_slice(&self.values),
            Some(mask) => mask.place(&self.values, &mut background),
        }
        background
    }

    /// Adds `weight` times each value to its place in `sums`, `[P]`. Places that the mask dropped stay unchanged.
    pub fn accumulate(&self, weight: f32, sums: &mut [f32]) {
        match &self.mask {
            None => sums.iter_mut().zip(self.values.iter()).for_each(|(sum, value)| *sum += weight * value),
            Some(mask) => mask.add(&self.values, weight, sums),
        }
    }

    /// Returns the squared norm of the update's change: the values, minus `reference` (`[P]`) if there is one. Kept
    /// values of a run with rate R are weighted by 1 / (1 - R), so that the estimate has the same mean under every
    /// mask.
    pub fn squared_norm(&self, reference: Option<&[f32]>) -> f64 {
        let reference = reference.map(|reference| self.kept_of(reference));
        let square = |values: &[f32], reference: Option<&[f32]>| -> f64 {
            let square = |change: f64| change * change;
            match reference {
                None => values.iter().map(|&value| square(f64::from(value))).sum(),
                Some(reference) => {
                    values.iter().zip(reference).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum()
                }
            }
        };
        let Some(mask) = &self.mask else { return square(&self.values, reference.as_deref()) };
        let (mut start, mut sum) = (0, 0.0);
        for (share, kept) in mask.kept_by_run() {
            let range = start..start + kept;
            let reference = reference.as_ref().and_then(|reference| reference.get(range.clone()));
            sum += square(self.values.get(range.clone()).unwrap_or_default(), reference) / share;
            start = range.end;
        }
        sum
    }

    /// Returns the kept values minus those of `reference`, `[P]`; without a reference, the values themselves.
    pub fn change(&self, reference: Option<&[f32]>) -> Cow<'_, [f32]> {
        match reference.map(|reference| self.kept_of(reference)) {
            None => Cow::Borrowed(&self.values),
            Some(reference) => self.values.iter().zip(reference).map(|(value, base)| value - base).collect(),
        }
    }

    /// Returns the norm of the values; those that a mask dropped count as zero.
    pub fn length(&self) -> f64 {
        self.values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
    }

    /// Returns the dot product of the values with `direction`, `[P]`; values that a mask dropped count as zero.
    pub fn dot(&self, direction: &[f32]) -> f64 {
        let product = |(&value, &other): (&f32, &f32)| f64::from(value) * f64::from(other);
        match &self.mask {
            None => self.values.iter().zip(direction).map(product).sum(),
            Some(_) => self.values.iter().zip(&self.kept_of(direction)).map(product).sum(),
        }
    }

    /// Scales the change by `share`: b + share (x - b), with b from `reference` (`[P]`), or 0 without it.
    pub fn scaled(&self, reference: Option<&[f32]>, share: f64) -> Vec<f32> {
        let scale = |value: f32, base: f32| {
            let base = f64::from(base);
            (base + share * (f64::from(value) - base)) as f32
        };
        match reference.map(|reference| self.kept_of(reference)) {
            None => self.values.iter().map(|&value| scale(value, 0.0)).collect(),
            Some(reference) => self.values.iter().zip(reference).map(|(&value, base)| scale(value, base)).collect(),
        }
    }

    /// Returns the same update with other values. There must be as many, all finite.
    pub fn with_values<'a>(&'a self, values: &'a [f32]) -> CheckedUpdate<'a> {
        CheckedUpdate { form: self.form, values: Cow::Borrowed(values), mask: self.mask.as_deref().map(Cow::Borrowed) }
    }

    fn kept_of(&self, values: &[f32]) -> Vec<f32> {
        let mut kept = values.to_vec();
        if let Some(mask) = &self.mask {
            mask.keep(&mut kept);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, GroupRates, MaskSeed, VitPreset};

    use super::*;

    #[test]
    fn refusals_carry_their_operands() {
        let layout = Architecture::from(VitPreset::Pico).layout();
        let p = layout.len();
        let error = |update: ProtectedUpdate| update.check(&layout).unwrap_err().to_string();
        assert_eq!(error(ProtectedUpdate::dense(vec![0.0; 3])), format!("update has 3 values, its layout has {p}"));
        let rates = GroupRates::from_bits([0; 7]);
        let masked =
            ProtectedUpdate { form: UpdateForm::Masked { seed: MaskSeed([0; 32]), rates }, values: vec![0.0; 5] };
        assert_eq!(error(masked), format!("update has 5 values, its mask keeps {p}"));
        let mut values = vec![0.0; p];
        values[2] = f32::NAN;
        let text = "update has a value that is NaN at position 2; the client's training has diverged";
        assert_eq!(error(ProtectedUpdate::dense(values)), text);
    }
}
