//! Errors of training steps.

use unmask_core::{Architecture, StatisticsError};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("{architecture} with {} classes is not a valid model; choose at least one class", architecture.classes())]
    NoClasses { architecture: Architecture },
    #[error("{architecture} cannot have images of {0} x {0} pixels; choose a side of at least one", architecture.side())]
    NoPixels { architecture: Architecture },
    #[error("weights have {given} values, the layout of the model has {expected}; use weights of the same model")]
    WeightCount { given: usize, expected: usize },
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    #[error(
        "batch norm sees one value per channel in a batch of {batch} of {side} x {side} pixels, which has no variance; use a \
         larger batch or larger images"
    )]
    SingleValue { batch: usize, side: usize },
    #[error(
        "images have {given} values, {batch} of 3 x {side} x {side} have {expected}; resize them to the model's side"
    )]
    ImageCount { given: usize, expected: usize, batch: usize, side: usize },
    #[error("the batch is empty; give at least one image")]
    EmptyBatch,
    #[error("label {label} of image {image} is out of range; the model has classes 0 to {}", classes - 1)]
    Label { image: usize, label: usize, classes: usize },
    #[error("local training in batches of 0 images takes no step; choose a batch of at least 1")]
    NoLocalBatch,
    #[error("local training over 0 epochs trains nothing; choose at least 1")]
    NoLocalEpochs,
    #[error("{rate} is not a valid local learning rate; choose a finite number above 0, such as 0.1")]
    LocalRate { rate: f32 },
    #[error("the device {device} computes in f32 only; choose f32, or the CPU")]
    NoF64 { device: String },
    #[error("{architecture} has no transformer block; differentiate all its weights, or choose a ViT")]
    NoFirstBlock { architecture: Architecture },
    #[error(
        "the direction has {given} values, the weights that move along it have {expected}; give one value for each weight in scope"
    )]
    DirectionLength { given: usize, expected: usize },
    #[error("{what} holds {value}; lower the learning rate, or check weights and images for NaN and infinity")]
    NonFinite {
        /// For example `loss`, or the gradient of a parameter by timm's name.
        what: String,
        value: f32,
    },
    #[error("the device {device} failed: {reason}; choose another device")]
    Device { device: String, reason: String },
}

/// Values per check. A loop that may end at every value cannot be vectorised.
const TOGETHER: usize = 64;

/// Rejects the first value that is not finite.
pub(crate) fn check_finite<T: Copy + Into<f64>>(what: &str, values: &[T]) -> Result<(), ModelError> {
    let is_finite = |value: &T| (*value).into().is_finite();
    let are_finite = |chunk: &&[T]| chunk.iter().fold(true, |all, value| all & is_finite(value));
    let mut refused = values.chunks(TOGETHER).filter(|chunk| !are_finite(chunk)).flatten();
    match refused.find(|value| !is_finite(value)) {
        Some(&value) => Err(ModelError::NonFinite { what: what.to_owned(), value: value.into() as f32 }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_that_is_not_finite_is_refused_wherever_it_stands() {
        let values: Vec<f32> = (0..200).map(|i| if i % 2 == 0 { f32::MAX } else { -1e-38 }).collect();
        assert_eq!(check_finite("weights", &values), Ok(()));
        assert_eq!(check_finite::<f64>("nothing", &[]), Ok(()));
        for at in 0..values.len() {
            let mut values = values.clone();
            (values[at], values[199]) = (f32::NEG_INFINITY, f32::INFINITY);
            let value = if at == 199 { f32::INFINITY } else { f32::NEG_INFINITY };
            let refused = ModelError::NonFinite { what: "weights".to_owned(), value };
            assert_eq!(check_finite("weights", &values), Err(refused), "{at}");
        }
        assert!(check_finite("weights", &[0.0, f64::NAN]).is_err());
    }
}
