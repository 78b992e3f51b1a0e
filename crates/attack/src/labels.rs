//! Labels from the gradients of the classification head: head.weight and head.bias of a ViT, fc.weight and fc.bias of a
//! ResNet.

use crate::{AttackError, Tensors, observed::Observed};

/// Ratio of the two largest energies below which the sign of the bias decides.
const TIE: f64 = 2.0;

/// The label of a batch of one.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelGuess {
    pub label: usize,
    /// Mean square of the kept entries in each class's row of dl/d(head.weight); 0 if none was kept.
    pub energies: Vec<f64>,
    /// Ratio of the largest to the second largest energy: how clear the choice is. Infinite if all others are 0.
    pub margin: f64,
    /// The only class with a negative kept entry of dl/d(head.bias); `None` if several or none have one.
    pub by_bias: Option<usize>,
}

/// How many samples of each class a batch held.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelCounts {
    /// Whole numbers that sum to the batch size.
    pub counts: Vec<usize>,
    /// The estimates before rounding. Their distance from whole numbers shows how uncertain the counts are.
    pub estimates: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LabelReading {
    pub counts: Vec<usize>,
    /// Each class's share of the evidence; they sum to 1.
    pub shares: Vec<f64>,
    /// For one picture, the ratio of the two largest energies, see [`LabelGuess::margin`].
    pub margin: Option<f64>,
}

impl LabelReading {
    /// One label for each picture, in ascending order.
    pub fn labels(&self) -> Vec<usize> {
        let repeated = self.counts.iter().enumerate().map(|(class, &count)| std::iter::repeat_n(class, count));
        repeated.flatten().collect()
    }
}

/// Reads the labels of `batch` pictures off an update, by [`label`] for one and by [`label_counts`] for more.
///
/// # Errors
/// As [`label`] and [`label_counts`], or the values are too large or too small to compare.
pub fn read_labels(gradients: &Tensors, batch: usize) -> Result<LabelReading, AttackError> {
    let (counts, evidence, margin) = if batch == 1 {
        let guess = label(gradients)?;
        let counts = (0..guess.energies.len()).map(|class| usize::from(class == guess.label)).collect();
        (counts, guess.energies, Some(guess.margin))
    } else {
        let found = label_counts(gradients, batch)?;
        (found.counts, found.estimates, None)
    };
    let positive = || evidence.iter().map(|value| value.max(0.0));
    let sum: f64 = positive().sum();
    if !(sum.is_finite() && sum > 0.0) {
        return Err(AttackError::Incomparable);
    }
    Ok(LabelReading { counts, shares: positive().map(|value| value / sum).collect(), margin })
}

/// Reads the label of a batch of one.
///
/// dl/d(head.weight) = (p - y) h^T. The label's row has the factor p - 1 and every other row its p. Because 1 - p of
/// the label is the sum of the others' p, the label's energy is never smaller than theirs. A few kept entries of each
/// row are enough for the mean under any mask. dl/d(head.bias) = p - y is negative only for the label and decides
/// between rows of similar energy, as in a model of two classes.
///
/// # Errors
/// [`AttackError`]: the gradient of head.weight is missing, all hidden or all zero.
pub fn label(gradients: &Tensors) -> Result<LabelGuess, AttackError> {
    let (rows, bias) = read(gradients)?;
    let energies: Vec<f64> = (0..rows.nrows())
        .map(|row| {
            let known: Vec<f64> = known(&rows, row).map(|(_, value)| value * value).collect();
            if known.is_empty() { 0.0 } else { known.iter().sum::<f64>() / known.len() as f64 }
        })
        .collect();
    let mut order: Vec<usize> = (0..energies.len()).collect();
    order.sort_by(|&a, &b| energies[b].total_cmp(&energies[a]));
    let second = order.get(1).map_or(0.0, |&class| energies[class]);
    let margin = energies[order[0]] / second;
    let mut negative = (0..bias.nrows()).filter(|&class| bias.values[(class, 0)] < 0.0);
    let by_bias = negative.next().filter(|_| negative.next().is_none());
    let label = match by_bias {
        Some(class) if margin < TIE => class,
        _ => order[0],
    };
    Ok(LabelGuess { label, energies, margin, by_bias })
}

