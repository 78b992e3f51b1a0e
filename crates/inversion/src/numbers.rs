//! What kind of numbers an update is made of. Compressed and preconditioned updates are no plain gradients: their rank
//! counts no pictures.

use unmask_attack::{Rounding, Tensors};

/// The numbers of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Numbers {
    Plain,
    /// This share of the values is exactly zero.
    Sparse(f64),
    /// All values have nearly one size.
    OneSize,
    /// The largest tensor has at most 256 different values.
    Quantised,
}

/// Smallest share of zeros of a sparse update. A network with ReLU leaves fewer.
const SPARSE: f64 = 0.5;
/// Smallest ratio of the 10th to the 90th percentile of the sizes at which they count as one.
const ONE_SIZE: f64 = 0.8;

impl Numbers {
    pub(crate) fn of(gradients: &Tensors) -> Self {
        let layout = gradients.model().layout();
        let tensors = || layout.iter().filter_map(|param| gradients.values(&param.name));
        let total: usize = tensors().map(<[f64]>::len).sum();
        let mut sizes: Vec<f64> = tensors().flatten().map(|value| value.abs()).filter(|size| *size > 0.0).collect();
        if total == 0 || sizes.is_empty() {
            return Self::Plain;
        }
        let zeros = 1.0 - sizes.len() as f64 / total as f64;
        sizes.sort_unstable_by(f64::total_cmp);
        let percentile = |share: usize| sizes[(sizes.len() - 1) * share / 100];
        let largest = tensors().max_by_key(|values| values.len()).unwrap_or_default();
        if percentile(10) >= ONE_SIZE * percentile(90) {
            Self::OneSize
        } else if zeros > SPARSE {
            Self::Sparse(zeros)
        } else if Rounding::of(largest) == Rounding::Byte {
            Self::Quantised
        } else {
            Self::Plain
        }
    }

    /// Whether sums over the values are those of a gradient.
    pub(crate) fn has_sums(self) -> bool {
        self == Self::Plain
    }

    /// A sentence that says what is unusual.
    pub(crate) fn note(self) -> Option<String> {
        Some(match self {
            Self::Plain => return None,
            Self::Sparse(zeros) => format!(
                "{:.0} % of the update is exactly zero, as top-k compression, frozen layers or underflow leaves it: no rank counts its \
                 pictures, and what an attack reads may be incomplete.",
                100.0 * zeros
            ),
            Self::OneSize => {
                "All values of the update have nearly one size, as a first step of Adam or sign compression leaves \
                              them: it shows the signs of a gradient, and is no gradient."
                    .to_owned()
            }
            Self::Quantised => {
                "The update has at most 256 different values in a tensor, as compression to 8 bits leaves them: \
                                its rank counts no pictures."
                    .to_owned()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use unmask_attack::TensorSource;
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    /// The numbers of an update of pico whose values follow this rule.
    fn of(value: impl Fn(usize) -> f64) -> Numbers {
        let architecture = Architecture::from(VitPreset::Pico);
        let mut tensors = Tensors::new(TensorSource::Gradients, architecture, Rounding::F32);
        for param in architecture.layout().iter() {
            let values = param.range.clone().map(&value).collect();
            tensors.insert(&param.name, &param.shape, values).unwrap();
        }
        Numbers::of(&tensors)
    }

    #[test]
    fn unusual_numbers_are_told_from_a_gradient() {
        let plain = |i: usize| (i as f64 * 0.37).sin() * (1.0 + (i as f64 * 0.011).cos());
        assert_eq!(of(plain), Numbers::Plain);
        assert!(
            matches!(of(|i| if i % 10 < 3 { plain(i) } else { 0.0 }), Numbers::Sparse(zeros) if (zeros - 0.7).abs() < 0.01)
        );
        assert_eq!(of(|i| plain(i).signum() * (1.0 + 1e-3 * plain(i))), Numbers::OneSize);
        assert_eq!(of(|i| f64::from((plain(i) * 63.0).round() as f32 * 0.013)), Numbers::Quantised);
        assert!(of(|_| 0.0).note().is_none());
    }
}
