//! Matrix products, and operations on many small symmetric matrices.

use faer::{
    Accum, Mat, MatRef, Par, Side,
    linalg::{
        matmul::matmul,
        solvers::{DenseSolveCore, Llt},
    },
};

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

/// Inverses of symmetric matrices `[r, r]`, stored one after the other.
pub(crate) struct Inverses {
    rank: usize,
    values: Vec<f64>,
}

impl Inverses {
    /// Inverts the matrices whose lower triangles are the rows of `packed` `[n, r (r + 1) / 2]`, each with a ridge.
    pub(crate) fn new(packed: MatRef<'_, f64>, rank: usize) -> Option<Self> {
        let mut values = Vec::with_capacity(packed.nrows() * rank * rank);
        let rows = packed.to_owned();
        for row in 0..packed.nrows() {
            let at = |j: usize, k: usize| rows[(row, j * (j + 1) / 2 + k)];
            let mut matrix = Mat::from_fn(rank, rank, |j, k| if k <= j { at(j, k) } else { at(k, j) });
            let mean = (0..rank).map(|j| matrix[(j, j)]).sum::<f64>() / rank as f64;
            if mean <= 0.0 {
                values.extend(std::iter::repeat_n(0.0, rank * rank));
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
            for column in inverse.col_iter() {
                values.extend(column.iter());
            }
        }
        Some(Self { rank, values })
    }

    /// Lower triangles of the inverses, `[n, r (r + 1) / 2]`.
    pub(crate) fn packed(&self) -> Mat<f64> {
        let r = self.rank;
        let count = self.values.len() / (r * r).max(1);
        let mut out = Mat::zeros(count, r * (r + 1) / 2);
        let mut at = 0;
        for j in 0..r {
            for k in 0..=j {
                let of = self.values.chunks_exact(r * r).map(|inverse| inverse[j * r + k]);
                out.col_mut(at).iter_mut().zip(of).for_each(|(out, value)| *out = value);
                at += 1;
            }
        }
        out
    }

    /// Multiplies each inverse by its row of `x` `[n, r]`.
    pub(crate) fn apply(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let r = self.rank;
        let (count, transposed) = (x.nrows(), x.transpose().to_owned());
        let mut out = Mat::<f64>::zeros(r, count);
        for (row, inverse) in self.values.chunks_exact(r * r).enumerate() {
            let (x, out) = (transposed.col_as_slice(row), out.col_as_slice_mut(row));
            for (column, x) in inverse.chunks_exact(r).zip(x) {
                out.iter_mut().zip(column).for_each(|(out, value)| *out += value * x);
            }
        }
        out.transpose().to_owned()
    }
}

/// Multiplies each symmetric matrix by its row of `x` `[n, r]`. The rows of `packed` `[n, r (r + 1) / 2]` are the lower
/// triangles.
pub(crate) fn apply_packed(packed: MatRef<'_, f64>, x: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::<f64>::zeros(x.nrows(), x.ncols());
    for (gram, (j, k)) in packed.col_iter().zip(triangle(x.ncols())) {
        for (row, &gram) in gram.iter().enumerate() {
            out[(row, j)] += gram * x[(row, k)];
            if k < j {
                out[(row, k)] += gram * x[(row, j)];
            }
        }
    }
    out
}

/// Rows and columns of a lower triangle, in the order of [`pairs`].
pub(crate) fn triangle(r: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..r).flat_map(|j| (0..=j).map(move |k| (j, k)))
}

/// The sum of the entrywise products.
pub(crate) fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.col_iter().zip(b.col_iter()).map(|(a, b)| a.iter().zip(b.iter()).map(|(a, b)| a * b).sum::<f64>()).sum()
}

pub(crate) fn multiply(x: &mut Mat<f64>, weights: &Mat<f64>) {
    for (x, weights) in x.col_iter_mut().zip(weights.col_iter()) {
        x.iter_mut().zip(weights.iter()).for_each(|(x, weight)| *x *= weight);
    }
}
