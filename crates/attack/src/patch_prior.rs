//! What a patch of a photograph looks like before anything is known of it.

use faer::{
    Mat, Side,
    linalg::solvers::{Llt, Solve},
};
use unmask_core::VitConfig;

use crate::observed::Observed;

/// Correlation of neighbouring pixels within a channel.
const PIXEL_CORRELATION: f64 = 0.98;
/// Correlation of two colour channels at the same pixel.
const CHANNEL_CORRELATION: f64 = 0.95;
/// Variance of what a mixture of patches has beside, as a share of theirs.
const NOT_PHOTOGRAPHIC: f64 = 1e-3;

/// What `known` `[D, L]`, mixtures of patches such as G_E, has at `pixels`: `[pixels, D]`. Hidden entries are the likeliest under the same
/// prior, C_hk (C_kk + v I)^-1 g_k with v = 1e-3 for what is no photograph.
pub(crate) fn likeliest_mixtures(known: &Observed, pixels: &[usize], patch: usize) -> Option<Mat<f64>> {
    let place = |l: usize| (l / (patch * patch), l / patch % patch, l % patch);
    let covariance = Mat::from_fn(pixels.len(), pixels.len(), |i, j| {
        let ((c, y, x), (c2, y2, x2)) = (place(pixels[i]), place(pixels[j]));
        let channel = if c == c2 { 1.0 } else { CHANNEL_CORRELATION };
        channel * PIXEL_CORRELATION.powi((y.abs_diff(y2) + x.abs_diff(x2)) as i32)
    });
    let mut mixtures = Mat::zeros(pixels.len(), known.nrows());
    for row in 0..known.nrows() {
        let at: Vec<usize> = (0..pixels.len()).filter(|&i| known.is_known(row, pixels[i])).collect();
        if at.is_empty() {
            continue;
        }
        let inner = Mat::from_fn(at.len(), at.len(), |i, j| {
            covariance[(at[i], at[j])] + if i == j { NOT_PHOTOGRAPHIC } else { 0.0 }
        });
        let mut weights = Mat::from_fn(at.len(), 1, |i, _| known.values[(row, pixels[at[i]])]);
        Llt::new(inner.as_ref(), Side::Lower).ok()?.solve_in_place(weights.as_mut());
        let outer = Mat::from_fn(pixels.len(), at.len(), |i, j| covariance[(i, at[j])]);
        mixtures.col_mut(row).copy_from((outer * weights).col(0));
    }
    Some(mixtures)
}

/// K `[L, L]` with K K^T = C, the covariance of a patch: 0.98^(|dx|+|dy|), 0.95 between channels. C is a Kronecker product
/// over channel, y and x, and so is K.
///
/// Of all patches x with E x = z, E `[D, L]` having fewer rows than columns, x = C E^T (E C E^T)^-1 z = K pinv(E K) z is the
/// likeliest.
pub(crate) fn covariance_root(patch: usize) -> Mat<f64> {
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
