//! Completion of a low-rank matrix from its known entries.
//!
//! Z = A V^T with A `[N, r]` and V `[D, r]` orthonormal. For a given V each row of A is a small least squares problem,
//! so only V is searched for (variable projection, Golub and Pereyra 1973). With P_i the projector onto what V's known
//! rows cannot explain of row i, the search minimises f(V) = sum_i ||P_i z_i||^2 / 2. It uses Levenberg-Marquardt with
//! Kaufman's Jacobian (1975), which needs only products with H: X -> sum_i P_i X a_i a_i^T, and solves for each step by
//! conjugate gradients. Boumal and Absil's RTRMC (2011) minimises the same function.

use std::ops::ControlFlow;

use faer::{Accum, Mat, MatRef, Par, Side, linalg::matmul::matmul};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    conjugate_gradients::Solution,
    observed::Observed,
    small_matrices::{apply_packed, inner, invert_packed, multiply, pairs, product},
};
use smooth_start::SmoothStart;

mod smooth_start;

/// One in this many known entries is held out for validation.
const HELD_OUT: usize = 40;
/// Number of entries that a small matrix holds out instead, if it has enough.
const FEWEST_HELD_OUT: usize = 30;
/// Relative misfit below which nothing is left to explain.
const FLOOR: f64 = 1e-13;
/// Held-out error at which f32 data leave nothing more to find. Measured with 60 masks of R = 0.5 on gradients of
/// `vit_nano_patch8_32`, all recovered at 76 dB or more: 1e-7 to 7e-7 for 53 of them, 2e-6 to 5e-6 for dark pictures.
/// f64 gradients give at most 1e-11.
const FOUND: f64 = 6e-6;
/// Factor within which two held-out errors count as equal. A reweighted search that returns to the same error had
/// converged. The factor is chosen, not measured: a hundred or more held-out entries determine the noise to about a
/// tenth, and reweighting moves a local minimum by more.
const SAME: f64 = 2.0;
/// Held-out error above which a search has not converged. Most stuck searches leave 1e-3 to 1, and those that lack one
/// faint direction leave 1e-5 or more.
const PLAUSIBLE: f64 = 1e-3;
/// Ratio of held-out to fitted error above which a search has overfitted. Measured on differences of weights at R =
/// 0.5, where noise is the limit: 4 to 25. In local minima on f64 gradients at R = 0.8: 90 to 500.
const OVERFITTED: f64 = 30.0;
/// Misfit of the fitted entries up to which a high ratio is only f32 rounding. With few entries for each unknown,
/// rounding is amplified a hundredfold in the held-out ones. Local minima left at least 8e-7.
const ROUNDING: f64 = 2e-7;
/// Share of the misfit below which a step's gain is small.
const SMALL_GAIN: f64 = 0.02;
/// Number of consecutive small steps that ends a search.
const SMALL_STEPS: usize = 3;
/// Damping above which steps are too short to matter.
const MOST_DAMPING: f64 = 1e4;
/// Equations for each unknown in a search. More only take time.
const EQUATIONS: usize = 6;
/// Entries of each column for each unknown of its row of V. A column without entries would be arbitrary.
const ENTRIES: usize = 4;
/// Alternations between scaling the rows and the columns.
const SCALINGS: usize = 3;
/// Steps towards the likeliest start before the first search.
const FIRST_SMOOTH_STEPS: usize = 100;
/// The same if at least [`WELL_KNOWN`] entries are known for each unknown.
const FEW_SMOOTH_STEPS: usize = 40;
const WELL_KNOWN: f64 = 2.0;
/// Share to which conjugate gradients reduce the squared residual of a step.
const STEP_SHARE: f64 = 1e-4;
/// Final steps with all known entries, once V is found.
const LAST_STEPS: usize = 8;
/// Least importance of rows and columns in the final steps. By then everything is exact except for rounding and should
/// count equally, but full importance for all doubles the products in each step.
const LAST_IMPORTANCE: f64 = 0.1;
/// First damping of the final steps, which start close to the solution.
const LAST_DAMPING: f64 = 1e-3;
/// Damping of the first step of a search.
const FIRST_DAMPING: f64 = 1.0;
/// A reweighted search draws the weights of rows and columns between this and 1.
const LEAST_WEIGHT: f64 = 0.01;

