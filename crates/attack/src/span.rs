//! The class tokens that entered the last block's MLP, and their span.
//!
//! The head reads only the class token, so in the last block only class tokens contribute to the MLP's gradient. With
//! h_b the class token of picture b after norm2, and d_b the gradient of its hidden layer, dl/d(fc1.weight) = sum_b d_b
//! h_b^T `[4 D, D]`. Its rank is the number of pictures, and the class tokens span its row space, for any labels and
//! positions.

use std::ops::ControlFlow;

use faer::{Mat, MatRef, RowRef, linalg::solvers::Solve};

use crate::{
    AttackError, Tensors,
    low_rank::{Completion, Effort, LowRankError, Start, complete},
    observed::Observed,
};

/// Smallest singular value of a picture, in units of the [cutoff](crate::Rounding::cutoff). Where there should be
/// none, f32 arithmetic leaves singular values of up to 2e-8 of the largest (`vit_nano_patch4_32` and
/// `vit_lab_patch4_32`, batches of 1 to 128), about half of this.
const CUTOFFS: f64 = 1.4;
/// Largest ratio of the median to the second smallest singular value of a `[4 D, D]` matrix of noise.
const FLAT: f64 = 4.0;
/// Ratio to the median above which a singular value is a picture's. The largest one of noise reaches 1.6.
const ABOVE_MEDIAN: f64 = 4.0;
/// Ratio of the last picture's singular value to noise above which no further picture can hide in the noise.
const CLEAR: f64 = 10.0;
/// Held-out error below which a completed matrix has the assumed rank.
const CONVERGED: f64 = 2e-6;
/// Largest rank tried on a masked matrix. Ranks are tried in ascending order.
const MOST_HIDDEN: usize = 32;
/// Effort for each rank. Ranks below the right one get stuck at any effort.
const EFFORT: Effort = Effort { searches: 2, smooth_steps: 0, steps: 60, products: 100 };
/// Number of consecutive ranks without a better prediction that ends the completion.
const PATIENCE: usize = 4;
/// Weight of a completion's residual rows relative to unit vectors, which thousands of them must not outweigh.
const WEAKER: f64 = 1e-4;

/// Called repeatedly by work that may take minutes, and may end it.
pub type GoOn<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchSize {
    Exactly(usize),
    /// More pictures may hide in the noise, or exceed the width of the model.
    AtLeast(usize),
}

impl BatchSize {
    /// Number of pictures that can be told apart.
    pub fn seen(self) -> usize {
        match self {
            Self::Exactly(pictures) | Self::AtLeast(pictures) => pictures,
        }
    }
}

impl std::fmt::Display for BatchSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(pictures) => write!(f, "{pictures}"),
            Self::AtLeast(pictures) => write!(f, "at least {pictures}"),
        }
    }
}

/// timm's name of the gradient that only class tokens contribute to.
///
/// # Errors
/// [`AttackError::NotVit`].
pub fn class_token_gradient(model: impl Into<crate::ModelShape>) -> Result<String, AttackError> {
    let config = model.into().vit()?;
    Ok(format!("blocks.{}.mlp.fc1.weight", config.depth.saturating_sub(1)))
}

/// Reads the number of pictures off the rank of the last block's dl/d(fc1.weight), which is completed if a mask hides
/// entries.
///
/// In f32 a singular value counts as a picture above 4e-8 of the largest. If the smaller half of the spectrum is as
/// flat as noise makes it, the value must also exceed four times the median. More pictures may exist if the rank
/// reaches D - 1, the dimension to which LayerNorm confines tokens, or if the last value is less than ten times the
/// noise. Local epochs add a direction for each step.
///
/// Undoing a mask may take minutes on a large model, and `go_on` may end it.
///
/// # Errors
/// [`AttackError`]: the model is not a ViT, the gradient is missing or zero, a mask or noise hides its rank, or `go_on`
/// ended the completion.
pub fn batch_size(gradients: &Tensors, go_on: GoOn<'_>) -> Result<BatchSize, AttackError> {
    Ok(Span::of(gradients, go_on)?.batch)
}

/// Rows that span the completed matrix, and far weaker ones that span its residual.
fn next_guess(known: &Observed, done: &Completion) -> Mat<f64> {
    let (rank, columns) = (done.right.ncols(), known.ncols());
    let made = &done.left * done.right.transpose();
    let scale = |row: usize| {
        let length = known.values.row(row).norm_l2();
        if length > 0.0 { WEAKER / length } else { 0.0 }
    };
    let scales: Vec<f64> = (0..known.nrows()).map(scale).collect();
    let left_over = |row: usize, column: usize| {
        let left = known.values[(row, column)] - made[(row, column)];
        if known.is_known(row, column) && left.is_finite() { scales[row] * left } else { 0.0 }
    };
    Mat::from_fn(rank + known.nrows(), columns, |row, column| match row.checked_sub(rank) {
        None => done.right[(column, row)],
        Some(row) => left_over(row, column),
    })
}

