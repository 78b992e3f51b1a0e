//! Matrices of low rank, completed from the entries that are known.
//!
//! Z = A V^T with A `[N, r]` and V `[D, r]` orthonormal. For a given V each row of A is a small least squares problem, so that
//! V alone is searched for (variable projection, Golub and Pereyra 1973): with P_i the projector onto what V's known rows
//! cannot explain of row i, minimise f(V) = sum_i ||P_i z_i||^2 / 2. Levenberg-Marquardt with Kaufman's Jacobian
//! (1975) needs products with H: X -> sum_i P_i X a_i a_i^T only, and conjugate gradients solve for the step. Boumal and
//! Absil's RTRMC (2011) minimises the same function.

use std::ops::ControlFlow;

use faer::{Accum, Mat, MatRef, Par, Side, linalg::matmul::matmul};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    conjugate_gradients::Solution,
    observed::Observed,
    small_matrices::{Inverses, apply_packed, inner, multiply, pairs, product},
};
use smooth_start::SmoothStart;

mod smooth_start;

/// One in so many known entries is held out, to be predicted.
const HELD_OUT: usize = 40;
/// In a small matrix so many, if it can spare them.
const FEWEST_HELD_OUT: usize = 30;
/// Relative misfit below which there is nothing left to explain.
const FLOOR: f64 = 1e-13;
/// Error of held-out entries at which f32 leaves nothing more to find. Measured on 60 masks of R = 0.5 over gradients of
/// `vit_nano_patch8_32`, all of which came back at 76 dB or more: 1e-7 to 7e-7 of 53, 2e-6 to 5e-6 of dark pictures; of f64
/// gradients 1e-11 and less.
const FOUND: f64 = 6e-6;
/// A search that was shaken and comes back to its held-out error, up to this factor, had arrived. It is chosen, not measured: some
/// hundred held-out entries or more tell the size of noise to a tenth, and a local minimum that moves changes it by more.
const SAME: f64 = 2.0;
/// Above this it had arrived nowhere: most searches that are stuck leave 1e-3 to 1, those that lack one faint direction 1e-5 and more ...
const PLAUSIBLE: f64 = 1e-3;
/// ... and held-out entries are missed by so many times as much as those that were seen. Measured at R = 0.5 on differences of weights, where noise
/// is the limit: 4 to 25 times; on f64 gradients at R = 0.8, in local minima: 90 to 500 times.
const OVERFITTED: f64 = 30.0;
/// But for a fit that leaves no more of the seen entries than f32 rounds: of few entries for each unknown their rounding is the others' error a
/// hundred times over. Local minima left 8e-7 and more.
const ROUNDING: f64 = 2e-7;
/// A step that gains less than this share of the misfit is a small one.
const SMALL_GAIN: f64 = 0.02;
/// So many small ones in turn end a search.
const SMALL_STEPS: usize = 3;
/// Where damping is larger the step is too short to matter.
const MOST_DAMPING: f64 = 1e4;
/// So many equations are searched with for each unknown; more only take time.
const EQUATIONS: usize = 6;
/// So many entries of a column are searched with for each unknown of its row of V: a column that shows nothing is any number.
const ENTRIES: usize = 4;
/// Rounds of scaling rows and columns in turn.
const SCALINGS: usize = 3;
/// Steps towards the likeliest start before the first search ...
const FIRST_SMOOTH_STEPS: usize = 100;
/// ... and where so many entries are known for each unknown.
const FEW_SMOOTH_STEPS: usize = 40;
const WELL_KNOWN: f64 = 2.0;
/// A step is solved for until the square of what is left has fallen to this share.
const STEP_SHARE: f64 = 1e-4;
/// Steps with all that is known, once V is found ...
const LAST_STEPS: usize = 8;
/// ... for which rows and columns are at least so important: what is exact but for rounding counts alike, and where it all does, steps take
/// twice as many products ...
const LAST_IMPORTANCE: f64 = 0.1;
/// ... and which are hardly damped so near to the end.
const LAST_DAMPING: f64 = 1e-3;
/// Damping of the first step of a search.
const FIRST_DAMPING: f64 = 1.0;
/// A search that was shaken weighs rows and columns anew, from this to 1.
const LEAST_WEIGHT: f64 = 0.01;

