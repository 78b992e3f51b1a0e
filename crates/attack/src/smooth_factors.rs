//! The likeliest row space of a low-rank matrix whose rows are neighbouring pixels, given its known entries.
//!
//! Z = A V^T plus noise of variance e^2. Each row v_d of V is normal with covariance B. A is a Gaussian Markov random
//! field: for neighbouring pixels a_l - a_m is normal (the membrane of Rue and Held 2005), with a covariance C that is
//! scaled by the similarity of the channels. Rows that are not pixels are normal with their own covariance.
//!
//! Variational Bayes (Bishop 1999; Ilin and Raiko 2010) treats both factors as distributions q(A) q(V) with a
//! covariance for each row, and chooses the likeliest B, C and e^2. A direction that few entries determine then stays
//! uncertain and cannot fit noise, which is where least squares gets stuck. Neighbours fill in what a pixel's own
//! entries leave open.

use std::ops::ControlFlow;

use faer::{
    Mat, MatRef, Side,
    linalg::solvers::{DenseSolveCore, Llt},
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::{
    conjugate_gradients::Solution,
    patch_prior::PixelGrid,
    small_matrices::{apply_packed, inner, invert_packed, multiply, pairs, product, triangle},
};

/// Error of an entry below which f32 leaves nothing to gain, relative to the entries' root mean square.
const LEAST_ERROR: f64 = 3e-7;
/// First e^2: a tenth of the entries' mean square.
const FIRST_NOISE: f64 = 0.1;
/// First e^2 if only faint directions of V are missing.
const RESUMED_NOISE: f64 = 1e-5;
/// First variance of the increment between neighbours, as a share of the entries' mean square.
const FIRST_INCREMENT: f64 = 0.05;
/// Step length towards the likeliest V for the current A (Salakhutdinov and Roweis 2003). With 1 the faint directions
/// take twice as many steps.
const OVER_RELAXATION: f64 = 1.8;
/// Conjugate gradient steps for the pixels of A, starting from the last A.
const PRODUCTS: usize = 3;

/// The two factors, improved step by step.
pub(crate) struct SmoothFactors {
    grid: PixelGrid,
    /// Z `[N, D]` times its weights, pixels first.
    weighted: Mat<f64>,
    weights: Mat<f64>,
    /// Weighted sum of squares of Z.
    total: f64,
    known: f64,
    /// Mean of A `[N, r]`.
    left: Mat<f64>,
    /// Mean of V `[D, r]`.
    right: Mat<f64>,
    /// Covariance of each row of V, packed `[D, r (r + 1) / 2]`.
    spread: Mat<f64>,
    priors: Priors,
    /// e^2.
    noise: f64,
}

/// Prior covariances `[r, r]` of the factors.
struct Priors {
    /// B, the covariance of a row of V.
    right: Mat<f64>,
    /// C, the covariance of the difference between neighbouring pixels in A.
    increments: Mat<f64>,
    /// Covariance of a row of A that is not a pixel.
    others: Mat<f64>,
}

impl Priors {
    /// Priors that give entries a variance of 1 if rows of V have variance 1.
    fn first(rank: usize) -> Self {
        let scaled = |size: f64| Mat::from_fn(rank, rank, |j, k| if j == k { size } else { 0.0 });
        let share = (rank as f64).recip();
        Self { right: scaled(1.0), increments: scaled(FIRST_INCREMENT * share), others: scaled(share) }
    }
}

impl SmoothFactors {
    /// Starts from a random V. `values` `[N, D]` have a root mean square of 1 where `weights` are not 0, and their
    /// first rows are the pixels of `grid`.
    pub(crate) fn new(
        values: &Mat<f64>,
        weights: Mat<f64>,
        grid: PixelGrid,
        rank: usize,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let (n, d) = (values.nrows(), values.ncols());
        let mut weighted = values.clone();
        multiply(&mut weighted, &weights);
        let total = inner(&weighted, values);
        let known = weights.col_iter().flat_map(|column| column.iter()).filter(|&&weight| weight > 0.0).count() as f64;
        Self {
            grid,
            weighted,
            weights,
            total,
            known,
            left: Mat::zeros(n, rank),
            right: Mat::from_fn(d, rank, |_, _| 3f64.sqrt() * rng.random_range(-1.0..1.0)),
            spread: Mat::zeros(d, rank * (rank + 1) / 2),
            priors: Priors::first(rank),
            noise: FIRST_NOISE,
        }
    }

    /// Continues from another V, given by an orthonormal basis `[D, r]`.
    pub(crate) fn resume(&mut self, basis: &Mat<f64>) {
        self.left.fill(0.0);
        self.right = basis * faer::Scale((basis.nrows() as f64).sqrt());
        self.spread.fill(0.0);
        self.priors = Priors::first(basis.ncols());
        self.noise = RESUMED_NOISE;
    }

    /// An orthonormal basis `[D, r]` of the row space.
    pub(crate) fn basis(&self) -> Mat<f64> {
        self.right.qr().compute_thin_Q()
    }

    /// Takes at most `steps` steps of coordinate ascent, and stops when nothing is left to gain. `on_step` receives the
    /// error of an entry before each step and may end the work. `None` if the values are too large or too small to
    /// compute with.
    pub(crate) fn improve(
        &mut self,
        steps: usize,
        on_step: &mut dyn FnMut(usize, f64) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let r = self.right.ncols();
        let mut grams = self.row_grams();
        for step in 0..steps {
            if on_step(step, self.noise.sqrt()).is_break() {
                return Some(ControlFlow::Break(()));
            }
            if self.noise <= LEAST_ERROR * LEAST_ERROR {
                break;
            }
            let spread = self.improve_left(&grams)?;
            // E a_i a_i^T.
            let moments = pairs(self.left.as_ref()) + &spread;
            self.improve_left_priors(&moments, &spread);
            let mut columns = product(self.weights.transpose(), moments.as_ref());
            add_to_rows(&mut columns, 0, &inverse(&self.priors.right)?, |_| self.noise);
            let columns = invert_packed(&columns, r)?;
            let crossed = product(self.weighted.transpose(), self.left.as_ref());
            let likeliest = apply_packed(&columns, &crossed);
            self.right += (likeliest - &self.right) * faer::Scale(OVER_RELAXATION);
            self.spread = columns * faer::Scale(self.noise);
            self.priors.right = mean_matrix((pairs(self.right.as_ref()) + &self.spread).as_ref(), r);
            grams = self.row_grams();
            // E sum w (z - a.v)^2.
            let square: f64 = (moments.col_iter().zip(grams.col_iter()).zip(triangle(r)))
                .map(|((a, b), (j, k))| if k < j { 2.0 } else { 1.0 } * (a.transpose() * b))
                .sum();
            self.noise = (self.total - 2.0 * inner(&crossed, &self.right) + square) / self.known;
            if !self.noise.is_finite() {
                return None;
            }
            self.noise = self.noise.max(LEAST_ERROR * LEAST_ERROR);
        }
        Some(ControlFlow::Continue(()))
    }

    /// sum_d w_id E v_d v_d^T of each row, packed.
    fn row_grams(&self) -> Mat<f64> {
        product(self.weights.as_ref(), (pairs(self.right.as_ref()) + &self.spread).as_ref())
    }

    /// Moves A to its mean for the current V, and returns the covariance of each row, packed.
    ///
    /// With M_i = sum_d w_id E v_d v_d^T, the mean of the pixels solves M_l a_l + e^2 C^-1 (Q A)_l = sum_d w_ld z_ld
    /// v_d, where Q is the precision of the field. The covariance of a row, given the others, is e^2 (M_l + e^2 Q_ll
    /// C^-1)^-1.
    fn improve_left(&mut self, grams: &Mat<f64>) -> Option<Mat<f64>> {
        let (pixels, r) = (self.grid.len(), self.right.ncols());
        let (increments, others) = (inverse(&self.priors.increments)?, inverse(&self.priors.others)?);
        let diagonal = self.grid.diagonal();
        let mut packed = grams.clone();
        add_to_rows(&mut packed, 0, &increments, |row| diagonal.get(row).map_or(0.0, |q| self.noise * q));
        add_to_rows(&mut packed, pixels, &others, |_| self.noise);
        let inverses = invert_packed(&packed, r)?;
        let wanted = product(self.weighted.as_ref(), self.right.as_ref());
        let mut start = self.left.clone();
        // Rows that are not pixels have no neighbours, so their mean is known directly.
        let alone = apply_packed(&inverses, &wanted);
        start.subrows_mut(pixels, start.nrows() - pixels).copy_from(alone.subrows(pixels, alone.nrows() - pixels));
        let neighbours =
            |x: &Mat<f64>| self.grid.precision(x.subrows(0, pixels)) * &increments * faer::Scale(self.noise);
        let apply = |x: &Mat<f64>| {
            let mut out = apply_packed(grams, x);
            let mut of_pixels = out.subrows_mut(0, pixels);
            of_pixels += neighbours(x);
            let mut of_others = out.subrows_mut(pixels, x.nrows() - pixels);
            of_others += x.subrows(pixels, x.nrows() - pixels) * &others * faer::Scale(self.noise);
            out
        };
        let solution = Solution { residual: wanted - apply(&start), x: start };
        let precondition = |x: &Mat<f64>| apply_packed(&inverses, x);
        let go_on = &mut || ControlFlow::Continue(());
        if let ControlFlow::Continue(Solution { x, .. }) = solution.improve(PRODUCTS, 0.0, &apply, &precondition, go_on)
        {
            self.left = x;
        }
        Some(inverses * faer::Scale(self.noise))
    }

    /// Sets C to the mean of the increments' second moments, sum_lm Q_lm E a_l a_m^T / L, and the other rows' prior to
    /// the mean of their own.
    fn improve_left_priors(&mut self, moments: &Mat<f64>, spread: &Mat<f64>) {
        let (pixels, r) = (self.grid.len(), self.right.ncols());
        let of_pixels = self.left.subrows(0, pixels);
        let mut increments = product(of_pixels.transpose(), self.grid.precision(of_pixels).as_ref());
        let diagonal = self.grid.diagonal();
        for (column, (j, k)) in spread.col_iter().zip(triangle(r)) {
            let own: f64 = column.iter().zip(&diagonal).map(|(spread, q)| spread * q).sum();
            increments[(j, k)] += own;
            if k < j {
                increments[(k, j)] += own;
            }
        }
        self.priors.increments = increments * faer::Scale((pixels as f64).recip());
        self.priors.others = mean_matrix(moments.subrows(pixels, moments.nrows() - pixels), r);
    }
}

/// Adds `scale(row)` times a symmetric matrix to each packed one from `first` on.
fn add_to_rows(packed: &mut Mat<f64>, first: usize, matrix: &Mat<f64>, scale: impl Fn(usize) -> f64) {
    for (column, (j, k)) in packed.col_iter_mut().zip(triangle(matrix.ncols())) {
        let value = matrix[(j, k)];
        column.iter_mut().enumerate().skip(first).for_each(|(row, to)| *to += scale(row) * value);
    }
}

/// The mean of packed symmetric matrices `[n, r (r + 1) / 2]`.
fn mean_matrix(packed: MatRef<'_, f64>, r: usize) -> Mat<f64> {
    let mut mean = Mat::zeros(r, r);
    for (column, (j, k)) in packed.col_iter().zip(triangle(r)) {
        let value = column.iter().sum::<f64>() / packed.nrows() as f64;
        (mean[(j, k)], mean[(k, j)]) = (value, value);
    }
    mean
}

fn inverse(matrix: &Mat<f64>) -> Option<Mat<f64>> {
    Some(Llt::new(matrix.as_ref(), Side::Lower).ok()?.inverse())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const RANK: usize = 4;
    const COLUMNS: usize = 40;
    /// Rows that are not pixels.
    const OTHERS: usize = 5;

    fn grid() -> PixelGrid {
        PixelGrid::new(6, 1)
    }

    fn draw(rng: &mut ChaCha8Rng, rows: usize, columns: usize) -> Mat<f64> {
        Mat::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0))
    }

    /// Z of rank 4, weights that keep `share` of it, and its V. Each direction is a wave over the pixels, fainter than
    /// the last.
    fn planted(seed: u64, share: f64) -> (Mat<f64>, Mat<f64>, Mat<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let right = draw(&mut rng, COLUMNS, RANK).qr().compute_thin_Q();
        let (waves, others) = (draw(&mut rng, 3, RANK), draw(&mut rng, OTHERS, RANK));
        let places: Vec<usize> = grid().pixels().collect();
        let left = Mat::from_fn(places.len() + OTHERS, RANK, |row, k| {
            let value = match places.get(row) {
                Some(place) => {
                    let (y, x) = (place / 6 % 6, place % 6);
                    (waves[(0, k)] * y as f64 + waves[(1, k)] * x as f64 + 3.0 * waves[(2, k)]).cos()
                }
                None => others[(row - places.len(), k)],
            };
            value * 4f64.powi(-(k as i32))
        });
        let z = &left * right.transpose();
        let z = &z * faer::Scale((z.nrows() as f64 * z.ncols() as f64).sqrt() / z.norm_l2());
        let weights = Mat::from_fn(z.nrows(), COLUMNS, |_, _| f64::from(u8::from(rng.random_bool(share))));
        (z, weights, right)
    }

    fn factors(z: &Mat<f64>, weights: &Mat<f64>) -> SmoothFactors {
        let mut values = z.clone();
        multiply(&mut values, weights);
        SmoothFactors::new(&values, weights.clone(), grid(), RANK, &mut ChaCha8Rng::seed_from_u64(99))
    }

    fn go_on(_: usize, _: f64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn every_direction_is_found_from_nothing() {
        for seed in 0..5 {
            let (z, weights, right) = planted(seed, 0.4);
            let mut smooth = factors(&z, &weights);
            let mut errors = Vec::new();
            let _ = smooth.improve(200, &mut |step, error| {
                assert_eq!(step, errors.len());
                errors.push(error);
                go_on(step, error)
            });
            let left = outside(&smooth.basis(), &right);
            assert!(left.iter().all(|&left| left < 1e-2), "seed {seed}: {left:?}");
            assert!(errors[errors.len() - 1] < 1e-3 * errors[0] && errors.len() <= 200, "{errors:?}");
        }
    }

    /// Length of each column outside a basis.
    fn outside(basis: &Mat<f64>, columns: &Mat<f64>) -> Vec<f64> {
        let left = columns - basis * (basis.transpose() * columns);
        left.col_iter().map(|column| column.norm_l2()).collect()
    }

    /// Resuming from a basis that lacks the faintest direction takes fewer steps than a fresh start.
    #[test]
    fn it_resumes_where_others_were_stuck() {
        let (z, weights, right) = planted(2, 0.4);
        let strays = draw(&mut ChaCha8Rng::seed_from_u64(5), COLUMNS, 1);
        let stuck = Mat::from_fn(COLUMNS, RANK, |i, k| if k + 1 < RANK { right[(i, k)] } else { strays[(i, 0)] });
        let stuck = stuck.qr().compute_thin_Q();
        assert!(outside(&stuck, &right)[RANK - 1] > 0.9);
        let (mut resumed, mut anew) = (factors(&z, &weights), factors(&z, &weights));
        resumed.resume(&stuck);
        let found = |smooth: &mut SmoothFactors| {
            let _ = smooth.improve(20, &mut go_on);
            outside(&smooth.basis(), &right)[RANK - 1]
        };
        let (resumed, anew) = (found(&mut resumed), found(&mut anew));
        assert!(resumed < 1e-2 && anew > 1e-2, "{resumed} {anew}");
    }

    /// A pixel with no known entries resembles its neighbours, as does one with fewer entries than unknowns.
    #[test]
    fn neighbours_tell_what_a_pixel_hides() {
        let (z, mut weights, _) = planted(7, 0.5);
        let hidden = [(14, 0), (50, 2)];
        for (row, known) in hidden {
            (known..COLUMNS).for_each(|column| weights[(row, column)] = 0.0);
        }
        let mut smooth = factors(&z, &weights);
        let _ = smooth.improve(100, &mut go_on);
        let made = &smooth.left * smooth.right.transpose();
        for (row, known) in hidden {
            let error = (made.row(row) - z.row(row)).norm_l2() / z.row(row).norm_l2();
            assert!(error < 0.2, "{known} known: {error}");
        }
    }

    #[test]
    fn it_can_be_ended_and_says_what_it_cannot_compute() {
        let (z, weights, _) = planted(3, 0.5);
        let mut heard = 0;
        let ended = factors(&z, &weights).improve(100, &mut |_, _| {
            heard += 1;
            if heard == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((ended, heard), (Some(ControlFlow::Break(())), 3));
        let huge = &z * faer::Scale(1e200);
        assert_eq!(factors(&huge, &weights).improve(3, &mut go_on), None);
    }
}