/// Why a matrix cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LowRankError {
    /// Known entries for each unknown of the factors. Below 1 they do not determine the factors.
    TooFewKnown { ratio: f64 },
    /// A matrix of this size has full rank at `rank`, so its known entries say nothing about the others.
    FullRank { rank: usize, rows: usize, columns: usize },
    /// Values too large or small to compute with.
    Unsolvable,
}

/// A matrix of rank r that agrees with the known entries.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    /// A `[N, r]`, with NaN in rows that have fewer than r known entries.
    pub(crate) left: Mat<f64>,
    /// V `[D, r]`, orthonormal.
    pub(crate) right: Mat<f64>,
    /// Root mean square error of the held-out entries relative to their size, with all rows and columns scaled to the
    /// same size. It is about the data's rounding if the matrix was found, and 1e-5 to 1 if the search is stuck or the
    /// rank is wrong. Infinite if no entry could be held out.
    pub(crate) held_out: f64,
    /// Whether noise, not a local minimum, limits that error: it is as small as f32 allows, or it stayed the same when
    /// rows and columns were reweighted.
    pub(crate) is_settled: bool,
    /// Whether `on_step` ended the search before it settled or ran out of attempts.
    pub(crate) is_cut: bool,
}

/// Receives the number of steps done in all searches and the share of the known entries that is unexplained. It is
/// called before each step and before each product with H, which takes seconds on large models, and may end the search.
pub(crate) type OnStep<'a> = &'a mut dyn FnMut(usize, f64) -> ControlFlow<()>;

/// Where to search from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start<'a> {
    /// A matrix `[any, D]`. The search starts from the r strongest directions among its rows.
    pub(crate) guess: Option<&'a Mat<f64>>,
    /// Rows or columns that are neighbouring pixels. Without a guess the search starts from the likeliest factors of a
    /// photograph. Without either it starts from the known entries, with zeros elsewhere.
    pub(crate) pixels: Option<Pixels>,
    /// Importance of each of the N rows in the search for V, or equal importance for all. A row that resembles no other
    /// should count little: it would claim a direction of V for itself and leave its hidden entries arbitrary.
    pub(crate) importance: Option<&'a [f64]>,
    /// Importance of each of the D columns.
    pub(crate) column_importance: Option<&'a [f64]>,
}

impl Start<'_> {
    fn importance(&self, row: usize, column: usize) -> f64 {
        let of = |importance: Option<&[f64]>, at: usize| importance.map_or(1.0, |importance| importance[at]);
        of(self.importance, row) * of(self.column_importance, column)
    }
}

/// The first rows or columns of a matrix as pixels of a patch `[3, side, side]`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pixels {
    Rows { side: usize },
    Columns { side: usize },
}

/// How hard to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Number of searches. The first starts from the guess. The others reweight rows and columns where the last one got
    /// stuck, or use a likelier start.
    pub(crate) searches: usize,
    /// Steps towards the likeliest start before a search that uses one. The first search may take fewer.
    pub(crate) smooth_steps: usize,
    /// Steps of one search.
    pub(crate) steps: usize,
    /// Products with H in each step.
    pub(crate) products: usize,
}

impl Effort {
    pub(crate) fn most_steps(self) -> usize {
        self.searches * self.steps_of_search()
    }

    fn steps_of_search(self) -> usize {
        self.smooth_steps + self.steps
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self { searches: 10, smooth_steps: 100, steps: 60, products: 100 }
    }
}

/// Known entries for each unknown, over the rows with more than `rank` entries. The other rows say nothing about V.
///
/// For n such rows with |K_i| known entries each it is sum |K_i| / (r (n + D - r)).
pub(crate) fn known_per_unknown(known: &Observed, rank: usize) -> f64 {
    known_entries_per_unknown(&known.weights, rank)
}

fn known_entries_per_unknown(weights: &Mat<f64>, rank: usize) -> f64 {
    let rows: Vec<usize> = row_counts(weights).into_iter().filter(|&count| count > rank).collect();
    let unknowns = rank * (rows.len() + weights.ncols()).saturating_sub(rank);
    rows.iter().sum::<usize>() as f64 / unknowns.max(1) as f64
}

fn row_counts(weights: &Mat<f64>) -> Vec<usize> {
    let mut counts = vec![0; weights.nrows()];
    for column in weights.col_iter() {
        for (count, &weight) in counts.iter_mut().zip(column.iter()) {
            *count += usize::from(weight > 0.0);
        }
    }
    counts
}