/// Why a matrix cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LowRankError {
    /// Known entries per unknown of the factors; below 1 they do not determine them.
    TooFewKnown { ratio: f64 },
    /// A matrix of these sides has full rank at `rank`, and nothing follows from that.
    FullRank { rank: usize, rows: usize, columns: usize },
    /// Values too large or small to compute with.
    Unsolvable,
}

/// A matrix of rank r that agrees with what is known.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    /// A `[N, r]`; a row of NaN where fewer than r entries of a row are known.
    pub(crate) left: Mat<f64>,
    /// V `[D, r]`, orthonormal.
    pub(crate) right: Mat<f64>,
    /// Root mean square error of known entries that the search did not see, relative to their root mean square, each row and column scaled to
    /// the same size. Of the order of the data's rounding where the matrix was found, and 1e-5 to 1 where the search is stuck or
    /// the matrix has another rank. Infinite where no entry could be spared.
    pub(crate) held_out: f64,
    /// Whether those errors are as small as f32 has them, or stayed the same when rows and columns were weighed anew, as they do where noise and no
    /// local minimum is the limit.
    pub(crate) is_settled: bool,
    /// Whether the search was ended before it settled or had tried everything.
    pub(crate) is_cut: bool,
}

/// Hears how many steps of all searches are done, and what share of the known entries is unexplained: before each step, and
/// before each product with H within one, which takes seconds on large models. It may end the search.
pub(crate) type OnStep<'a> = &'a mut dyn FnMut(usize, f64) -> ControlFlow<()>;

/// Where to search from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start<'a> {
    /// A matrix `[any, D]` whose strongest r directions among rows the search starts from.
    pub(crate) guess: Option<&'a Mat<f64>>,
    /// Which rows or columns are neighbouring pixels: where there is no guess, the search starts from what is likeliest of a
    /// photograph; where there is neither, from what is known with zeros elsewhere.
    pub(crate) pixels: Option<Pixels>,
    /// How much each of the N rows counts while V is searched for; all alike where it is absent. A row that no other row resembles
    /// should count little: it would take a direction of V for itself, and what it hides could be anything.
    pub(crate) importance: Option<&'a [f64]>,
    /// The same of the D columns.
    pub(crate) column_importance: Option<&'a [f64]>,
}

impl Start<'_> {
    /// Of an entry.
    fn importance(&self, row: usize, column: usize) -> f64 {
        let of = |importance: Option<&[f64]>, at: usize| importance.map_or(1.0, |importance| importance[at]);
        of(self.importance, row) * of(self.column_importance, column)
    }
}

/// The first rows or columns of a matrix, which are the pixels of a patch `[3, side, side]`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pixels {
    Rows { side: usize },
    Columns { side: usize },
}

/// How hard to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Searches: the first from the guess, others from where the last one was stuck with rows and columns weighed anew, or from a
    /// likelier start.
    pub(crate) searches: usize,
    /// Steps towards the likeliest start before a search that has one; fewer before the first.
    pub(crate) smooth_steps: usize,
    /// Steps of one search.
    pub(crate) steps: usize,
    /// Products with H in one step.
    pub(crate) products: usize,
}

impl Effort {
    /// Steps of all searches, at most.
    pub(crate) fn most_steps(self) -> usize {
        self.searches * self.steps_of_search()
    }

    /// Steps of one search and towards its start, at most.
    fn steps_of_search(self) -> usize {
        self.smooth_steps + self.steps
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self { searches: 10, smooth_steps: 100, steps: 60, products: 100 }
    }
}

