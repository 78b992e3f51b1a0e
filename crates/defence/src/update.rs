//! What leaves the device.

use unmask_params::ParamLayout;

use crate::{GroupRates, KeyCheck, Mask, MaskSeed};

/// An update after its defence.
#[derive(Debug, Clone, PartialEq)]
pub enum ProtectedUpdate {
    /// All P values, in layout order.
    Dense(Vec<f32>),
    /// The values that the mask keeps, in layout order.
    Masked {
        /// Seed of the mask.
        seed: MaskSeed,
        /// Shares of zeros of the mask.
        rates: GroupRates,
        /// The kept values.
        kept: Vec<f32>,
    },
    /// All P values, the embeddings as cipher text.
    Encrypted {
        /// Tells whether two clients use the same key, and not which.
        check: KeyCheck,
        /// In layout order.
        values: Vec<f32>,
    },
}

/// An update that does not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Wrong number of values.
    #[error("update has {values} values, its {} {expected}", if *masked { "mask keeps" } else { "layout has" })]
    Length {
        /// Values in the update.
        values: usize,
        /// Values it should have.
        expected: usize,
        /// Whether a mask decides that number.
        masked: bool,
    },
    /// NaN or infinity.
    #[error("update has a value that is {value} at position {position}; the client's training has diverged")]
    NotFinite {
        /// Index into the values sent.
        position: usize,
        /// `NaN`, `inf` or `-inf`.
        value: String,
    },
}

impl ProtectedUpdate {
    /// The values that travel.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Dense(values) | Self::Masked { kept: values, .. } | Self::Encrypted { values, .. } => values,
        }
    }

    /// The values that travel, for their memory to be used again.
    pub fn into_values(self) -> Vec<f32> {
        match self {
            Self::Dense(values) | Self::Masked { kept: values, .. } | Self::Encrypted { values, .. } => values,
        }
    }

    /// Its mask, if it has one.
    pub fn mask(&self, layout: &ParamLayout) -> Option<Mask> {
        match self {
            Self::Masked { seed, rates, .. } => Some(Mask::new(*seed, rates, layout)),
            Self::Dense(_) | Self::Encrypted { .. } => None,
        }
    }

    /// Checks it against a model of `layout`.
    ///
    /// # Errors
    /// If the number of values is wrong or one of them is not finite.
    pub fn check(&self, layout: &ParamLayout) -> Result<(), UpdateError> {
        let values = self.values();
        let mask = self.mask(layout);
        let masked = mask.is_some();
        let expected = mask.map_or(layout.len(), |mask| mask.map(|(word, _)| word.count_ones() as usize).sum());
        if values.len() != expected {
            return Err(UpdateError::Length { values: values.len(), expected, masked });
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(position) => Err(UpdateError::NotFinite { position, value: values[position].to_string() }),
            None => Ok(()),
        }
    }

    /// All P values in layout order, with zeros where the mask dropped one: B theta, which is what a naive attacker
    /// takes for the update.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn expand(&self, layout: &ParamLayout) -> Result<Vec<f32>, UpdateError> {
        self.expand_over(layout, vec![0.0; layout.len()])
    }

    /// The same with the values of `background`, `[P]`, where the mask dropped one.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn expand_over(&self, layout: &ParamLayout, mut background: Vec<f32>) -> Result<Vec<f32>, UpdateError> {
        self.check(layout)?;
        let Some(mask) = self.mask(layout) else { return Ok(self.values().to_vec()) };
        for_each_kept(mask, self.values(), &mut background, |place, value| *place = value);
        Ok(background)
    }

    /// Adds `weight` times each value present to its place in `sums`, `[P]`. `self` must have passed
    /// [`check`](Self::check) for that layout; surplus values on either side are left alone.
    pub fn accumulate(&self, layout: &ParamLayout, weight: f32, sums: &mut [f32]) {
        match self.mask(layout) {
            None => sums.iter_mut().zip(self.values()).for_each(|(sum, value)| *sum += weight * value),
            Some(mask) => for_each_kept(mask, self.values(), sums, |sum, value| *sum += weight * value),
        }
    }
}

/// Visits the kept values in order, each with its place in the full vector.
fn for_each_kept(mask: Mask, kept: &[f32], places: &mut [f32], mut visit: impl FnMut(&mut f32, f32)) {
    let mut kept = kept.iter();
    let mut rest = places;
    for (mut word, len) in mask {
        let Some((chunk, behind)) = rest.split_at_mut_checked(len) else { return };
        while word != 0 {
            let Some(&value) = kept.next() else { return };
            visit(&mut chunk[word.trailing_zeros() as usize], value);
            word &= word - 1;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use unmask_params::{ModelSpec, Preset};

    use super::*;

    #[test]
    fn refusals_carry_their_operands() {
        let layout = ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config());
        let p = layout.len();
        let error = |update: ProtectedUpdate| update.check(&layout).unwrap_err().to_string();
        assert_eq!(error(ProtectedUpdate::Dense(vec![0.0; 3])), format!("update has 3 values, its layout has {p}"));
        let rates = GroupRates::from_bits([0; 6]);
        let masked = ProtectedUpdate::Masked { seed: MaskSeed([0; 32]), rates, kept: vec![0.0; 5] };
        assert_eq!(error(masked), format!("update has 5 values, its mask keeps {p}"));
        let mut values = vec![0.0; p];
        values[2] = f32::NAN;
        let text = "update has a value that is NaN at position 2; the client's training has diverged";
        assert_eq!(error(ProtectedUpdate::Dense(values)), text);
    }
}
