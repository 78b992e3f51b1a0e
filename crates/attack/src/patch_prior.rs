//! What a patch of a photograph looks like before anything is known of it.

use faer::{Mat, MatRef};
use unmask_core::VitConfig;

use crate::least_squares::{Spectrum, least_squares};

/// Correlation of neighbouring pixels within a channel.
const PIXEL_CORRELATION: f64 = 0.98;
/// Correlation of two colour channels at the same pixel.
const CHANNEL_CORRELATION: f64 = 0.95;

/// The likeliest patches `[L, S]` with E X = Z, E `[D, L]` having fewer rows than columns.
///
/// The prior is Gaussian with covariance C = 0.98^(|dx|+|dy|), 0.95 between channels:
/// x = C E^T (E C E^T)^-1 z. With any C = K K^T that is x = K pinv(E K) z, which needs no normal equations.
pub(crate) fn likeliest_patches(
    embedding: MatRef<'_, f64>,
    z: MatRef<'_, f64>,
    patch: usize,
    cutoff: f64,
) -> Option<(Mat<f64>, Spectrum)> {
    let root = covariance_root(patch);
    let whitened = embedding * &root;
    let (x, spectrum) = least_squares(whitened.as_ref(), z, cutoff)?;
    Some((&root * x, spectrum))
}

/// G_E^T `[L, D]` with its hidden entries filled in: each column is a mixture of patches.
pub(crate) fn likeliest_columns(known: &crate::observed::Observed, patch: usize) -> Mat<f64> {
    let root = covariance_root(patch);
    let covariance = &root * root.transpose();
    let l = known.ncols();
    let mut out = Mat::zeros(l, known.nrows());
    for d in 0..known.nrows() {
        let at: Vec<usize> = (0..l).filter(|&pixel| known.is_known(d, pixel)).collect();
        let inner =
            Mat::from_fn(at.len(), at.len(), |i, j| covariance[(at[i], at[j])] + if i == j { 1e-3 } else { 0.0 });
        let right = Mat::from_fn(at.len(), 1, |i, _| known.values[(d, at[i])]);
        let Ok(factor) = faer::linalg::solvers::Llt::new(inner.as_ref(), faer::Side::Lower) else { continue };
        let weights = faer::linalg::solvers::Solve::solve(&factor, &right);
        let outer = Mat::from_fn(l, at.len(), |i, j| covariance[(i, at[j])]);
        out.col_mut(d).copy_from((outer * weights).col(0));
    }
    out
}

/// K `[L, L]` with K K^T = C; C is a Kronecker product over channel, y and x, and so is K.
fn covariance_root(patch: usize) -> Mat<f64> {
    let index = |l: usize| (l / (patch * patch), l / patch % patch, l % patch);
    let len = VitConfig::CHANNELS * patch * patch;
    Mat::from_fn(len, len, |row, column| {
        let ((c, y, x), (c2, y2, x2)) = (index(row), index(column));
        channel_root(c, c2) * pixel_root(y, y2) * pixel_root(x, x2)
    })
}

/// Cholesky factor of the matrix r^|i-j|, in closed form.
fn pixel_root(i: usize, j: usize) -> f64 {
    if j > i {
        return 0.0;
    }
    let scale = if j == 0 { 1.0 } else { (1.0 - PIXEL_CORRELATION * PIXEL_CORRELATION).sqrt() };
    scale * PIXEL_CORRELATION.powi((i - j) as i32)
}

/// Symmetric root of the matrix with ones on the diagonal and r elsewhere, in closed form.
fn channel_root(i: usize, j: usize) -> f64 {
    let n = VitConfig::CHANNELS as f64;
    let own = (1.0 - CHANNEL_CORRELATION).sqrt();
    let shared = ((1.0 + (n - 1.0) * CHANNEL_CORRELATION).sqrt() - own) / n;
    if i == j { own + shared } else { shared }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_squares_to_the_covariance() {
        let patch = 4;
        let root = covariance_root(patch);
        let covariance = &root * root.transpose();
        for i in 0..covariance.nrows() {
            for j in 0..covariance.ncols() {
                let distance = (i / patch % patch).abs_diff(j / patch % patch) + (i % patch).abs_diff(j % patch);
                let channel = if i / (patch * patch) == j / (patch * patch) { 1.0 } else { 0.95 };
                let want = channel * 0.98f64.powi(distance as i32);
                assert!((covariance[(i, j)] - want).abs() < 1e-12, "({i}, {j}): {} is not {want}", covariance[(i, j)]);
            }
        }
    }
}