/// Completes a matrix `[N, D]` of rank r from its known entries. The shorter side should be the columns, because the
/// search has r (D - r) unknowns.
///
/// The objective has local minima in which a direction of V serves a single row or column. A stuck search is followed
/// by one from a likelier start, [`SmoothStart`], if rows or columns are pixels. The solution is a minimum for all
/// weights of rows and columns, but a local minimum is not. A search that seems to have converged is therefore repeated
/// with other weights. This goes on until the held-out entries are predicted or `on_step` ends it, and the best result
/// so far is returned. A result is not proof: see [`Completion::held_out`].
///
/// # Errors
/// [`LowRankError`]: too few entries are known or the rank is too high, both checked before any computation, or the
/// values overflow f64.
pub(crate) fn complete(
    known: &Observed,
    rank: usize,
    start: Start<'_>,
    effort: Effort,
    on_step: OnStep<'_>,
) -> Result<Completion, LowRankError> {
    let (rows, columns) = (known.nrows(), known.ncols());
    if rank == 0 || rank >= rows.min(columns) {
        return Err(LowRankError::FullRank { rank, rows, columns });
    }
    let ratio = known_per_unknown(known, rank);
    if ratio < 1.0 {
        return Err(LowRankError::TooFewKnown { ratio });
    }
    let whole = Problem::new(known, rank);
    let Found { right, held_out, is_settled, is_cut } =
        whole.find(start, effort, on_step).ok_or(LowRankError::Unsolvable)?;
    let last = Effort { steps: if is_cut { 0 } else { LAST_STEPS }, ..effort };
    let mut on_last = |_, misfit| on_step(effort.most_steps(), misfit);
    let all: Vec<usize> = (0..rows).collect();
    let weighed = whole.with(&all, |i, j| whole.weights[(i, j)] * start.importance(i, j).max(LAST_IMPORTANCE));
    let (point, _) = weighed.search(right, last, LAST_DAMPING, &mut on_last).ok_or(LowRankError::Unsolvable)?;
    let (left, right) = whole.unscaled(&point);
    Ok(Completion { left, right, held_out, is_settled, is_cut })
}

/// An orthonormal basis `[D, r]` of the r strongest directions among a matrix's rows.
fn row_space(matrix: MatRef<'_, f64>, rank: usize) -> Option<Mat<f64>> {
    // The Gram matrix is small, and a start does not need weak directions exactly.
    let gram = product(matrix.transpose(), matrix);
    let eigen = gram.self_adjoint_eigen(Side::Lower).ok()?;
    // Eigenvalues ascend.
    Some(eigen.U().subcols(gram.ncols() - rank, rank).to_owned())
}

/// The known entries, with rows and columns scaled to a root mean square of 1.
#[derive(Clone)]
struct Problem {
    rank: usize,
    /// `[N, D]`, 0 where unknown.
    values: Mat<f64>,
    /// `[N, D]`, 0 where unknown.
    weights: Mat<f64>,
    /// What each row was divided by.
    rows: Vec<f64>,
    /// What each column was divided by.
    columns: Vec<f64>,
}

/// V and everything that follows from it.
struct Point {
    /// V `[D, r]`.
    right: Mat<f64>,
    /// A `[N, r]`.
    left: Mat<f64>,
    /// (V^T W_i V)^-1 for each row, packed.
    inverse_grams: Mat<f64>,
    /// W o (Z - A V^T) `[N, D]`.
    residual: Mat<f64>,
    /// Weighted sum of squares of Z - A V^T.
    objective: f64,
}

struct Found {
    right: Mat<f64>,
    held_out: f64,
    is_settled: bool,
    is_cut: bool,
}

