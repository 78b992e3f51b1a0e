//! The likeliest row space of a matrix of low rank, by what is known of it.
//!
//! Each row z_i is V a_i and noise, a_i normal with covariance C, noise with variance e^2: principal components of incomplete data
//! (Tipping and Bishop 1999; Ilin and Raiko 2010). Expectation maximisation takes each a_i for a distribution rather than for
//! its best fit. A direction of V that few entries determine is then believed as little as they say, and so cannot explain
//! noise of its own: least squares, which believes it, is stuck there.

use std::ops::ControlFlow;

use faer::{
    Mat, Side,
    linalg::solvers::{DenseSolveCore, Llt},
};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::small_matrices::{Inverses, multiply, pairs, product};

/// Error of an entry, relative to their root mean square, below which f32 leaves nothing to gain.
const LEAST_ERROR: f64 = 1e-6;
/// e^2 at first: a tenth of the entries' mean square.
const FIRST_NOISE: f64 = 0.1;

/// By how much e^2 is larger once a direction is drawn anew.
const WITHOUT_WEAKEST: f64 = 4.0;

/// A row space under way to the likeliest.
pub(crate) struct LikelyFactor {
    /// Z `[N, D]` times its weights.
    weighted: Mat<f64>,
    weights: Mat<f64>,
    /// Sum of squares of Z.
    total: f64,
    /// V `[D, r]`.
    right: Mat<f64>,
    /// C `[r, r]`.
    covariance: Mat<f64>,
    /// e^2.
    noise: f64,
}

impl LikelyFactor {
    /// From `right` `[D, r]`. `values` `[N, D]` have a root mean square of 1 where `weights` are not 0.
    pub(crate) fn new(values: &Mat<f64>, weights: &Mat<f64>, right: Mat<f64>) -> Self {
        let mut weighted = values.clone();
        multiply(&mut weighted, weights);
        let total = dot(&weighted, values);
        let covariance = Mat::identity(right.ncols(), right.ncols());
        Self { weighted, weights: weights.clone(), total, right, covariance, noise: FIRST_NOISE }
    }

    /// An orthonormal basis `[D, r]` of it.
    pub(crate) fn basis(&self) -> Mat<f64> {
        self.right.qr().compute_thin_Q()
    }

    /// Draws its weakest direction anew, the one that is found last and most often wrong. `None` where the values are too large or
    /// too small to compute with.
    pub(crate) fn draw_weakest(&mut self, rng: &mut ChaCha8Rng) -> Option<()> {
        let qr = self.right.qr();
        let covariance = qr.thin_R() * &self.covariance * qr.thin_R().transpose();
        let eigen = covariance.self_adjoint_eigen(Side::Lower).ok()?;
        let turned = qr.compute_thin_Q() * eigen.U();
        let (d, r) = (turned.nrows(), turned.ncols());
        // The strongest first, which those behind them do not alter.
        let drawn = Mat::from_fn(d, r, |i, k| match r - 1 - k {
            0 => rng.random_range(-1.0..1.0),
            from => turned[(i, from)],
        });
        self.right = drawn.qr().compute_thin_Q();
        let sizes = eigen.S().column_vector();
        self.covariance = Mat::from_fn(r, r, |j, k| if j == k { sizes[r - 1 - k] } else { 0.0 });
        self.noise *= WITHOUT_WEAKEST;
        Some(())
    }

    /// So many steps of expectation maximisation, or fewer where nothing is left to gain. `on_step` hears the error of an entry
    /// after each, and may end it. `None` where the values are too large or too small to compute with.
    pub(crate) fn improve(
        &mut self,
        steps: usize,
        on_step: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let r = self.right.ncols();
        let mut grams = product(self.weights.as_ref(), pairs(self.right.as_ref()).as_ref());
        for _ in 0..steps {
            // Of each row (V^T W_i V + e^2 C^-1)^-1, its distribution's covariance over e^2.
            let prior = Llt::new(self.covariance.as_ref(), Side::Lower).ok()?.inverse();
            for (column, (j, k)) in grams.col_iter_mut().zip(triangle(r)) {
                column.iter_mut().for_each(|value| *value += self.noise * prior[(j, k)]);
            }
            let spread = Inverses::new(grams.as_ref(), r)?;
            let left = spread.apply(product(self.weighted.as_ref(), self.right.as_ref()).as_ref());
            // E a_i a_i^T.
            let moments = pairs(left.as_ref()) + spread.packed() * faer::Scale(self.noise);
            let rows = moments.nrows() as f64;
            for (column, (j, k)) in moments.col_iter().zip(triangle(r)) {
                let mean = column.iter().sum::<f64>() / rows;
                (self.covariance[(j, k)], self.covariance[(k, j)]) = (mean, mean);
            }
            let columns = Inverses::new(product(self.weights.transpose(), moments.as_ref()).as_ref(), r)?;
            let crossed = product(self.weighted.transpose(), left.as_ref());
            self.right = columns.apply(crossed.as_ref());
            grams = product(self.weights.as_ref(), pairs(self.right.as_ref()).as_ref());
            // E sum w (z - a.v)^2.
            let square: f64 = moments
                .col_iter()
                .zip(grams.col_iter())
                .zip(triangle(r))
                .map(|((a, b), (j, k))| if k < j { 2.0 } else { 1.0 } * (a.transpose() * b))
                .sum();
            self.noise = (self.total - 2.0 * dot(&crossed, &self.right) + square) / self.weights.sum();
            if !self.noise.is_finite() {
                return None;
            }
            self.noise = self.noise.max(LEAST_ERROR * LEAST_ERROR);
            if on_step(self.noise.sqrt()).is_break() {
                return Some(ControlFlow::Break(()));
            }
            if self.noise <= LEAST_ERROR * LEAST_ERROR {
                break;
            }
        }
        Some(ControlFlow::Continue(()))
    }
}

