//! The gradient of the attention's projection behind a mask, completed from the tokens that the MLP gave away.

use std::ops::ControlFlow;

use faer::{
    Mat, MatRef, Side,
    linalg::solvers::{Llt, Solve},
};

use super::parallel;
use crate::{
    observed::Observed,
    small_matrices::{gram, product},
    span::GoOn,
};

/// Scales to start from, each twice the one before: 1 / the standard deviation of a token before norm2.
const STARTS: std::ops::RangeInclusive<i32> = -2..=9;
/// The best starts are pursued.
const PURSUED: usize = 3;
const STEPS: usize = 60;
/// A scale by a factor of e to this power from the middle one has run away: those of class tokens and flat patches are
/// ten to twenty times as large as the others.
const FAR: f64 = 4.0;
/// How often such scales are moved back.
const RETURNS: usize = 3;
/// One in this many known entries of a column is held out.
const HELD_OUT: usize = 16;
/// A step that shortens the residual by a smaller share is the last.
const SMALL_GAIN: f64 = 1e-6;

/// dW_proj with its unknown entries filled in.
#[derive(Debug)]
pub(super) struct Projection {
    pub(super) matrix: Mat<f64>,
    /// Error of held-out entries, relative to their size.
    pub(super) held_out: f64,
}

/// Completes dW_proj = sum_k (g_k + s_k w_k) o_k^T `[D, D]`. The slopes g_k and `through` w_k `[D, N]` are known, so that
/// only the N scales s_k and N values o for each column are not: far less than a matrix of rank N leaves open. The
/// scales are searched for by variable projection, the values follow.
///
/// Continues with `None` if a column keeps too few entries for N values, or nothing fits. `go_on` may end the search.
pub(super) fn projection(
    known: &Observed,
    slopes: MatRef<'_, f64>,
    through: MatRef<'_, f64>,
    go_on: GoOn<'_>,
) -> ControlFlow<(), Option<Projection>> {
    let Some(problem) = Problem::new(known, slopes, through) else { return ControlFlow::Continue(None) };
    let mut starts: Vec<(f64, Vec<f64>)> = Vec::new();
    for power in STARTS {
        go_on()?;
        let scales = vec![f64::from(power) * std::f64::consts::LN_2; slopes.ncols()];
        starts.extend(problem.at(&scales).map(|point| (point.objective, scales)));
    }
    starts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut best: Option<(f64, Vec<f64>)> = None;
    for (_, scales) in starts.into_iter().take(PURSUED) {
        let found = problem.search_again(scales, go_on)?;
        if let Some(found) = found.filter(|found| best.as_ref().is_none_or(|best| found.0 < best.0)) {
            best = Some(found);
        }
    }
    ControlFlow::Continue(best.and_then(|(_, scales)| problem.solved(known, &scales)))
}

/// The rows of a column whose entries are known.
#[derive(Debug)]
struct Column {
    held: Vec<usize>,
    fitted: Vec<usize>,
}

#[derive(Debug)]
struct Problem {
    /// `[D, D]`, with rows of one size, 0 where unknown.
    values: Mat<f64>,
    /// What each row was multiplied by.
    sizes: Vec<f64>,
    /// `[D, N]`.
    slopes: Mat<f64>,
    /// `[D, N]`.
    through: Mat<f64>,
    columns: Vec<Column>,
}

/// The residual at some logarithms of the scales, with its slope and Kaufman's approximation of its curvature.
struct Point {
    /// Half the sum of squares.
    objective: f64,
    /// `[N, 1]`.
    slope: Mat<f64>,
    /// `[N, N]`.
    curvature: Mat<f64>,
}

fn pick(from: &Mat<f64>, rows: &[usize]) -> Mat<f64> {
    Mat::from_fn(rows.len(), from.ncols(), |at, k| from[(rows[at], k)])
}