impl Problem {
    fn new(known: &Observed, rank: usize) -> Self {
        let (mut values, mut weights) = (known.values.clone(), known.weights.clone());
        // Any V explains a row with fewer than r entries, with a large A if V is small there. Such rows would mislead
        // the search.
        for (row, &count) in row_counts(&weights).iter().enumerate() {
            if count < rank {
                values.row_mut(row).fill(0.0);
                weights.row_mut(row).fill(0.0);
            }
        }
        let (mut rows, mut columns) = (vec![1.0; values.nrows()], vec![1.0; values.ncols()]);
        let per_row = row_counts(&weights);
        let per_column = row_counts(&weights.transpose().to_owned());
        for _ in 0..SCALINGS {
            let mut sizes = vec![0.0; rows.len()];
            for column in values.col_iter() {
                sizes.iter_mut().zip(column.iter()).for_each(|(size, value)| *size += value * value);
            }
            for ((scale, size), &count) in rows.iter_mut().zip(&mut sizes).zip(&per_row) {
                *size = if *size > 0.0 { (*size / count as f64).sqrt() } else { 1.0 };
                *scale *= *size;
            }
            for (j, column) in values.col_iter_mut().enumerate() {
                let mut square = 0.0;
                let mut column = column;
                for (value, size) in column.as_mut().iter_mut().zip(&sizes) {
                    *value /= size;
                    square += *value * *value;
                }
                let size = if square > 0.0 { (square / per_column[j] as f64).sqrt() } else { 1.0 };
                columns[j] *= size;
                column.iter_mut().for_each(|value| *value /= size);
            }
        }
        Self { rank, values, weights, rows, columns }
    }

    /// The factors of the unscaled matrix, with V orthonormal again.
    fn unscaled(&self, point: &Point) -> (Mat<f64>, Mat<f64>) {
        let scaled = Mat::from_fn(self.columns.len(), self.rank, |j, k| self.columns[j] * point.right[(j, k)]);
        let qr = scaled.qr();
        let mut left = &point.left * qr.thin_R().transpose();
        for (row, &count) in row_counts(&self.weights).iter().enumerate() {
            let scale = if count < self.rank { f64::NAN } else { self.rows[row] };
            left.row_mut(row).iter_mut().for_each(|value| *value *= scale);
        }
        (left, qr.compute_thin_Q())
    }

    /// A problem with the given rows, the same values and other weights.
    fn with(&self, rows: &[usize], weight: impl Fn(usize, usize) -> f64) -> Self {
        let (n, d) = (rows.len(), self.columns.len());
        let weights = Mat::from_fn(n, d, |i, j| weight(rows[i], j));
        let values = Mat::from_fn(n, d, |i, j| if weights[(i, j)] > 0.0 { self.values[(rows[i], j)] } else { 0.0 });
        let scales = rows.iter().map(|&row| self.rows[row]).collect();
        Self { rank: self.rank, values, weights, rows: scales, columns: self.columns.clone() }
    }

    /// Weights `[N, D]` of the held-out entries, 0 for all others. Only rows and columns with entries to spare lose
    /// any.
    fn held_out(&self, rng: &mut ChaCha8Rng) -> Mat<f64> {
        let mut per_row = row_counts(&self.weights);
        let mut per_column = row_counts(&self.weights.transpose().to_owned());
        let known: usize = per_row.iter().sum();
        let one_in = (known / FEWEST_HELD_OUT).clamp(2, HELD_OUT);
        let mut held = Mat::zeros(self.weights.nrows(), self.weights.ncols());
        for (j, spare) in per_column.iter_mut().enumerate() {
            for (i, spare_in_row) in per_row.iter_mut().enumerate() {
                let is_spare = self.weights[(i, j)] > 0.0 && *spare > self.rank + 1 && *spare_in_row > self.rank + 1;
                if is_spare && rng.random_range(0..one_in) == 0 {
                    held[(i, j)] = self.weights[(i, j)];
                    *spare -= 1;
                    *spare_in_row -= 1;
                }
            }
        }
        held
    }