/// A row space with the data it was found from.
#[derive(Debug)]
pub(crate) struct Span {
    /// G = A V^T: V `[D, r]`, orthonormal.
    pub(crate) basis: Mat<f64>,
    /// A `[N, r]` for the rows with enough known entries.
    rows: Mat<f64>,
    /// G `[N, D]` of the same rows.
    known: Observed,
    /// How far noise may have turned each direction of V.
    turned: Vec<f64>,
    /// Largest singular value of the noise, relative to the largest of all.
    pub(crate) floor: f64,
    pub(crate) batch: BatchSize,
}

fn cannot(reason: String) -> AttackError {
    AttackError::NoClassTokens { reason }
}

impl Span {
    /// Finds the span of dl/d(fc1.weight) among `gradients`; `go_on` may end its completion.
    pub(crate) fn of(gradients: &Tensors, go_on: GoOn<'_>) -> Result<Self, AttackError> {
        let name = class_token_gradient(gradients.model())?;
        let config = gradients.vit()?;
        let known = gradients.observed(&name, config.mlp_dim())?;
        if known.known() == 0 {
            return Err(cannot(format!("the mask kept no entry of \"{name}\"")));
        }
        if known.is_zero() {
            return Err(cannot(format!("the gradient \"{name}\" is all zero")));
        }
        let roundoff = CUTOFFS * gradients.rounding().cutoff();
        if known.is_whole() { Self::whole(known, roundoff, &name) } else { Self::masked(known, &name, go_on) }
    }

    fn whole(known: Observed, roundoff: f64, name: &str) -> Result<Self, AttackError> {
        let unsolvable = || cannot(format!("the values of \"{name}\" are too large or too small to decompose"));
        let svd = known.values.thin_svd().map_err(|_| unsolvable())?;
        let values: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        let (batch, noise) = rank(&values, roundoff).ok_or_else(|| {
            cannot(format!("the noise in \"{name}\" exceeds the trace of any picture there: no direction stands out"))
        })?;
        let count = batch.seen();
        let rows = Mat::from_fn(known.nrows(), count, |i, k| svd.U()[(i, k)] * values[k]);
        let turned = values[..count].iter().map(|value| noise / value).collect();
        let floor = noise / values[0];
        Ok(Self { basis: svd.V().subcols(0, count).to_owned(), rows, known, turned, floor, batch })
    }

    /// Completes the gradient at the smallest rank that predicts the held-out entries. Each rank starts from the one
    /// before and the strongest direction of its residual.
    fn masked(known: Observed, name: &str, go_on: GoOn<'_>) -> Result<Self, AttackError> {
        let (mut guess, mut best, mut tried) = (None, (f64::INFINITY, 0), 0);
        for rank in 1..=MOST_HIDDEN {
            let start = Start { guess: guess.as_ref(), ..Start::default() };
            let done = match complete(&known, rank, start, EFFORT, &mut |_, _| go_on()) {
                Ok(done) if done.is_cut => {
                    return Err(cannot(format!("the completion of \"{name}\" was ended early; give it more time")));
                }
                Ok(done) if done.held_out < CONVERGED => return Self::completed(known, done, rank, name),
                Ok(done) => done,
                Err(LowRankError::TooFewKnown { .. } | LowRankError::FullRank { .. }) => break,
                Err(LowRankError::Unsolvable) => {
                    return Err(cannot(format!("the values of \"{name}\" are too large or too small to complete")));
                }
            };
            tried = rank;
            if done.held_out < best.0 {
                best = (done.held_out, rank);
            } else if rank > best.1 + PATIENCE {
                break;
            }
            guess = Some(next_guess(&known, &done));
        }
        let share = 100.0 * known.known() as f64 / known.len() as f64;
        Err(cannot(if tried == 0 {
            format!("the mask kept {share:.1} % of \"{name}\", fewer entries than its class tokens have unknowns")
        } else {
            format!(
                "the mask kept {share:.1} % of \"{name}\", and no matrix of rank {tried} or less fits them: more \
                 pictures, noise, or too few entries"
            )
        }))
    }

    fn completed(known: Observed, done: Completion, rank: usize, name: &str) -> Result<Self, AttackError> {
        let usable: Vec<usize> = (0..known.nrows()).filter(|&row| done.left[(row, 0)].is_finite()).collect();
        let pick = |from: &Mat<f64>| Mat::from_fn(usable.len(), from.ncols(), |i, j| from[(usable[i], j)]);
        let (rows, known) = (pick(&done.left), Observed { values: pick(&known.values), weights: pick(&known.weights) });
        // Use A's own singular directions, so that each direction has a size.
        let svd = rows.thin_svd().map_err(|_| cannot(format!("\"{name}\" cannot be decomposed")))?;
        let values: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        let size = rows.norm_l2();
        let noise = done.held_out * size / (known.ncols() as f64).sqrt();
        // If the rank was too high, the last directions are noise.
        let count = values.iter().take_while(|&&value| value > noise).count().clamp(1, rank);
        let turned: Vec<f64> = values[..count].iter().map(|value| noise / value).collect();
        let turns = svd.V().subcols(0, count);
        let (basis, rows) = (&done.right * turns, &rows * turns);
        let is_clear = values[count - 1] > CLEAR * noise;
        let batch = if is_clear { BatchSize::Exactly(count) } else { BatchSize::AtLeast(count) };
        Ok(Self { basis, rows, known, turned, floor: noise / values[0], batch })
    }

