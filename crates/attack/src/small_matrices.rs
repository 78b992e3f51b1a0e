//! Matrix products, and operations on many small symmetric matrices.

use faer::{
    Accum, Mat, MatRef, Par, Side,
    linalg::{
        matmul::{
            matmul,
            triangular::{self, BlockStructure},
        },
        solvers::{DenseSolveCore, Llt},
    },
};
use pulp::{Arch, NullaryFnOnce};

/// Relative ridge that keeps rounding from making a Gram matrix indefinite.
const RIDGE: f64 = 1e-13;

pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}

/// x^T x `[n, n]` of a matrix `[m, n]`, in half the time of a product.
pub(crate) fn gram(x: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(x.ncols(), x.ncols());
    let (lower, whole) = (BlockStructure::TriangularLower, BlockStructure::Rectangular);
    triangular::matmul(out.as_mut(), lower, Accum::Replace, x.transpose(), whole, x, whole, 1.0, Par::Seq);
    for j in 0..x.ncols() {
        for k in 0..j {
            out[(k, j)] = out[(j, k)];
        }
    }
    out
}

/// The columns x_j x_k, k <= j, of a matrix x `[n, r]`: `[n, r (r + 1) / 2]`.
pub(crate) fn pairs(x: MatRef<'_, f64>) -> Mat<f64> {
    let r = x.ncols();
    let mut out = Mat::zeros(x.nrows(), r * (r + 1) / 2);
    let mut at = 0;
    for j in 0..r {
        for k in 0..=j {
            for (to, (a, b)) in out.col_mut(at).iter_mut().zip(x.col(j).iter().zip(x.col(k).iter())) {
                *to = a * b;
            }
            at += 1;
        }
    }
    out
}

/// Inverts the symmetric matrices `[r, r]` whose lower triangles are the rows of `packed` `[n, r (r + 1) / 2]`, each with
/// a ridge. The inverses are packed in the same way. A matrix whose trace is not positive has the inverse 0. `None` if
/// even a large ridge leaves one that is not positive definite.
pub(crate) fn invert_packed(packed: &Mat<f64>, rank: usize) -> Option<Mat<f64>> {
    let mut out = Mat::zeros(packed.nrows(), packed.ncols());
    for row in 0..packed.nrows() {
        let at = |j: usize, k: usize| packed[(row, j * (j + 1) / 2 + k)];
        let mut matrix = Mat::from_fn(rank, rank, |j, k| if k <= j { at(j, k) } else { at(k, j) });
        let mean = (0..rank).map(|j| matrix[(j, j)]).sum::<f64>() / rank as f64;
        if mean <= 0.0 {
            continue;
        }
        let mut ridge = RIDGE * mean;
        let factor = loop {
            (0..rank).for_each(|j| matrix[(j, j)] += ridge);
            match Llt::new(matrix.as_ref(), Side::Lower) {
                Ok(factor) => break factor,
                Err(_) if ridge.is_finite() && ridge < mean => ridge *= 100.0,
                Err(_) => return None,
            }
        };
        let inverse = factor.inverse();
        for (at, (j, k)) in triangle(rank).enumerate() {
            out[(row, at)] = inverse[(j, k)];
        }
    }
    Some(out)
}

/// Multiplies each symmetric matrix by its row of `x` `[n, r]`. The rows of `packed` `[n, r (r + 1) / 2]` are the lower
/// triangles.
pub(crate) fn apply_packed(packed: &Mat<f64>, x: &Mat<f64>) -> Mat<f64> {
    debug_assert_eq!((packed.nrows(), packed.ncols()), (x.nrows(), x.ncols() * (x.ncols() + 1) / 2));
    let mut out = Mat::zeros(x.nrows(), x.ncols());
    Arch::new().dispatch(ApplyPacked { packed, x, out: &mut out });
    out
}

/// The loop of [`apply_packed`], for the widest SIMD instructions of the processor.
struct ApplyPacked<'a> {
    packed: &'a Mat<f64>,
    x: &'a Mat<f64>,
    out: &'a mut Mat<f64>,
}

impl NullaryFnOnce for ApplyPacked<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { packed, x, out } = self;
        for (at, (j, k)) in triangle(x.ncols()).enumerate() {
            let grams = packed.col_as_slice(at);
            add_products(out.col_as_slice_mut(j), grams, x.col_as_slice(k));
            if k < j {
                add_products(out.col_as_slice_mut(k), grams, x.col_as_slice(j));
            }
        }
    }
}

#[inline(always)]
fn add_products(out: &mut [f64], a: &[f64], b: &[f64]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out += a * b;
    }
}

/// Rows and columns of a lower triangle, in the order of [`pairs`].
pub(crate) fn triangle(r: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..r).flat_map(|j| (0..=j).map(move |k| (j, k)))
}

/// The sum of the entrywise products.
pub(crate) fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let of_column = |j| a.col_as_slice(j).iter().zip(b.col_as_slice(j)).map(|(a, b)| a * b).sum::<f64>();
    (0..a.ncols()).map(of_column).sum()
}

pub(crate) fn multiply(x: &mut Mat<f64>, weights: &Mat<f64>) {
    for j in 0..x.ncols() {
        x.col_as_slice_mut(j).iter_mut().zip(weights.col_as_slice(j)).for_each(|(x, weight)| *x *= weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Well-conditioned matrices `[r, r]` in `n` rows, packed, and as many vectors `[n, r]`.
    fn matrices(n: usize, r: usize) -> (Mat<f64>, Mat<f64>) {
        let value = |row: usize, at: usize| ((row * 31 + at * 17) as f64).sin();
        let mut packed = Mat::from_fn(n, r * (r + 1) / 2, value);
        for (at, (j, k)) in triangle(r).enumerate().filter(|(_, (j, k))| j == k) {
            (0..n).for_each(|row| packed[(row, at)] += (r + j + k) as f64);
        }
        (packed, Mat::from_fn(n, r, |row, at| value(at + 7, row)))
    }

    /// Bit by bit, also where the rows do not fill the SIMD instructions.
    #[test]
    fn packed_matrices_multiply_as_whole_ones_do() {
        for (n, r) in [(1, 1), (7, 3), (16, 4), (33, 5)] {
            let (packed, x) = matrices(n, r);
            let made = apply_packed(&packed, &x);
            for row in 0..n {
                for j in 0..r {
                    let at = |k: usize| packed[(row, j.max(k) * (j.max(k) + 1) / 2 + j.min(k))];
                    let sum = (0..r).fold(0.0, |sum, k| sum + at(k) * x[(row, k)]);
                    assert_eq!(made[(row, j)].to_bits(), sum.to_bits(), "{n} {r}");
                }
            }
        }
    }

    #[test]
    fn inverses_undo_their_matrices() {
        for r in [1, 4, 9] {
            let (packed, x) = matrices(5, r);
            let back = apply_packed(&invert_packed(&packed, r).unwrap(), &apply_packed(&packed, &x));
            assert!((back - &x).norm_max() < 1e-10, "{r}");
        }
        let nothing = Mat::zeros(2, 3);
        assert_eq!(invert_packed(&nothing, 2).unwrap(), nothing);
    }
}