/// Estimates how many pictures of a batch belong to each class.
///
/// dl/d(head.bias)_c is the mean of p_c - y_c over the batch, so n_c = B (mean p_c - dl/d(head.bias)_c). The relay does
/// not know the mean predictions and assumes that they are uniform, as they are right after initialisation. Where an
/// entry of the bias was dropped, the class's row of dl/d(head.weight) replaces it: if the samples' features are
/// similar, the rows are multiples of one vector and those entries are the factors.
///
/// # Errors
/// [`AttackError`]: a gradient is missing or all zero, or no entry of the bias was kept.
pub fn label_counts(gradients: &Tensors, batch: usize) -> Result<LabelCounts, AttackError> {
    let (rows, bias) = read(gradients)?;
    let classes = rows.nrows();
    let [_, name] = gradients.model().head();
    gradients.get(name)?;
    if bias.known() == 0 {
        return Err(AttackError::NothingKept { name });
    }
    let factors = factors(&rows, &bias);
    let (size, share) = (batch as f64, 1.0 / classes as f64);
    let estimates: Vec<f64> = factors.iter().map(|factor| size * (share - factor)).collect();
    Ok(LabelCounts { counts: rounded_counts(&estimates, batch), estimates })
}

/// Gradients of the head's weight, with one row for each class, and of its bias.
fn read(gradients: &Tensors) -> Result<(Observed, Observed), AttackError> {
    let (classes, [weight, bias]) = (gradients.model().classes(), gradients.model().head());
    let rows = gradients.observed(weight, classes)?;
    if rows.known() == 0 {
        return Err(AttackError::NothingKept { name: weight });
    }
    if rows.is_zero() {
        return Err(AttackError::ZeroGradient { name: weight });
    }
    Ok((rows, gradients.observed(bias, classes).unwrap_or_else(|_| Observed::unknown(classes, 1))))
}

fn known(rows: &Observed, row: usize) -> impl Iterator<Item = (usize, f64)> {
    (0..rows.ncols())
        .filter(move |&column| rows.is_known(row, column))
        .map(move |column| (column, rows.values[(row, column)]))
}

/// Mean of p - y for each class, from the bias or, where its entry is hidden, from the class's row.
fn factors(rows: &Observed, bias: &Observed) -> Vec<f64> {
    let classes = rows.nrows();
    let is_known = |class: usize| bias.is_known(class, 0);
    let mut factors: Vec<f64> = (0..classes).map(|class| bias.values[(class, 0)]).collect();
    // Fit h by least squares over the classes with a known factor.
    let (mut sums, mut squares) = (vec![0.0; rows.ncols()], vec![0.0; rows.ncols()]);
    for class in (0..classes).filter(|&class| is_known(class)) {
        for (column, value) in known(rows, class) {
            sums[column] += factors[class] * value;
            squares[column] += factors[class] * factors[class];
        }
    }
    let mut silent = Vec::new();
    for class in (0..classes).filter(|&class| !is_known(class)) {
        let (mut product, mut square) = (0.0, 0.0);
        for (column, value) in known(rows, class).filter(|&(column, _)| squares[column] > 0.0) {
            let h = sums[column] / squares[column];
            product += h * value;
            square += h * h;
        }
        if square > 0.0 {
            factors[class] = product / square;
        } else {
            silent.push(class);
        }
    }
    // All factors sum to zero.
    let rest = -factors.iter().sum::<f64>() / silent.len().max(1) as f64;
    silent.into_iter().for_each(|class| factors[class] = rest);
    factors
}

/// Rounds `estimates` to whole numbers that sum to `total`: floors, plus one for the largest remainders.
pub(crate) fn rounded_counts(estimates: &[f64], total: usize) -> Vec<usize> {
    let sum: f64 = estimates.iter().map(|estimate| estimate.max(0.0)).sum();
    let scale = if sum > 0.0 { total as f64 / sum } else { 0.0 };
    let shares: Vec<f64> = estimates.iter().map(|estimate| estimate.max(0.0) * scale).collect();
    let mut counts: Vec<usize> = shares.iter().map(|share| share.floor() as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].fract().total_cmp(&shares[a].fract()));
    // Usually few, but all of `total` if every estimate is negative, and `total` is the client's claim.
    let missing = total.saturating_sub(counts.iter().sum());
    let (each, rest) = (missing / counts.len().max(1), missing % counts.len().max(1));
    counts.iter_mut().for_each(|count| *count += each);
    order.into_iter().take(rest).for_each(|class| counts[class] += 1);
    counts
}