/// Rows and columns of a lower triangle, in the order of [`pairs`].
fn triangle(r: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..r).flat_map(|j| (0..=j).map(move |k| (j, k)))
}

fn dot(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.col_iter().zip(b.col_iter()).map(|(a, b)| a.transpose() * b).sum()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const RANK: usize = 4;

    fn draw(rng: &mut ChaCha8Rng, rows: usize, columns: usize) -> Mat<f64> {
        Mat::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0))
    }

    /// Z of rank 4 with directions of sizes 1 to 1/27, V behind it, and weights that keep half of it.
    fn planted(seed: u64) -> (Mat<f64>, Mat<f64>, Mat<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let left = draw(&mut rng, 80, RANK);
        let right = draw(&mut rng, 40, RANK).qr().compute_thin_Q();
        let left = Mat::from_fn(80, RANK, |i, k| left[(i, k)] * 3f64.powi(-(k as i32)));
        let z = &left * right.transpose();
        let z = &z * faer::Scale((z.nrows() as f64 * z.ncols() as f64).sqrt() / z.norm_l2());
        let weights = Mat::from_fn(80, 40, |_, _| f64::from(u8::from(rng.random_bool(0.5))));
        (Mat::from_fn(80, 40, |i, j| z[(i, j)] * weights[(i, j)]), weights, right)
    }

    /// Length of what lies outside of a basis, of each column.
    fn outside(basis: &Mat<f64>, columns: &Mat<f64>) -> Vec<f64> {
        let left = columns - basis * (basis.transpose() * columns);
        left.col_iter().map(|column| column.norm_l2()).collect()
    }

    fn go_on(_: f64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn every_direction_is_found_from_nothing() {
        for seed in 0..5 {
            let (values, weights, right) = planted(seed);
            let start = draw(&mut ChaCha8Rng::seed_from_u64(99), 40, RANK).qr().compute_thin_Q();
            let mut likely = LikelyFactor::new(&values, &weights, start);
            let mut errors = Vec::new();
            let _ = likely.improve(400, &mut |error| {
                errors.push(error);
                go_on(error)
            });
            let left = outside(&likely.basis(), &right);
            assert!(left.iter().all(|&left| left < 1e-2), "seed {seed}: {left:?}");
            assert!(errors[errors.len() - 1] < 1e-3 * errors[0] && errors.len() <= 400, "{errors:?}");
        }
    }

    #[test]
    fn only_the_weakest_is_drawn_anew_and_is_found_again() {
        let (values, weights, right) = planted(7);
        let mut likely = LikelyFactor::new(&values, &weights, right.clone());
        assert!(likely.improve(400, &mut go_on).unwrap().is_continue());
        likely.draw_weakest(&mut ChaCha8Rng::seed_from_u64(1)).unwrap();
        let left = outside(&likely.basis(), &right);
        assert!(left[..RANK - 1].iter().all(|&left| left < 0.1) && left[RANK - 1] > 0.5, "{left:?}");
        let _ = likely.improve(400, &mut go_on);
        let left = outside(&likely.basis(), &right);
        assert!(left.iter().all(|&left| left < 1e-2), "{left:?}");
    }

    #[test]
    fn it_can_be_ended_and_says_what_it_cannot_compute() {
        let (values, weights, right) = planted(3);
        let mut likely = LikelyFactor::new(&values, &weights, right.clone());
        let mut heard = 0;
        let ended = likely.improve(100, &mut |_| {
            heard += 1;
            if heard == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((ended, heard), (Some(ControlFlow::Break(())), 3));
        let huge = &values * faer::Scale(1e200);
        assert_eq!(LikelyFactor::new(&huge, &weights, right).improve(3, &mut go_on), None);
    }
}