/// Known entries per unknown, of those rows that know more than `rank` entries: the others say nothing of V.
///
/// n rows with |K_i| known entries each: sum |K_i| over r (n + D - r).
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

/// Completes a matrix `[N, D]` of rank r from its known entries. Put the shorter side into the columns: r (D - r) unknowns
/// are searched for.
///
/// The function that is minimised has local minima: one direction of V serves a single row or column. A stuck search is therefore followed
/// by one from a likelier start, [`SmoothStart`], where rows or columns are pixels. The solution is a minimum whatever rows and columns
/// weigh, a local one is not: what looks like an end is searched again with other weights. That goes on until entries that were held
/// out are predicted, or `on_step` ends it: the best found so far is the result then. A result is no proof: see
/// [`Completion::held_out`].
///
/// # Errors
/// [`LowRankError`]: counting forbids it, which is said before anything is computed, or the values are beyond f64.
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

/// An orthonormal basis `[D, r]` of the r strongest directions among the rows of a matrix.
fn row_space(matrix: MatRef<'_, f64>, rank: usize) -> Option<Mat<f64>> {
    // By the smaller Gram matrix: a start needs no weak directions exactly.
    let gram = product(matrix.transpose(), matrix);
    let eigen = gram.self_adjoint_eigen(Side::Lower).ok()?;
    // In rising order.
    Some(eigen.U().subcols(gram.ncols() - rank, rank).to_owned())
}

/// What is known, with rows and columns scaled to a root mean square of 1 over their known entries.
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

/// V with all that follows from it.
struct Point {
    /// V `[D, r]`.
    right: Mat<f64>,
    /// A `[N, r]`.
    left: Mat<f64>,
    /// The inverse of V^T W_i V for each row.
    grams: Inverses,
    /// W o (Z - A V^T) `[N, D]`.
    residual: Mat<f64>,
    /// Weighted sum of squares of Z - A V^T.
    objective: f64,
}

/// What searches found.
struct Found {
    right: Mat<f64>,
    held_out: f64,
    is_settled: bool,
    is_cut: bool,
}

impl Problem {
    fn new(known: &Observed, rank: usize) -> Self {
        let (mut values, mut weights) = (known.values.clone(), known.weights.clone());
        // A row of fewer than r is explained by any V, and by a large A where V has little there: it would lead the search astray.
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

    /// The factors of the matrix before it was scaled, V orthonormal again.
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

    /// The same values with other weights, of the rows given.
    fn with(&self, rows: &[usize], weight: impl Fn(usize, usize) -> f64) -> Self {
        let (n, d) = (rows.len(), self.columns.len());
        let weights = Mat::from_fn(n, d, |i, j| weight(rows[i], j));
        let values = Mat::from_fn(n, d, |i, j| if weights[(i, j)] > 0.0 { self.values[(rows[i], j)] } else { 0.0 });
        let scales = rows.iter().map(|&row| self.rows[row]).collect();
        Self { rank: self.rank, values, weights, rows: scales, columns: self.columns.clone() }
    }

    /// Weights of entries to hold out, of rows and columns that can spare them: `[N, D]`, 0 for those to be seen.
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

    /// The V that predicts held-out entries best.
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
            // What is beyond f64 in a later search takes nothing from what an earlier one has found.
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

    /// Steps towards the likeliest start before the first search.
    fn first_smooth_steps(&self, effort: Effort) -> usize {
        let is_well_known = known_entries_per_unknown(&self.weights, self.rank) >= WELL_KNOWN;
        (if is_well_known { FEW_SMOOTH_STEPS } else { FIRST_SMOOTH_STEPS }).min(effort.smooth_steps)
    }

    /// Rows, evenly spread, with [`EQUATIONS`] times as many equations as V has unknowns, and [`ENTRIES`] times as many entries of each
    /// column as its row of V has, or all.
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

    /// Whether some rows have so many times as many equations as V has unknowns, and so many times as many entries of each column as its
    /// row of V has.
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
        let grams = Inverses::new(product(self.weights.as_ref(), pairs(right.as_ref()).as_ref()).as_ref(), self.rank)?;
        let mut weighted = self.values.clone();
        multiply(&mut weighted, &self.weights);
        let left = grams.apply(product(weighted.as_ref(), right.as_ref()).as_ref());
        let mut residual = self.values.clone();
        matmul(residual.as_mut(), Accum::Add, left.as_ref(), right.transpose(), -1.0, Par::Seq);
        let mut objective = 0.0;
        for (residual, weights) in residual.col_iter_mut().zip(self.weights.col_iter()) {
            for (value, &weight) in residual.iter_mut().zip(weights.iter()) {
                objective += weight * *value * *value;
                *value *= weight;
            }
        }
        objective.is_finite().then_some(Point { right, left, grams, residual, objective })
    }

