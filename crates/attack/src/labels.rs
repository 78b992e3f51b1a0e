//! Labels, read off the gradients of the classification head: head.weight and head.bias of a ViT, fc.weight and fc.bias
//! of a ResNet.

use crate::{AttackError, Tensors, observed::Observed};

/// Energies this close, as a ratio, leave the choice to the sign of the bias.
const TIE: f64 = 2.0;

/// The label of a batch of one.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelGuess {
    pub label: usize,
    /// Mean square of the kept entries of each class's row of dl/d(head.weight); 0 where none was kept.
    pub energies: Vec<f64>,
    /// Largest over second largest energy: how clear the choice is. Infinite where all others are 0.
    pub margin: f64,
    /// The class that the kept entries of dl/d(head.bias) name by their sign, if they name exactly one.
    pub by_bias: Option<usize>,
}

/// How many samples of each class a batch held.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelCounts {
    /// Whole numbers that sum to the batch size.
    pub counts: Vec<usize>,
    /// The estimates before rounding; how far they lie from whole numbers tells how sure the counts are.
    pub estimates: Vec<f64>,
}

/// The labels of an update as its head gives them away.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelReading {
    pub counts: Vec<usize>,
    /// What each class has of the evidence, adding up to 1.
    pub shares: Vec<f64>,
    /// For one picture: largest over second largest energy, see [`LabelGuess::margin`].
    pub margin: Option<f64>,
}

impl LabelReading {
    /// One label for each picture, ascending.
    pub fn labels(&self) -> Vec<usize> {
        let repeated = self.counts.iter().enumerate().map(|(class, &count)| std::iter::repeat_n(class, count));
        repeated.flatten().collect()
    }
}

/// Reads the labels of `batch` pictures off an update: by [`label`] for one, otherwise by [`label_counts`].
///
/// # Errors
/// [`AttackError`]: as those two, or the values are too large or too small to compare.
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

/// The label of a batch of one.
///
/// dl/d(head.weight) = (p - y) h^T: of the rows, that of the label has the factor p - 1 and all others p, and
/// 1 - p_label = sum of the others, so its energy is never the smaller. The mean over kept entries needs no more than a few
/// of each row, whatever mask dropped the rest. dl/d(head.bias) = p - y is negative for the label alone and decides
/// between rows of like energy, as in a model of two classes.
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

/// How many of a batch of `batch` belong to each class.
///
/// dl/d(head.bias)_c is the mean of p_c - y_c over the batch, so that n_c = B (mean p_c - dl/d(head.bias)_c). The mean
/// predictions are not known to the relay and taken for uniform, as right after initialisation. Where an entry of the bias
/// was dropped, its class's row of dl/d(head.weight) stands in: as far as the samples' features are alike, the rows are
/// multiples of one vector, with those entries as factors.
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
    Ok(LabelCounts { counts: round(&estimates, batch), estimates })
}

/// The gradients of the head's weight, a row for each class, and of its bias.
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

/// The mean of p - y for each class: what the bias says, and for classes whose entry is hidden what the rows say.
fn factors(rows: &Observed, bias: &Observed) -> Vec<f64> {
    let classes = rows.nrows();
    let is_known = |class: usize| bias.is_known(class, 0);
    let mut factors: Vec<f64> = (0..classes).map(|class| bias.values[(class, 0)]).collect();
    // h by least squares over the classes whose factor is known.
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

/// Whole numbers near `estimates` that sum to `total`: floors, and one more for the largest remainders.
fn round(estimates: &[f64], total: usize) -> Vec<usize> {
    let sum: f64 = estimates.iter().map(|estimate| estimate.max(0.0)).sum();
    let scale = if sum > 0.0 { total as f64 / sum } else { 0.0 };
    let shares: Vec<f64> = estimates.iter().map(|estimate| estimate.max(0.0) * scale).collect();
    let mut counts: Vec<usize> = shares.iter().map(|share| share.floor() as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].fract().total_cmp(&shares[a].fract()));
    // Few, except where every estimate is negative; how many pictures there are is the client's word.
    let missing = total.saturating_sub(counts.iter().sum());
    let (each, rest) = (missing / counts.len().max(1), missing % counts.len().max(1));
    counts.iter_mut().for_each(|count| *count += each);
    order.into_iter().take(rest).for_each(|class| counts[class] += 1);
    counts
}