impl Problem {
    fn new(known: &Observed, slopes: MatRef<'_, f64>, through: MatRef<'_, f64>) -> Option<Self> {
        let (dim, count) = (known.nrows(), slopes.ncols());
        // Rows and tokens of one size, so that all count alike.
        let sizes: Vec<f64> = (0..dim)
            .map(|row| {
                let entries = known.weights.row(row).iter().filter(|&&weight| weight > 0.0).count();
                known.values.row(row).norm_l2() / (entries.max(1) as f64).sqrt()
            })
            .collect();
        let nonzero = sizes.iter().filter(|size| **size > 0.0);
        let mean = nonzero.clone().sum::<f64>() / nonzero.count().max(1) as f64;
        // A row without an entry is predicted like the others.
        let sizes: Vec<f64> = sizes.iter().map(|&size| 1.0 / if size > 0.0 { size } else { mean }).collect();
        let values = Mat::from_fn(dim, known.ncols(), |row, c| sizes[row] * known.values[(row, c)]);
        let lengths: Vec<f64> = (0..count).map(|k| slopes.col(k).norm_l2()).collect();
        if mean == 0.0 || lengths.iter().any(|length| !(length.is_finite() && *length > 0.0)) {
            return None;
        }
        let scaled = |x: MatRef<'_, f64>| Mat::from_fn(dim, count, |row, k| sizes[row] * x[(row, k)] / lengths[k]);
        let mut columns = Vec::new();
        for column in 0..known.ncols() {
            let rows: Vec<usize> = (0..dim).filter(|&row| known.is_known(row, column)).collect();
            // Spread evenly, in other rows for each column.
            let spare = rows.len().saturating_sub(count + 1).min(rows.len() / HELD_OUT);
            let is_held = |at: usize| spare > 0 && (at + column).is_multiple_of(rows.len().div_ceil(spare));
            let (held, fitted): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(|(at, _)| is_held(*at));
            let only = |part: Vec<(usize, &usize)>| part.into_iter().map(|(_, &row)| row).collect::<Vec<usize>>();
            columns.push(Column { held: only(held), fitted: only(fitted) });
        }
        if columns.iter().any(|column| column.fitted.len() <= count) {
            return None;
        }
        let (slopes, through) = (scaled(slopes), scaled(through));
        Some(Self { values, sizes, slopes, through, columns })
    }

    fn solved(&self, known: &Observed, scales: &[f64]) -> Option<Projection> {
        let (held_out, made) = (self.held_out(scales)?, self.made(scales)?);
        let matrix = Mat::from_fn(known.nrows(), known.ncols(), |row, c| {
            if known.is_known(row, c) { known.values[(row, c)] } else { made[(row, c)] / self.sizes[row] }
        });
        Some(Projection { matrix, held_out })
    }

    fn left(&self, scales: &[f64]) -> Mat<f64> {
        let factors: Vec<f64> = scales.iter().map(|scale| scale.exp()).collect();
        Mat::from_fn(self.slopes.nrows(), scales.len(), |row, k| {
            factors[k] * self.through[(row, k)] + self.slopes[(row, k)]
        })
    }

    /// The values o of a column `[N, 1]` over these rows, with what they leave and the basis of what they explain.
    fn solve(&self, left: &Mat<f64>, column: usize, rows: &[usize]) -> (Mat<f64>, Mat<f64>, Mat<f64>) {
        let qr = pick(left, rows).qr();
        let basis = qr.compute_thin_Q();
        let target = Mat::from_fn(rows.len(), 1, |at, _| self.values[(rows[at], column)]);
        let inside = product(basis.transpose(), target.as_ref());
        let residual = &target - product(basis.as_ref(), inside.as_ref());
        let mut solved = inside;
        faer::linalg::triangular_solve::solve_upper_triangular_in_place(qr.thin_R(), solved.as_mut(), faer::Par::Seq);
        (solved, residual, basis)
    }