    /// Length that noise may add outside the span to a token of length 1 inside it: over all directions, the token's
    /// share times the turn by noise, summed in quadrature.
    pub(crate) fn noise(&self, token: MatRef<'_, f64>) -> f64 {
        let shares = self.basis.transpose() * token;
        let turned = |(k, turned): (usize, &f64)| (shares[(k, 0)] * turned).powi(2);
        self.turned.iter().enumerate().map(turned).sum::<f64>().sqrt()
    }

    /// V `[D, r]` refitted to rows drawn with these weights `[N]`, with A unchanged.
    pub(crate) fn resampled(&self, weights: &[f64]) -> Mat<f64> {
        let (rank, columns) = (self.basis.ncols(), self.basis.nrows());
        // Scale all directions to the same size.
        let sizes: Vec<f64> = (0..rank).map(|k| self.rows.col(k).norm_l2()).collect();
        let rows = Mat::from_fn(self.rows.nrows(), rank, |i, k| self.rows[(i, k)] / sizes[k]);
        let weighted = Mat::from_fn(rows.nrows(), rank, |i, k| weights[i] * rows[(i, k)]);
        let mut basis = Mat::zeros(columns, rank);
        if self.known.is_whole() {
            let gram = weighted.transpose() * &rows;
            let right = weighted.transpose() * &self.known.values;
            basis.copy_from(gram.partial_piv_lu().solve(&right).transpose());
        } else {
            for column in 0..columns {
                let at: Vec<usize> =
                    (0..rows.nrows()).filter(|&i| weights[i] > 0.0 && self.known.is_known(i, column)).collect();
                let pick = |from: &Mat<f64>| Mat::from_fn(at.len(), rank, |i, k| from[(at[i], k)]);
                let (some, weighted) = (pick(&rows), pick(&weighted));
                let values = Mat::from_fn(at.len(), 1, |i, _| self.known.values[(at[i], column)]);
                let solved = (weighted.transpose() * some).partial_piv_lu().solve(weighted.transpose() * values);
                (0..rank).for_each(|k| basis[(column, k)] = solved[(k, 0)]);
            }
        }
        // Restore the scale of column k. Otherwise the largest columns would dominate the orthonormal basis.
        for (k, size) in sizes.iter().enumerate() {
            basis.col_mut(k).iter_mut().for_each(|value| *value /= size);
        }
        basis.qr().compute_thin_Q()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.nrows()
    }
}

/// Length of the part of `token` outside an orthonormal basis.
pub(crate) fn outside(basis: MatRef<'_, f64>, token: MatRef<'_, f64>) -> f64 {
    (token - basis * (basis.transpose() * token)).norm_l2()
}

/// The rank that descending singular values show, and the largest singular value that noise could have.
fn rank(values: &[f64], roundoff: f64) -> Option<(BatchSize, f64)> {
    let &largest = values.first().filter(|&&value| value > 0.0 && value.is_finite())?;
    // LayerNorm confines tokens to D - 1 dimensions.
    let limit = values.len() - 1;
    let median = values[values.len() / 2];
    let is_flat = limit > 2 && median < FLAT * values[limit - 1];
    let noise = if is_flat { (ABOVE_MEDIAN * median).max(roundoff * largest) } else { roundoff * largest };
    let count = values.iter().take_while(|&&value| value > noise).count().min(limit);
    if count == 0 {
        return None;
    }
    let is_clear = count < limit && values[count - 1] > CLEAR * noise.min(values[count] * ABOVE_MEDIAN);
    Some((if is_clear { BatchSize::Exactly(count) } else { BatchSize::AtLeast(count) }, noise))
}

/// The unit class token behind one picture's gradient dl/d(fc1.weight) `[4 D, D]`, which has rank one and the token as
/// its row space. `None` if the gradient is zero.
pub(crate) fn token(gradient: MatRef<'_, f64>) -> Option<Mat<f64>> {
    let norm = |row: RowRef<'_, f64>| row.squared_norm_l2();
    let row = (0..gradient.nrows()).max_by(|&a, &b| norm(gradient.row(a)).total_cmp(&norm(gradient.row(b))))?;
    // A step of power iteration averages the rounding of all rows.
    let token = gradient.transpose() * (gradient * gradient.row(row).transpose().as_mat());
    let length = token.norm_l2();
    (length > 0.0 && length.is_finite()).then(|| token / length)
}
