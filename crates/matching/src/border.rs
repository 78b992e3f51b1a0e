//! What passes between a search, whose pictures are in [-1, 1], and a model, whose images are in [0, 1].

use unmask_model::ModelError;

/// Pictures as the model takes them.
pub(crate) fn unit(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| x.mul_add(0.5, 0.5)).collect()
}

/// The derivative by pictures in [-1, 1] of what was differentiated by images in [0, 1].
pub(crate) fn slope_of_unit(mut slope: Vec<f64>) -> Vec<f64> {
    slope.iter_mut().for_each(|slope| *slope *= 0.5);
    slope
}

/// The labels of a batch.
///
/// # Errors
/// There are none, or one is no class.
pub(crate) fn known_labels(labels: &[usize], classes: usize) -> Result<Vec<usize>, ModelError> {
    if labels.is_empty() {
        return Err(ModelError::EmptyBatch);
    }
    match labels.iter().enumerate().find(|&(_, &label)| label >= classes) {
        Some((image, &label)) => Err(ModelError::Label { image, label, classes }),
        None => Ok(labels.to_vec()),
    }
}
