//! What entered block 0, from the tokens that its MLP gave away.

use std::ops::ControlFlow;

use faer::{Mat, MatRef};
use web_time::Instant;

use super::{
    block::{Block, gelu},
    masked::{WRONG, by_rank},
    mlp::MlpSpans,
    projection::projection,
    spans::evened,
    tokens::Token,
};
use crate::{AttackError, Tensors, least_squares::least_squares, low_rank::Start, small_matrices::product, span::GoOn};

/// Every token of the batch at both ends of block 0's attention, one column for each.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    /// norm2's output without scale and shift, `[D, N]`, of mean 0.
    pub(super) normed: Mat<f64>,
    /// The block's input less its mean, `[D, N]`.
    pub(super) centred: Mat<f64>,
    /// The values that attention mixed, before its projection, `[D, N]`.
    pub(super) mixed: Mat<f64>,
    /// How much an error of the gradient disturbs each token's mixed values, `[N]`.
    pub(super) noise: Vec<f64>,
    /// How far each token's activations lie outside their span, `[N]`.
    pub(super) residuals: Vec<f64>,
}

impl Inputs {
    /// Only these tokens.
    pub(super) fn only(&self, tokens: &[usize]) -> Self {
        let columns = |from: &Mat<f64>| Mat::from_fn(from.nrows(), tokens.len(), |row, k| from[(row, tokens[k])]);
        let values = |from: &[f64]| tokens.iter().map(|&k| from[k]).collect();
        Self {
            normed: columns(&self.normed),
            centred: columns(&self.centred),
            mixed: columns(&self.mixed),
            noise: values(&self.noise),
            residuals: values(&self.residuals),
        }
    }
}

/// Solves for the inputs of block 0.
///
/// g_k is the slope beside each token's dual, which no other token's error can disturb. With delta_k = GELU' W2^T g_k, v = gamma2 (W1^T delta_k) and
/// w_k = v - mean v - zhat_k mean(zhat_k v), the slope at norm2's input is g_k + s_k w_k, where s_k = 1 / sigma_k makes it
/// orthogonal to the left null space of dW_proj. Then dW_proj = sum_k (g_k + s_k w_k) o_k^T gives the mixed values o_k,
/// and z_k = zhat_k / s_k - W_proj o_k - b_proj up to its mean.
///
/// # Errors
/// A gradient is missing, a system cannot be solved, or `go_on` ended the completion of a masked gradient.
pub(super) fn inputs(
    block: &Block,
    spans: &MlpSpans,
    tokens: &[Token],
    gradients: &Tensors,
    go_on: GoOn<'_>,
) -> Result<Inputs, AttackError> {
    let unsolved = || AttackError::BatchUnsolved {
        reason: "the equations of block 0's attention could not be solved in f64".to_owned(),
    };
    let (dim, count) = (block.fc2.bias.len(), tokens.len());
    let m = Mat::from_fn(spans.count(), count, |row, k| tokens[k].m[(row, 0)]);
    let raw = product(spans.normal.as_ref(), m.as_ref());
    let normed = centred(Mat::from_fn(dim, count, |row, k| raw[(row, k)] - spans.shift[row]).as_ref());
    let u = product(spans.hidden.as_ref(), m.as_ref());
    let slopes = Mat::from_fn(dim, count, |row, k| tokens[k].dual.slope[(row, 0)]);
    let mut deltas = product(block.fc2.weight.transpose(), slopes.as_ref());
    for (column, u) in deltas.col_iter_mut().zip(u.col_iter()) {
        column.iter_mut().zip(u.iter()).for_each(|(delta, &u)| *delta *= gelu(u).1);
    }
    let mut back = product(block.fc1.weight.transpose(), deltas.as_ref());
    for column in back.col_iter_mut() {
        column.iter_mut().zip(&block.norm2.weight).for_each(|(value, weight)| *value *= weight);
    }
    let through = norm_back(normed.as_ref(), back.as_ref());

    let proj = completed(gradients, (slopes.as_ref(), through.as_ref()), spans.count(), go_on)?;
    let (by_proj, factors) = evened(proj.as_ref());
    let scaled = |x: &Mat<f64>| Mat::from_fn(dim, count, |row, k| factors[row] * x[(row, k)]);
    let (slopes, through) = (scaled(&slopes), scaled(&through));
    let svd = by_proj.thin_svd().map_err(|_| unsolved())?;
    let null = svd.U().subcols(spans.count(), dim - spans.count());
    let (direct, scaled) = (product(null.transpose(), slopes.as_ref()), product(null.transpose(), through.as_ref()));
    let scales: Vec<f64> =
        (0..count).map(|k| -(direct.col(k).transpose() * scaled.col(k)) / scaled.col(k).squared_norm_l2()).collect();
    if scales.iter().any(|scale| !(scale.is_finite() && *scale > 0.0)) {
        return Err(AttackError::BatchUnsolved {
            reason:
                "the tokens that fit block 0's MLP do not fit its attention; attack the update at the weights that it \
                     was made with"
                    .to_owned(),
        });
    }
    let middle = Mat::from_fn(dim, count, |row, k| scales[k] * through[(row, k)] + slopes[(row, k)]);
    // The columns behind dW_proj show how an error of it spreads.
    let right = Mat::from_fn(dim, 2 * dim, |row, c| match c.checked_sub(dim) {
        None => by_proj[(row, c)],
        Some(c) => f64::from(u8::from(c == row)),
    });
    let (solved, _) = least_squares(middle.as_ref(), right.as_ref(), 1e-14).ok_or_else(unsolved)?;
    let mixed = solved.subcols(0, dim).transpose().to_owned();
    let noise = (0..count).map(|k| solved.row(k).subcols(dim, dim).norm_l2()).collect();
    let projected = block.proj.apply(mixed.as_ref());
    let z = Mat::from_fn(dim, count, |row, k| normed[(row, k)] / scales[k] - projected[(row, k)]);
    let residuals = tokens.iter().map(|token| token.residual).collect();
    Ok(Inputs { normed, centred: centred(z.as_ref()), mixed, noise, residuals })
}

