//! What leaves the device.

use crate::{Mask, MaskSeed, ZeroRate};

/// An update after its defence.
#[derive(Debug, Clone, PartialEq)]
pub enum ProtectedUpdate {
    /// All P values, in layout order.
    Dense(Vec<f32>),
    /// The values that the mask keeps, in layout order.
    Masked {
        /// Seed of the mask.
        seed: MaskSeed,
        /// Share of zeros of the mask.
        rate: ZeroRate,
        /// The kept values.
        kept: Vec<f32>,
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
            Self::Dense(values) | Self::Masked { kept: values, .. } => values,
        }
    }

    /// Checks it against a model of `len` parameters.
    ///
    /// # Errors
    /// If the number of values is wrong or one of them is not finite.
    pub fn check(&self, len: usize) -> Result<(), UpdateError> {
        let values = self.values();
        let expected = match self {
            Self::Dense(_) => len,
            Self::Masked { seed, rate, .. } => {
                Mask::new(*seed, *rate, len).map(|(word, _)| word.count_ones() as usize).sum()
            }
        };
        if values.len() != expected {
            let masked = matches!(self, Self::Masked { .. });
            return Err(UpdateError::Length { values: values.len(), expected, masked });
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(position) => Err(UpdateError::NotFinite { position, value: values[position].to_string() }),
            None => Ok(()),
        }
    }

    /// All `len` values in layout order, with zeros where the mask dropped one: B theta, which is what a naive attacker
    /// takes for the update.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn expand(&self, len: usize) -> Result<Vec<f32>, UpdateError> {
        self.check(len)?;
        Ok(match self {
            Self::Dense(values) => values.clone(),
            Self::Masked { seed, rate, kept } => {
                let mut expanded = vec![0.0; len];
                let mut kept = kept.iter();
                for (values, (mut word, _)) in expanded.chunks_mut(64).zip(Mask::new(*seed, *rate, len)) {
                    while word != 0 {
                        let Some(&value) = kept.next() else { break };
                        values[word.trailing_zeros() as usize] = value;
                        word &= word - 1;
                    }
                }
                expanded
            }
        })
    }

    /// Adds the values to `sums` and, for each value present, one to `counts`; both have `[P]` entries. `self` must have
    /// passed [`check`](Self::check) for that length; surplus values on either side are left alone.
    pub fn accumulate(&self, sums: &mut [f32], counts: &mut [u32]) {
        match self {
            Self::Dense(values) => {
                for ((sum, count), value) in sums.iter_mut().zip(counts).zip(values) {
                    *sum += value;
                    *count += 1;
                }
            }
            Self::Masked { seed, rate, kept } => {
                let len = sums.len();
                let mut kept = kept.iter();
                let words = Mask::new(*seed, *rate, len);
                for ((sums, counts), (mut word, _)) in sums.chunks_mut(64).zip(counts.chunks_mut(64)).zip(words) {
                    while word != 0 {
                        let lane = word.trailing_zeros() as usize;
                        let Some(value) = kept.next() else { return };
                        sums[lane] += value;
                        counts[lane] += 1;
                        word &= word - 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_carry_their_operands() {
        let error = |update: ProtectedUpdate| update.check(4).unwrap_err().to_string();
        assert_eq!(error(ProtectedUpdate::Dense(vec![0.0; 3])), "update has 3 values, its layout has 4");
        let masked =
            ProtectedUpdate::Masked { seed: MaskSeed([0; 32]), rate: ZeroRate::new(0.0).unwrap(), kept: vec![0.0; 5] };
        assert_eq!(error(masked), "update has 5 values, its mask keeps 4");
        let poisoned = ProtectedUpdate::Dense(vec![0.0, 1.0, f32::NAN, 0.0]);
        assert_eq!(error(poisoned), "update has a value that is NaN at position 2; the client's training has diverged");
    }
}