    fn at(&self, scales: &[f64]) -> Option<Point> {
        let (left, count) = (self.left(scales), scales.len());
        let moved = Mat::from_fn(left.nrows(), count, |row, k| scales[k].exp() * self.through[(row, k)]);
        let parts = parallel::map(self.columns.len(), |column| {
            let rows = &self.columns[column].fitted;
            let (solved, residual, basis) = self.solve(&left, column, rows);
            let moved = pick(&moved, rows);
            let inside = product(basis.transpose(), moved.as_ref());
            let outside = &moved - product(basis.as_ref(), inside.as_ref());
            let slopes = Mat::from_fn(rows.len(), count, |at, k| -outside[(at, k)] * solved[(k, 0)]);
            let slope = product(slopes.transpose(), residual.as_ref());
            (0.5 * residual.squared_norm_l2(), slope, gram(slopes.as_ref()))
        });
        let mut sum = Point { objective: 0.0, slope: Mat::zeros(count, 1), curvature: Mat::zeros(count, count) };
        for (objective, slope, curvature) in parts {
            sum.objective += objective;
            sum.slope += slope;
            sum.curvature += curvature;
        }
        sum.objective.is_finite().then_some(sum)
    }

    /// Searches, moves scales that ran away from the others to where they fit best, and searches again.
    fn search_again(&self, scales: Vec<f64>, go_on: GoOn<'_>) -> ControlFlow<(), Option<(f64, Vec<f64>)>> {
        let Some(mut best) = self.search(scales, go_on)? else { return ControlFlow::Continue(None) };
        for _ in 0..RETURNS {
            let mut sorted = best.1.clone();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted[sorted.len() / 2];
            let strays: Vec<usize> = (0..sorted.len()).filter(|&k| (best.1[k] - middle).abs() > FAR).collect();
            if strays.is_empty() {
                break;
            }
            let mut moved = best.1.clone();
            // All of them come back before each is fitted, since one that is wrong hides where the others belong.
            strays.iter().for_each(|&k| moved[k] = middle + 1.0);
            for &k in &strays {
                let mut nearest = (f64::INFINITY, moved[k]);
                for power in STARTS {
                    go_on()?;
                    moved[k] = f64::from(power) * std::f64::consts::LN_2;
                    let objective = self.at(&moved).map_or(f64::INFINITY, |point| point.objective);
                    if objective < nearest.0 {
                        nearest = (objective, moved[k]);
                    }
                }
                moved[k] = nearest.1;
            }
            match self.search(moved, go_on)? {
                Some(found) if found.0 < best.0 => best = found,
                _ => break,
            }
        }
        ControlFlow::Continue(Some(best))
    }

    /// Levenberg-Marquardt over the logarithms of the scales.
    fn search(&self, mut scales: Vec<f64>, go_on: GoOn<'_>) -> ControlFlow<(), Option<(f64, Vec<f64>)>> {
        let Some(mut point) = self.at(&scales) else { return ControlFlow::Continue(None) };
        let mut damping = 1e-2;
        for _ in 0..STEPS {
            go_on()?;
            let count = scales.len();
            let damped = Mat::from_fn(count, count, |i, j| {
                let value = point.curvature[(i, j)];
                if i == j { value * (1.0 + damping) + f64::MIN_POSITIVE } else { value }
            });
            let Ok(factor) = Llt::new(damped.as_ref(), Side::Lower) else {
                damping *= 10.0;
                continue;
            };
            let step = factor.solve(&point.slope);
            // A scale does not change by more than a factor of e at once.
            let moved: Vec<f64> = scales.iter().enumerate().map(|(k, s)| s - step[(k, 0)].clamp(-1.0, 1.0)).collect();
            match self.at(&moved).filter(|next| next.objective < point.objective) {
                Some(next) => {
                    let gain = 1.0 - next.objective / point.objective;
                    (point, scales) = (next, moved);
                    damping = (damping / 5.0).max(1e-12);
                    if gain < SMALL_GAIN {
                        break;
                    }
                }
                None if damping > 1e6 => break,
                None => damping *= 5.0,
            }
        }
        ControlFlow::Continue(Some((point.objective, scales)))
    }

