//! Labels, read off an update.

use unmask_attack::{CannotAttack, Tensors, label, label_counts};

/// What the head's gradient says of the labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// One for each picture, ascending.
    pub labels: Vec<usize>,
    /// For one picture: how many times more energy the label's row has than the next.
    pub margin: Option<f64>,
}

/// Reads the labels of `batch` pictures off an update.
///
/// # Errors
/// [`CannotAttack`]: the head's gradient is missing, all hidden or all zero.
pub fn read_labels(gradients: &Tensors, batch: usize) -> Result<Labels, CannotAttack> {
    if batch == 1 {
        let guess = label(gradients)?;
        return Ok(Labels { labels: vec![guess.label], margin: Some(guess.margin) });
    }
    let counts = label_counts(gradients, batch, None)?.counts;
    let labels = counts.iter().enumerate().flat_map(|(class, &count)| std::iter::repeat_n(class, count));
    Ok(Labels { labels: labels.collect(), margin: None })
}