    /// Finds the V that best predicts the held-out entries.
    fn find(&self, start: Start<'_>, effort: Effort, on_step: OnStep<'_>) -> Option<Found> {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let (n, d) = (self.rows.len(), self.columns.len());
        let held = self.held_out(&mut rng);
        let seen = |i: usize, j: usize| self.weights[(i, j)] - held[(i, j)];
        let all: Vec<usize> = (0..n).collect();
        let judge = self.with(&all, seen);
        let pixels = start.pixels.filter(|_| start.guess.is_none());
        let mut smooth = pixels.map(|pixels| SmoothStart::new(&judge, pixels, &mut rng));
        let mut rows = smooth.as_ref().map_or_else(|| judge.enough_rows(), SmoothStart::rows);
        let mut right = match start.guess {
            Some(guess) => {
                let scaled = Mat::from_fn(guess.nrows(), d, |i, j| guess[(i, j)] / self.columns[j]);
                row_space(scaled.as_ref(), self.rank)
            }
            None => None,
        };
        let mut problem = judge.with(&rows, |i, j| seen(i, j) * start.importance(i, j));
        let mut best: Option<Found> = None;
        let (mut last, mut is_weighed_anew) = (f64::INFINITY, false);
        for search in 0..effort.searches {
            let before = search * effort.steps_of_search();
            let mut flow = ControlFlow::Continue(());
            if let Some(smooth) = smooth.as_mut().filter(|_| !is_weighed_anew) {
                let steps = if search > 0 { effort.smooth_steps } else { self.first_smooth_steps(effort) };
                let improved = smooth.improve(steps, &mut |step, error| on_step(before + step, error.min(1.0)));
                if let Some((likeliest, flow_of_start)) = improved {
                    (right, flow) = (Some(likeliest), flow_of_start);
                }
            }
            let before = before + effort.smooth_steps;
            let steps = if flow.is_continue() { effort.steps } else { 0 };
            let found = right.take().or_else(|| row_space(judge.values.as_ref(), self.rank)).and_then(|right| {
                let on_step = &mut |step, misfit| on_step(before + step, misfit);
                let (point, flow) = problem.search(right, Effort { steps, ..effort }, FIRST_DAMPING, on_step)?;
                let error = self.error(&judge.at(point.right.clone())?, &held).unwrap_or(f64::INFINITY);
                Some((point, flow, error))
            });
            // Overflow in a later search does not discard an earlier result.
            let Some((point, of_search, error)) = found else { return best };
            let misfit = (point.objective / problem.weights.sum()).sqrt();
            let is_same = error <= SAME * last && last <= SAME * error;
            let is_noise = error <= OVERFITTED * misfit || misfit <= ROUNDING;
            let is_settled = error <= FOUND || (error <= PLAUSIBLE && is_weighed_anew && is_same && is_noise);
            if is_settled || best.as_ref().is_none_or(|best| error < best.held_out) {
                best = Some(Found { right: point.right.clone(), held_out: error, is_settled, is_cut: false });
            }
            if is_settled {
                break;
            }
            if flow.is_break() || of_search.is_break() {
                return best.map(|best| Found { is_cut: true, ..best });
            }
            last = error;
            is_weighed_anew = smooth.is_none() || (error <= PLAUSIBLE && !is_weighed_anew);
            let (mut by_row, mut by_column) = (vec![1.0; n], vec![1.0; d]);
            if is_weighed_anew {
                by_row
                    .iter_mut()
                    .chain(&mut by_column)
                    .for_each(|by| *by = LEAST_WEIGHT.powf(rng.random_range(0.0..1.0)));
            } else if let Some(smooth) = &mut smooth {
                if !smooth.refine(&mut rng) && search % 2 == 1 {
                    smooth.resume(&point);
                }
                rows = smooth.rows();
            }
            right = Some(point.right);
            problem = judge.with(&rows, |i, j| seen(i, j) * start.importance(i, j) * by_row[i] * by_column[j]);
        }
        best
    }

    fn first_smooth_steps(&self, effort: Effort) -> usize {
        let is_well_known = known_entries_per_unknown(&self.weights, self.rank) >= WELL_KNOWN;
        (if is_well_known { FEW_SMOOTH_STEPS } else { FIRST_SMOOTH_STEPS }).min(effort.smooth_steps)
    }

    /// Evenly spread rows with at least [`EQUATIONS`] equations for each unknown of V and at least [`ENTRIES`] entries
    /// of each column for each unknown of its row of V; all rows if that is impossible.
    fn enough_rows(&self) -> Vec<usize> {
        let equations: usize = row_counts(&self.weights).iter().map(|count| count.saturating_sub(self.rank)).sum();
        let needed = EQUATIONS * self.rank * (self.columns.len() - self.rank);
        let n = self.rows.len();
        let mut stride = (equations / needed.max(1)).clamp(1, n);
        let every = |stride: usize| (0..n).step_by(stride).collect::<Vec<usize>>();
        while stride > 1 && !self.is_determined_by(&every(stride), EQUATIONS, ENTRIES) {
            stride -= 1;
        }
        every(stride)
    }

