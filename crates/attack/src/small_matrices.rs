//! Matrix products, and operations on many small symmetric matrices.

use faer::{
    Accum, Mat, MatRef, Par, Side,
    linalg::{
        matmul::matmul,
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
/// a ridge. The inverses are packed in the same way; a matrix without a positive diagonal has the inverse 0.
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