/// dW_proj `[D, D]`, with what a mask took of it.
fn completed(
    gradients: &Tensors,
    (slopes, through): (MatRef<'_, f64>, MatRef<'_, f64>),
    rank: usize,
    go_on: GoOn<'_>,
) -> Result<Mat<f64>, AttackError> {
    const PROJ: &str = "blocks.0.attn.proj.weight";
    let known = gradients.observed(PROJ, slopes.nrows())?;
    if known.is_whole() {
        return Ok(known.values);
    }
    let clock = Instant::now();
    if slopes.ncols() == rank {
        let ControlFlow::Continue(found) = projection(&known, slopes, through, go_on) else {
            return Err(AttackError::Ended { seconds: clock.elapsed().as_secs_f64() });
        };
        if let Some(found) = found.filter(|found| found.held_out <= WRONG) {
            return Ok(found.matrix);
        }
    }
    // Tokens are missing, or the mask kept too little of some column.
    by_rank(&[PROJ], known, rank, Start::default(), go_on)
}

/// v - mean v - zhat mean(zhat v) of each column: the slope before a LayerNorm, times its deviation, from the slope v
/// after it.
pub(super) fn norm_back(normed: MatRef<'_, f64>, slopes: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = slopes.to_owned();
    let len = normed.nrows() as f64;
    for ((to, from), normed) in out.col_iter_mut().zip(slopes.col_iter()).zip(normed.col_iter()) {
        let mean = from.iter().sum::<f64>() / len;
        let along = from.iter().zip(normed.iter()).map(|(slope, zhat)| slope * zhat).sum::<f64>() / len;
        // WebAssembly has no fused multiply-add; its substitute takes most of the time.
        to.iter_mut().zip(normed.iter()).for_each(|(slope, zhat)| *slope -= zhat * along + mean);
    }
    out
}

/// Removes the mean of each column.
pub(super) fn centred(x: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = x.to_owned();
    for (to, from) in out.col_iter_mut().zip(x.col_iter()) {
        let mean = from.iter().sum::<f64>() / x.nrows() as f64;
        to.iter_mut().for_each(|value| *value -= mean);
    }
    out
}