    /// Whether `rows` have at least `equations` equations for each unknown of V and `entries` entries of each column
    /// for each unknown of its row of V.
    fn is_determined_by(&self, rows: &[usize], equations: usize, entries: usize) -> bool {
        let mut per_row = vec![0usize; rows.len()];
        let has_entries = self.weights.col_iter().all(|column| {
            let mut count = 0;
            for (of_row, &row) in per_row.iter_mut().zip(rows) {
                let is_known = usize::from(column[row] > 0.0);
                *of_row += is_known;
                count += is_known;
            }
            count >= entries * self.rank
        });
        let of_rows: usize = per_row.iter().map(|count| count.saturating_sub(self.rank)).sum();
        has_entries && of_rows >= equations * self.rank * (self.columns.len() - self.rank)
    }

    fn at(&self, right: Mat<f64>) -> Option<Point> {
        let grams = product(self.weights.as_ref(), pairs(right.as_ref()).as_ref());
        let inverse_grams = invert_packed(&grams, self.rank)?;
        let mut weighted = self.values.clone();
        multiply(&mut weighted, &self.weights);
        let left = apply_packed(&inverse_grams, &product(weighted.as_ref(), right.as_ref()));
        let mut residual = self.values.clone();
        matmul(residual.as_mut(), Accum::Add, left.as_ref(), right.transpose(), -1.0, Par::Seq);
        let mut objective = 0.0;
        for j in 0..residual.ncols() {
            for (value, &weight) in residual.col_as_slice_mut(j).iter_mut().zip(self.weights.col_as_slice(j)) {
                objective += weight * *value * *value;
                *value *= weight;
            }
        }
        objective.is_finite().then_some(Point { right, left, inverse_grams, residual, objective })
    }

    /// Runs Levenberg-Marquardt from V until the gain is small or `on_step` ends it.
    fn search(
        &self,
        right: Mat<f64>,
        effort: Effort,
        first_damping: f64,
        on_step: OnStep<'_>,
    ) -> Option<(Point, ControlFlow<()>)> {
        // The values are scaled to a root mean square of 1, so this is their sum of squares.
        let all = self.weights.sum();
        let floor = FLOOR * FLOOR * all;
        let mut point = self.at(right)?;
        let (mut damping, mut growth, mut small) = (first_damping, 4.0, 0);
        for step in 0..effort.steps {
            if point.objective <= floor || small == SMALL_STEPS || damping > MOST_DAMPING {
                break;
            }
            let misfit = (point.objective / all).sqrt();
            let next = self.step(&point, damping, effort.products, &mut || on_step(step, misfit))?;
            let ControlFlow::Continue((next, predicted)) = next else {
                return Some((point, ControlFlow::Break(())));
            };
            let gain = point.objective - next.objective;
            let share = gain / predicted;
            if share > 0.0 {
                small = if gain < SMALL_GAIN * point.objective { small + 1 } else { 0 };
                damping = (damping * (1.0 - (2.0 * share - 1.0).powi(3)).clamp(0.2, 2.0)).max(1e-9);
                growth = 4.0;
                point = next;
            } else {
                damping *= growth;
                growth *= 4.0;
            }
        }
        Some((point, ControlFlow::Continue(())))
    }