    fn held_out(&self, scales: &[f64]) -> Option<f64> {
        let left = self.left(scales);
        let (mut error, mut size) = (0.0, 0.0);
        for (column, Column { held, fitted }) in self.columns.iter().enumerate() {
            let (solved, ..) = self.solve(&left, column, fitted);
            let made = product(pick(&left, held).as_ref(), solved.as_ref());
            for (at, &row) in held.iter().enumerate() {
                error += (made[(at, 0)] - self.values[(row, column)]).powi(2);
                size += self.values[(row, column)].powi(2);
            }
        }
        let share = (error / size).sqrt();
        share.is_finite().then_some(share)
    }

    /// The whole matrix, from all known entries.
    fn made(&self, scales: &[f64]) -> Option<Mat<f64>> {
        let left = self.left(scales);
        let solved = parallel::map(self.columns.len(), |column| {
            let Column { held, fitted } = &self.columns[column];
            let mut rows = [&fitted[..], &held[..]].concat();
            rows.sort_unstable();
            self.solve(&left, column, &rows).0
        });
        let right = Mat::from_fn(scales.len(), solved.len(), |k, column| solved[column][(k, 0)]);
        let made = product(left.as_ref(), right.as_ref());
        let is_finite = made.col_iter().all(|column| column.iter().all(|value| value.is_finite()));
        is_finite.then_some(made)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const DIM: usize = 60;
    const TOKENS: usize = 8;

    fn planted(seed: u64, share: f64) -> (Mat<f64>, Observed, [Mat<f64>; 2]) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |rows, columns| Mat::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0));
        let [slopes, through, mixed]: [Mat<f64>; 3] = std::array::from_fn(|_| draw(DIM, TOKENS));
        let scales = draw(TOKENS, 1);
        let left = Mat::from_fn(DIM, TOKENS, |row, k| {
            (20.0 * 2f64.powf(scales[(k, 0)])).mul_add(through[(row, k)], slopes[(row, k)])
        });
        let matrix = &left * mixed.transpose();
        let kept: Vec<bool> = (0..DIM * DIM).map(|_| rng.random_bool(share)).collect();
        let flat: Vec<f64> = matrix.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        (matrix, Observed::new(DIM, &flat, Some(&kept)), [slopes, through])
    }

    fn found(known: &Observed, slopes: &Mat<f64>, through: &Mat<f64>) -> Option<Projection> {
        let found = projection(known, slopes.as_ref(), through.as_ref(), &mut || ControlFlow::Continue(()));
        found.continue_value().expect("nobody ends it")
    }

    #[test]
    fn a_planted_projection_is_completed_with_a_row_that_nothing_is_known_of() {
        for seed in 0..4 {
            let (matrix, mut known, [slopes, through]) = planted(seed, 0.35);
            for column in 0..DIM {
                known.weights[(7, column)] = 0.0;
                known.values[(7, column)] = 0.0;
            }
            let found = found(&known, &slopes, &through).expect("a projection");
            let error = (&found.matrix - &matrix).norm_l2() / matrix.norm_l2();
            assert!(error < 1e-8 && found.held_out < 1e-8, "seed {seed}: {error:e}, held out {:e}", found.held_out);
        }
    }

    #[test]
    fn another_matrix_is_not_predicted() {
        let (_, known, [slopes, through]) = planted(1, 0.45);
        let [other, _] = planted(2, 0.45).2;
        assert!(found(&known, &other, &through).is_none_or(|found| found.held_out > 1e-2));
        // Columns that keep no more entries than there are tokens say nothing.
        let (_, sparse, _) = planted(1, 0.15);
        assert!(found(&sparse, &slopes, &through).is_none());
        assert!(projection(&known, slopes.as_ref(), through.as_ref(), &mut || ControlFlow::Break(())).is_break());
    }
}
