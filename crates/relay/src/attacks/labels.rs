//! Labels read off the head.

use unmask_attack::{CannotAttack, Tensors, label, label_counts};
use unmask_core::Defence;

use super::About;

/// Energies closer than this ratio leave the choice open.
const CLOSE: f64 = 2.0;

/// What the head's gradients told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labels {
    /// Pictures of each class.
    pub(crate) counts: Vec<usize>,
    /// What each class has of the evidence, adding up to 1.
    pub(crate) shares: Vec<f64>,
    /// What to know about it.
    pub(crate) remark: Option<String>,
}

impl Labels {
    /// One label for each picture, ascending.
    pub(super) fn each(&self) -> Vec<usize> {
        let repeated = self.counts.iter().enumerate().map(|(class, &count)| std::iter::repeat_n(class, count));
        repeated.flatten().collect()
    }
}

/// Reads the labels of an update's pictures.
///
/// # Errors
/// Why they cannot be told.
pub(super) fn read(about: &About, gradients: &Tensors) -> Result<Labels, String> {
    let sentence = |error: CannotAttack| error.to_string();
    let (counts, evidence, doubt) = if about.samples == 1 {
        let guess = label(gradients).map_err(sentence)?;
        let mut counts = vec![0; guess.energies.len()];
        if let Some(count) = counts.get_mut(guess.label) {
            *count = 1;
        }
        let doubt = (guess.margin < CLOSE).then_some("Two classes have nearly the same evidence.");
        (counts, guess.energies, doubt)
    } else {
        let size = usize::try_from(about.samples).unwrap_or(usize::MAX);
        let found = label_counts(gradients, size, None).map_err(sentence)?;
        (found.counts, found.estimates, Some("Counted as if the model still found all classes equally likely."))
    };
    let positive = || evidence.iter().map(|value| value.max(0.0));
    let sum: f64 = positive().sum();
    if !(sum.is_finite() && sum > 0.0) {
        return Err("the head's gradients are too large or too small to compare".to_owned());
    }
    let shares = positive().map(|value| value / sum).collect();
    let noise = matches!(about.defence, Defence::Gaussian(_))
        .then_some("Noise was added to this update: what stands out may be the noise.");
    let plain =
        about.defence.is_encrypted().then_some("The head is not encrypted: the key covers the embeddings alone.");
    let remarks: Vec<&str> = [doubt, noise, plain].into_iter().flatten().collect();
    Ok(Labels { counts, shares, remark: (!remarks.is_empty()).then(|| remarks.join(" ")) })
}