    /// Levenberg-Marquardt from V, until little is gained or `on_step` ends it.
    fn search(
        &self,
        right: Mat<f64>,
        effort: Effort,
        first_damping: f64,
        on_step: OnStep<'_>,
    ) -> Option<(Point, ControlFlow<()>)> {
        // Of values that are scaled to a root mean square of 1.
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

    /// The point that (H + damping C) X = -gradient leads to, C being H without its projectors, and by how much the objective
    /// should fall; unless `go_on`, which is asked before each product with H, ends it.
    fn step(
        &self,
        point: &Point,
        damping: f64,
        products: usize,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Option<ControlFlow<(), (Point, f64)>> {
        let (a, v) = (point.left.as_ref(), point.right.as_ref());
        let packed = product(self.weights.transpose(), pairs(a).as_ref());
        let inverses = Inverses::new(packed.as_ref(), self.rank)?;
        let damped = |x: &Mat<f64>| apply_packed(packed.as_ref(), x.as_ref());
        let project = |mut x: Mat<f64>| {
            let along = product(v.transpose(), x.as_ref());
            matmul(x.as_mut(), Accum::Add, v, along.as_ref(), -1.0, Par::Seq);
            x
        };
        let hessian = |x: &Mat<f64>| {
            let mut t = product(a, x.transpose());
            multiply(&mut t, &self.weights);
            let q = point.grams.apply(product(t.as_ref(), v).as_ref());
            let mut explained = product(q.as_ref(), v.transpose());
            multiply(&mut explained, &self.weights);
            t -= explained;
            let mut out = product(t.transpose(), a);
            out += damped(x) * faer::Scale(damping);
            project(out)
        };
        let precondition = |x: &Mat<f64>| project(inverses.apply(x.as_ref()) * faer::Scale(1.0 / (1.0 + damping)));
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

    /// Root mean square error at the entries with `weights`, relative to that of the values; `None` where there are none.
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

    /// To its end.
    fn complete(known: &Observed, rank: usize, effort: Effort) -> Result<Completion, LowRankError> {
        super::complete(known, rank, Start::default(), effort, &mut |_, _| ControlFlow::Continue(()))
    }

    /// A matrix of rank r with rows and columns of different sizes, and a mask that keeps each entry with probability `share`.
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

        /// Close to what counting allows a search may be stuck. It must not say that it has found what it has not.
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

    /// Of many rows few are searched with, and still each column must show in some.
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
        // About 6 known entries in each of 40 rows, for 3 (40 + 30 - 3) unknowns; rows that know three or fewer do not count.
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
        // As many searches as there are find no matrix of rank 4 behind this one.
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
            assert_eq!(calls, most, "nothing more is heard of it");
        }
        assert!(heard.windows(2).all(|pair| pair[0].0 <= pair[1].0), "steps are counted over all searches");
        assert!(heard.iter().all(|&(_, misfit)| (0.0..=1.0).contains(&misfit)), "{heard:?}");
        let whole = complete(&known, 4, Effort::default()).unwrap();
        assert!(!whole.is_cut && !whole.is_settled);
    }

    /// Rows that know too little are no numbers; the others are exact.
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
