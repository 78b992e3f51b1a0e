//! Cross entropy.

use crate::real::Real;

/// Returns the mean over the batch of -log softmax(`logits`) at the label, and replaces the logits `[batch, classes]`
/// with its gradient.
pub(crate) fn cross_entropy<R: Real>(logits: &mut [R], labels: &[usize]) -> R {
    let classes = logits.len() / labels.len().max(1);
    let count = R::rounded(labels.len() as f64);
    let mut loss = R::ZERO;
    for (row, &label) in logits.chunks_exact_mut(classes.max(1)).zip(labels) {
        let largest = row.iter().fold(R::NEG_INFINITY, |largest, &x| if x > largest { x } else { largest });
        let at_label = row[label] - largest;
        let mut total = R::ZERO;
        for x in &mut *row {
            *x = (*x - largest).exp();
            total += *x;
        }
        loss += R::rounded(total.into().ln()) - at_label;
        for (class, x) in row.iter_mut().enumerate() {
            *x = (*x / total - if class == label { R::ONE } else { R::ZERO }) / count;
        }
    }
    loss / count
}

/// Replaces `change`, the derivative of the logits, with the derivative of the gradient of [`cross_entropy`]. `slope`
/// `[batch, classes]` is that gradient.
pub(crate) fn cross_entropy_change<R: Real>(change: &mut [R], slope: &[R], labels: &[usize]) {
    let classes = slope.len() / labels.len().max(1);
    let count = R::rounded(labels.len() as f64);
    for ((change, slope), &label) in
        change.chunks_exact_mut(classes.max(1)).zip(slope.chunks_exact(classes.max(1))).zip(labels)
    {
        let of_label = |class: usize| if class == label { R::ONE } else { R::ZERO };
        let share = |class: usize| slope[class] * count + of_label(class);
        let common = change.iter().enumerate().fold(R::ZERO, |sum, (class, &change)| sum + share(class) * change);
        for (class, change) in change.iter_mut().enumerate() {
            *change = share(class) * (*change - common) / count;
        }
    }
}