    /// Solves (H + damping C) X = -gradient, where C is H without its projectors. Returns the new point and the
    /// predicted fall of the objective. `go_on` is asked before each product with H and may end the step.
    fn step(
        &self,
        point: &Point,
        damping: f64,
        products: usize,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Option<ControlFlow<(), (Point, f64)>> {
        let (a, v) = (point.left.as_ref(), point.right.as_ref());
        let packed = product(self.weights.transpose(), pairs(a).as_ref());
        let inverses = invert_packed(&packed, self.rank)?;
        let damped = |x: &Mat<f64>| apply_packed(&packed, x);
        let project = |mut x: Mat<f64>| {
            let along = product(v.transpose(), x.as_ref());
            matmul(x.as_mut(), Accum::Add, v, along.as_ref(), -1.0, Par::Seq);
            x
        };
        let hessian = |x: &Mat<f64>| {
            let mut t = product(a, x.transpose());
            multiply(&mut t, &self.weights);
            let q = apply_packed(&point.inverse_grams, &product(t.as_ref(), v));
            let mut explained = product(q.as_ref(), v.transpose());
            multiply(&mut explained, &self.weights);
            t -= explained;
            let mut out = product(t.transpose(), a);
            out += damped(x) * faer::Scale(damping);
            project(out)
        };
        let precondition = |x: &Mat<f64>| project(apply_packed(&inverses, x) * faer::Scale(1.0 / (1.0 + damping)));
        let gradient = project(product(point.residual.transpose(), a));
        let solution = Solution { x: Mat::zeros(v.nrows(), self.rank), residual: gradient.clone() };
        let ControlFlow::Continue(Solution { x, residual }) =
            solution.improve(products, STEP_SHARE, &hessian, &precondition, go_on)
        else {
            return Some(ControlFlow::Break(()));
        };
        // f falls by 2 g.x - x.H x, and (H + damping C) x = g - r.
        let predicted = inner(&x, &(&gradient + &residual)) + damping * inner(&x, &damped(&x));
        let moved = v + x;
        let right = moved.qr().compute_thin_Q();
        Some(ControlFlow::Continue((self.at(right)?, predicted)))
    }

    /// Root mean square error at the entries with `weights`, relative to their values; `None` if there are none.
    fn error(&self, point: &Point, weights: &Mat<f64>) -> Option<f64> {
        let made = product(point.left.as_ref(), point.right.transpose());
        let (mut error, mut size) = (0.0, 0.0);
        for j in 0..made.ncols() {
            for i in 0..made.nrows() {
                let (value, weight) = (self.values[(i, j)], weights[(i, j)]);
                error += weight * (value - made[(i, j)]).powi(2);
                size += weight * value * value;
            }
        }
        let ratio = (error / size).sqrt();
        ratio.is_finite().then_some(ratio)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn complete(known: &Observed, rank: usize, effort: Effort) -> Result<Completion, LowRankError> {
        super::complete(known, rank, Start::default(), effort, &mut |_, _| ControlFlow::Continue(()))
    }

    /// A matrix of rank r with rows and columns of different sizes, and a mask that keeps each entry with probability
    /// `share`.
    fn planted(n: usize, d: usize, rank: usize, share: f64, seed: u64) -> (Mat<f64>, Observed) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |rows, columns| Mat::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0));
        let (left, right): (Mat<f64>, Mat<f64>) = (draw(n, rank), draw(d, rank));
        let sizes = draw(n + d, 1);
        let size = |i: usize| 10f64.powf(sizes[(i, 0)]);
        let z = Mat::from_fn(n, d, |i, j| size(i) * size(n + j) * (left.row(i) * right.row(j).transpose()));
        let weights = Mat::from_fn(n, d, |_, _| f64::from(u8::from(rng.random_bool(share))));
        let values = Mat::from_fn(n, d, |i, j| z[(i, j)] * weights[(i, j)]);
        (z, Observed { values, weights })
    }

    fn fewest(known: &Observed) -> usize {
        let columns = row_counts(&known.weights.transpose().to_owned());
        row_counts(&known.weights).into_iter().chain(columns).min().unwrap()
    }

    fn distance(completed: &Completion, z: &Mat<f64>) -> f64 {
        let made = &completed.left * completed.right.transpose();
        (0..z.nrows()).map(|i| (made.row(i) - z.row(i)).norm_l2() / z.row(i).norm_l2()).fold(0.0, f64::max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn planted_masks_are_undone(n in 30usize..60, d in 24usize..40, rank in 1usize..5, share in 0.5..0.9, seed: u64) {
            let (z, known) = planted(n, d, rank, share, seed);
            prop_assume!(fewest(&known) >= rank + 6 && known_per_unknown(&known, rank) > 2.0);
            let completed = complete(&known, rank, Effort::default()).unwrap();
            prop_assert!(completed.is_settled && completed.held_out < 1e-8, "held out {:e}", completed.held_out);
            prop_assert!(distance(&completed, &z) < 1e-6, "{:e}", distance(&completed, &z));
            let gram = completed.right.transpose() * &completed.right;
            prop_assert!((gram - Mat::<f64>::identity(rank, rank)).norm_l2() < 1e-12);
        }

        /// A search may be stuck where few entries are known, but it must not report success then.
        #[test]
        fn no_false_answer_is_settled(rank in 2usize..6, share in 0.25..0.5, seed: u64) {
            let (z, known) = planted(40, 30, rank, share, seed);
            prop_assume!(fewest(&known) > rank + 1);
            if let Ok(completed) = complete(&known, rank, Effort { searches: 4, ..Effort::default() }) {
                let is_right = distance(&completed, &z) < 1e-4;
                prop_assert!(is_right || completed.held_out > 1e-4, "held out {:e}", completed.held_out);
            }
        }
    }

    /// Only some rows of a tall matrix are searched with, but they must cover every column.
    #[test]
    fn no_column_is_left_out_of_a_tall_matrix() {
        for seed in 0..60 {
            let (_, known) = planted(400, 60, 1, 0.4, seed);
            let completed = complete(&known, 1, Effort { searches: 1, ..Effort::default() }).unwrap();
            assert!(completed.is_settled && completed.held_out < 1e-8, "seed {seed}: {:e}", completed.held_out);
        }
    }

    #[test]
    fn full_rank_predicts_nothing() {
        let (_, mut known) = planted(60, 40, 39, 0.7, 1);
        let completed = complete(&known, 4, Effort::default()).unwrap();
        assert!(!completed.is_settled && completed.held_out > 0.3, "{:e}", completed.held_out);
        known.weights *= faer::Scale(0.0);
        known.values *= faer::Scale(0.0);
        let nothing = complete(&known, 4, Effort::default()).unwrap_err();
        assert_eq!(nothing, LowRankError::TooFewKnown { ratio: 0.0 });
    }

    #[test]
    fn counting_is_said_first() {
        let (_, known) = planted(40, 30, 3, 0.2, 1);
        let ratio = known_per_unknown(&known, 3);
        // About 6 known entries in each of 40 rows, for 3 (40 + 30 - 3) unknowns. Rows with three or fewer do not
        // count.
        assert!((1.0..1.4).contains(&ratio), "{ratio}");
        let error = complete(&known, 6, Effort::default()).unwrap_err();
        assert!(matches!(error, LowRankError::TooFewKnown { ratio } if ratio < 1.0), "{error:?}");
        for rank in [0, 30, 31] {
            let error = complete(&known, rank, Effort::default()).unwrap_err();
            assert_eq!(error, LowRankError::FullRank { rank, rows: 40, columns: 30 });
        }
        let (_, huge) = planted(40, 30, 2, 0.7, 1);
        let huge = Observed { values: &huge.values * faer::Scale(1e308), ..huge };
        let error = complete(&huge, 2, Effort::default()).unwrap_err();
        assert_eq!(error, LowRankError::Unsolvable);
    }

    #[test]
    fn a_search_can_be_ended_between_any_two_products() {
        // Rank 39 cannot be completed at rank 4, so all searches run.
        let (_, known) = planted(60, 40, 39, 0.7, 1);
        let mut heard = Vec::new();
        let mut listen = |most: usize| {
            heard.clear();
            let ended = super::complete(&known, 4, Start::default(), Effort::default(), &mut |step, misfit| {
                heard.push((step, misfit));
                if heard.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (ended.unwrap(), heard.len())
        };
        for most in [1, 2, 50, 500] {
            let (ended, calls) = listen(most);
            assert!(ended.is_cut && !ended.is_settled && ended.held_out > 0.1, "{most}: {:e}", ended.held_out);
            assert_eq!(calls, most, "no call follows");
        }
        assert!(heard.windows(2).all(|pair| pair[0].0 <= pair[1].0), "steps are counted over all searches");
        assert!(heard.iter().all(|&(_, misfit)| (0.0..=1.0).contains(&misfit)), "{heard:?}");
        let whole = complete(&known, 4, Effort::default()).unwrap();
        assert!(!whole.is_cut && !whole.is_settled);
    }

    /// Rows with too few entries are NaN, and the others are exact.
    #[test]
    fn a_row_that_knows_too_little_is_not_guessed() {
        let (z, mut known) = planted(50, 30, 3, 0.7, 4);
        for column in 2..30 {
            known.weights[(7, column)] = 0.0;
            known.values[(7, column)] = 0.0;
        }
        let completed = complete(&known, 3, Effort::default()).unwrap();
        assert!(completed.left.row(7).iter().all(|value| value.is_nan()));
        let made = &completed.left * completed.right.transpose();
        let error = (made.row(8) - z.row(8)).norm_l2() / z.row(8).norm_l2();
        assert!(error < 1e-6, "{error:e}, held out {:e}", completed.held_out);
    }
}
