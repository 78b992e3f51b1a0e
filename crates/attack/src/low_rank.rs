//! Matrices of low rank, completed from the entries that are known.
//!
//! Z = A V^T with A `[N, r]` and V `[D, r]` orthonormal. For a given V each row of A is a small least squares problem, so that
//! V alone is searched for (variable projection, Golub and Pereyra 1973): with P_i the projector onto what V's known rows
//! cannot explain of row i, minimise f(V) = sum_i ||P_i z_i||^2 / 2. Levenberg-Marquardt with Kaufman's Jacobian
//! (1975) needs products with H: X -> sum_i P_i X a_i a_i^T only, and conjugate gradients solve for the step. Boumal and
//! Absil's RTRMC (2011) minimises the same function.

use faer::{
    Accum, Mat, MatRef, Par, Side,
    linalg::{
        matmul::matmul,
        solvers::{DenseSolveCore, Llt},
    },
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::observed::Observed;

/// One in so many known entries is held out, to be predicted.
const HELD_OUT: usize = 40;
/// Relative misfit below which there is nothing left to explain.
const FLOOR: f64 = 1e-13;
/// A step that gains less than this share of the misfit is a small one.
const SMALL_GAIN: f64 = 0.02;
/// So many small ones in turn end the search.
const SMALL_STEPS: usize = 4;
/// Of the equations of a row or a column, relative to their mean square.
const RIDGE: f64 = 1e-13;

/// Why a matrix cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LowRankError {
    /// Known entries per unknown of the factors; below 1 they do not determine them.
    TooFewKnown { ratio: f64 },
    /// A matrix of `rows` by `columns` has no rank above the smaller of the two, and completing one of that rank means nothing.
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
    /// Root mean square error, relative to the root mean square, of known entries that the search did not see; each row
    /// counts alike. Of the order of the data's rounding where it converged, and not below 1e-3 or so where it did not.
    pub(crate) held_out: f64,
    /// The same of the entries that it saw.
    pub(crate) misfit: f64,
    /// Steps of the search.
    pub(crate) steps: usize,
}

/// How hard to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Steps of Levenberg-Marquardt.
    pub(crate) steps: usize,
    /// Products with H in one step.
    pub(crate) products: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { steps: 100, products: 100 }
    }
}

/// Known entries per unknown of the factors, of those rows that know more than `rank`: the others say nothing of V.
pub(crate) fn ratio(known: &Observed, rank: usize) -> f64 {
    let rows: Vec<usize> = row_counts(known).into_iter().filter(|&count| count > rank).collect();
    let unknowns = rank * (rows.len() + known.ncols()).saturating_sub(rank);
    rows.iter().sum::<usize>() as f64 / unknowns.max(1) as f64
}

fn row_counts(known: &Observed) -> Vec<usize> {
    let mut counts = vec![0; known.nrows()];
    for column in known.weights.col_iter() {
        for (count, &weight) in counts.iter_mut().zip(column.iter()) {
            *count += usize::from(weight > 0.0);
        }
    }
    counts
}

/// Completes a matrix `[N, D]` of rank r from its known entries, starting from the row space of `guess` `[any, D]` where there is one, otherwise from what is known
/// with zeros elsewhere. Put the shorter side into the columns: r (D - r) unknowns are searched for.
///
/// A result is no proof: see [`Completion::held_out`].
///
/// # Errors
/// [`LowRankError`]: counting forbids it, or the values are beyond f64. Both are said before anything is computed but the last.
pub(crate) fn complete(
    known: &Observed,
    rank: usize,
    guess: Option<MatRef<'_, f64>>,
    effort: Effort,
) -> Result<Completion, LowRankError> {
    let (rows, columns) = (known.nrows(), known.ncols());
    if rank == 0 || rank >= rows.min(columns) {
        return Err(LowRankError::FullRank { rank, rows, columns });
    }
    let ratio = ratio(known, rank);
    if ratio < 1.0 {
        return Err(LowRankError::TooFewKnown { ratio });
    }
    let whole = Problem::new(known, rank);
    let seen = whole.without_some();
    let right = match guess {
        Some(guess) => row_space(guess, rank),
        None => row_space(whole.values.as_ref(), rank),
    };
    PRIOR_ON.store(true, std::sync::atomic::Ordering::Relaxed);
    let search = |problem: &Problem, right: Mat<f64>, steps| problem.search(right, Effort { steps, ..effort });
    let (point, steps) = right.and_then(|right| search(&seen, right, effort.steps)).ok_or(LowRankError::Unsolvable)?;
    if std::env::var("DIAG").is_ok() {
        let mut lev: Vec<(f64, usize)> = (0..columns).map(|d| (point.right.row(d).squared_norm_l2(), d)).collect();
        lev.sort_by(|a, b| b.0.total_cmp(&a.0));
        eprintln!("leverage {:.2?}", &lev[..8]);
        let tot = point.residual.squared_norm_l2();
        let mut col: Vec<(f64, usize)> = (0..columns).map(|d| (point.residual.col(d).squared_norm_l2() / tot, d)).collect();
        col.sort_by(|a, b| b.0.total_cmp(&a.0));
        eprintln!("columns' residual {:.3?}", &col[..8]);
        let mut row: Vec<(f64, usize)> = (0..rows).map(|d| (point.residual.row(d).squared_norm_l2() / tot, d)).collect();
        row.sort_by(|a, b| b.0.total_cmp(&a.0));
        eprintln!("rows' residual {:.3?}", &row[..8]);
        let mut norm: Vec<(f64, usize)> = (0..rows).map(|d| (point.left.row(d).squared_norm_l2() / columns as f64, d)).collect();
        norm.sort_by(|a, b| b.0.total_cmp(&a.0));
        eprintln!("rows' sizes {:.2?}", &norm[..8]);
        let sv = point.left.singular_values().unwrap();
        eprintln!("singular {:.1e}", sv.iter().map(|s| s / sv[0]).last().unwrap());
    }
    let held_out = whole.error(&point, |at| whole.weights[at] - seen.weights[at]);
    PRIOR_ON.store(false, std::sync::atomic::Ordering::Relaxed);
    let (point, more) = search(&whole, point.right, 3).ok_or(LowRankError::Unsolvable)?;
    let misfit = whole.error(&point, |at| whole.weights[at]);
    let mut left = point.left;
    for (row, (&scale, &count)) in whole.scales.iter().zip(&row_counts(known)).enumerate() {
        for value in left.row_mut(row).iter_mut() {
            *value = if count < rank { f64::NAN } else { *value * scale };
        }
    }
    Ok(Completion { left, right: point.right, held_out, misfit, steps: steps + more })
}

/// An orthonormal basis `[D, r]` of the r strongest directions among the rows of a matrix.
fn row_space(matrix: MatRef<'_, f64>, rank: usize) -> Option<Mat<f64>> {
    // By the smaller Gram matrix: a start needs no weak directions exactly.
    let gram = product(matrix.transpose(), matrix);
    let eigen = gram.self_adjoint_eigen(Side::Lower).ok()?;
    // In rising order.
    Some(eigen.U().subcols(gram.ncols() - rank, rank).to_owned())
}

fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}

/// The columns x_j x_k, k <= j, of a matrix x `[n, r]`: `[n, r (r + 1) / 2]`.
fn pairs(x: MatRef<'_, f64>) -> Mat<f64> {
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

/// Inverses of symmetric matrices `[r, r]`, one after the other.
struct Inverses {
    rank: usize,
    values: Vec<f64>,
}

impl Inverses {
    /// Of those whose lower triangles are the rows of `packed` `[n, r (r + 1) / 2]`, each with `ridge` `[r, r]` added.
    fn new(packed: MatRef<'_, f64>, prior: Option<MatRef<'_, f64>>, rank: usize) -> Option<Self> {
        let mut values = Vec::with_capacity(packed.nrows() * rank * rank);
        let rows = packed.to_owned();
        for row in 0..packed.nrows() {
            let at = |j: usize, k: usize| rows[(row, j * (j + 1) / 2 + k)];
            let mut matrix = Mat::from_fn(rank, rank, |j, k| if k <= j { at(j, k) } else { at(k, j) });
            if let Some(prior) = prior {
                matrix += prior;
            }
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

    /// Each times its row of `x` `[n, r]`.
    fn apply(&self, x: MatRef<'_, f64>) -> Mat<f64> {
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

/// What is known, with each row scaled to a root mean square of 1 over its known entries.
struct Problem {
    rank: usize,
    /// `[N, D]`, 0 where unknown.
    values: Mat<f64>,
    /// `[N, D]`, 0 where unknown.
    weights: Mat<f64>,
    /// What each row was divided by.
    scales: Vec<f64>,
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
    misfit: f64,
    prior: Option<Mat<f64>>,
}

impl Problem {
    fn new(known: &Observed, rank: usize) -> Self {
        let (n, d) = (known.nrows(), known.ncols());
        let counts = row_counts(known);
        let mut scales = vec![0.0; n];
        for column in known.values.col_iter() {
            scales.iter_mut().zip(column.iter()).for_each(|(scale, value)| *scale += value * value);
        }
        for (scale, &count) in scales.iter_mut().zip(&counts) {
            let size = (*scale / count.max(1) as f64).sqrt();
            *scale = if size > 0.0 { size } else { 1.0 };
        }
        let values = Mat::from_fn(n, d, |i, j| known.values[(i, j)] / scales[i]);
        Self { rank, values, weights: known.weights.clone(), scales }
    }

    /// The same with some of the known entries held out, of rows and columns that can spare them.
    fn without_some(&self) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let (mut values, mut weights) = (self.values.clone(), self.weights.clone());
        for column in 0..values.ncols() {
            for row in 0..values.nrows() {
                if weights[(row, column)] > 0.0 && rng.random_range(0..HELD_OUT) == 0 {
                    values[(row, column)] = 0.0;
                    weights[(row, column)] = 0.0;
                }
            }
        }
        Self { rank: self.rank, values, weights, scales: self.scales.clone() }
    }

    fn at(&self, right: Mat<f64>, prior: Option<Mat<f64>>) -> Option<Point> {
        let grams = Inverses::new(product(self.weights.as_ref(), pairs(right.as_ref()).as_ref()).as_ref(), prior.as_ref().map(|p| p.as_ref()), self.rank)?;
        let left = grams.apply(product(self.weighted().as_ref(), right.as_ref()).as_ref());
        let mut residual = self.values.clone();
        matmul(residual.as_mut(), Accum::Add, left.as_ref(), right.transpose(), -1.0, Par::Seq);
        let mut objective = 0.0;
        for (residual, weights) in residual.col_iter_mut().zip(self.weights.col_iter()) {
            for (value, &weight) in residual.iter_mut().zip(weights.iter()) {
                objective += weight * *value * *value;
                *value *= weight;
            }
        }
        let misfit = objective;
        if let Some(prior) = &prior {
            objective += inner(&left, &product(left.as_ref(), prior.as_ref()));
        }
        objective.is_finite().then_some(Point { right, left, grams, residual, objective, misfit, prior })
    }

    fn weighted(&self) -> Mat<f64> {
        Mat::from_fn(self.values.nrows(), self.values.ncols(), |i, j| self.values[(i, j)] * self.weights[(i, j)])
    }

    /// Levenberg-Marquardt from V, until little is gained.
    fn search(&self, right: Mat<f64>, effort: Effort) -> Option<(Point, usize)> {
        let total: f64 = self.weights.sum();
        let floor = FLOOR * FLOOR * total;
        let mut point = self.at(right, None)?;
        let kappa: f64 = std::env::var("KAPPA").ok().and_then(|v| v.parse().ok()).unwrap_or(1.0);
        let env = |n: &str, d: f64| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
        let (l0, decay, mode) = (env("L0", 0.1), env("DECAY", 0.5), env("MODE", 1.0));
        let lambda = std::cell::Cell::new(l0);
        let reg = |point: Point| -> Option<Point> {
            if kappa == 0.0 { return Some(point); }
            if mode == 1.0 {
                let l = lambda.get();
                lambda.set(l * decay);
                return if l < 1e-12 { self.at(point.right, None) } else { self.at(point.right, Some(Mat::from_fn(self.rank, self.rank, |i, j| if i == j { l } else { 0.0 }))) };
            }
            if mode == 2.0 {
                let l = lambda.get();
                lambda.set(l * decay);
                let mut t = product(point.left.transpose(), point.left.as_ref());
                let mean = (0..self.rank).map(|i| t[(i, i)]).sum::<f64>() / self.rank as f64;
                (0..self.rank).for_each(|i| t[(i, i)] += 1e-14 * mean);
                let inv = Llt::new(t.as_ref(), Side::Lower).ok()?.inverse();
                let p = (point.misfit / total) * l;
                let mut r = inv * faer::Scale(p * self.values.nrows() as f64);
                (0..self.rank).for_each(|i| r[(i, i)] += l * 0.01);
                return self.at(point.right, Some(r));
            }
            let noise = kappa * point.misfit / total;
            let n = self.values.nrows() as f64;
            let mut t = product(point.left.transpose(), point.left.as_ref());
            for inverse in point.grams.values.chunks_exact(self.rank * self.rank) {
                t += MatRef::from_column_major_slice(inverse, self.rank, self.rank) * faer::Scale(noise);
            }
            t = t * faer::Scale(1.0 / n);
            let inv = Llt::new(t.as_ref(), Side::Lower).ok()?.inverse();
            self.at(point.right, Some(inv * faer::Scale(noise)))
        };
        if PRIOR_ON.load(std::sync::atomic::Ordering::Relaxed) { point = reg(point)?; }
        let mut damping = 1.0;
        let mut small = 0;
        let mut growth = 4.0;
        for step in 0..effort.steps {
            if point.objective <= floor || small == SMALL_STEPS {
                return Some((point, step));
            }
            let (next, predicted) = self.step(&point, damping, effort.products)?;
            let gain = point.objective - next.objective;
            log(step, &point, damping, gain, predicted, total);
            let share = gain / predicted;
            if share > 0.0 {
                small = if gain < SMALL_GAIN * point.objective && (kappa == 0.0 || lambda.get() < 1e-9) { small + 1 } else { 0 };
                point = next;
                if PRIOR_ON.load(std::sync::atomic::Ordering::Relaxed) { point = reg(point)?; }
                damping = (damping * (1.0 - (2.0 * share - 1.0).powi(3)).clamp(0.2, 2.0)).max(1e-9);
                growth = 4.0;
            } else {
                damping *= growth;
                growth *= 4.0;
                if damping > 1e4 {
                    return Some((point, step));
                }
            }
        }
        Some((point, effort.steps))
    }

    /// The point that (H + damping C) X = -gradient leads to, C being H without its projectors, and by how much the objective should fall.
    fn step(&self, point: &Point, damping: f64, products: usize) -> Option<(Point, f64)> {
        let (a, v) = (point.left.as_ref(), point.right.as_ref());
        let packed = product(self.weights.transpose(), pairs(a).as_ref());
        let inverses = Inverses::new(packed.as_ref(), None, self.rank)?;
        let damped = |x: &Mat<f64>| {
            let mut out = Mat::<f64>::zeros(x.nrows(), x.ncols());
            for j in 0..self.rank {
                for k in 0..=j {
                    let gram = packed.col(j * (j + 1) / 2 + k);
                    for d in 0..x.nrows() {
                        out[(d, j)] += gram[d] * x[(d, k)];
                        if k < j {
                            out[(d, k)] += gram[d] * x[(d, j)];
                        }
                    }
                }
            }
            out
        };
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
        let mut x = Mat::<f64>::zeros(v.nrows(), self.rank);
        let mut r = gradient.clone();
        let mut z = precondition(&r);
        let mut p = z.clone();
        let mut rho = inner(&r, &z);
        let goal = 1e-4 * rho;
        for _ in 0..products {
            if rho <= goal {
                break;
            }
            let q = hessian(&p);
            let curvature = inner(&p, &q);
            if curvature <= 0.0 {
                break;
            }
            let length = rho / curvature;
            x += &p * faer::Scale(length);
            r -= q * faer::Scale(length);
            z = precondition(&r);
            let next = inner(&r, &z);
            p = &z + &p * faer::Scale(next / rho);
            rho = next;
        }
        // f falls by 2 g.x - x.H x, and (H + damping C) x = g - r.
        let predicted = inner(&x, &(&gradient + &r)) + damping * inner(&x, &damped(&x));
        let moved = v + x;
        let right = moved.qr().compute_thin_Q();
        Some((self.at(right, point.prior.clone())?, predicted))
    }

    /// Root mean square of the residual, relative to that of the values, each entry with its weight.
    fn error(&self, point: &Point, weight: impl Fn((usize, usize)) -> f64) -> f64 {
        let made = product(point.left.as_ref(), point.right.transpose());
        let (mut error, mut size) = (0.0, 0.0);
        for j in 0..made.ncols() {
            for i in 0..made.nrows() {
                let value = self.values[(i, j)];
                error += weight((i, j)) * (value - made[(i, j)]).powi(2);
                size += weight((i, j)) * value * value;
            }
        }
        (error / size).sqrt()
    }
}

static PRIOR_ON: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);
fn log(step: usize, point: &Point, damping: f64, gain: f64, predicted: f64, total: f64) {
    if std::env::var("LR_LOG").is_ok() {
        eprintln!(
            "{step}: fit {:.3e} damping {damping:.1e} gain {:.3} of predicted {:.3}",
            (point.misfit / total).sqrt(),
            gain / point.objective,
            predicted / point.objective
        );
    }
}

fn multiply(x: &mut Mat<f64>, weights: &Mat<f64>) {
    for (x, weights) in x.col_iter_mut().zip(weights.col_iter()) {
        x.iter_mut().zip(weights.iter()).for_each(|(x, weight)| *x *= weight);
    }
}

fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.col_iter().zip(b.col_iter()).map(|(a, b)| a.iter().zip(b.iter()).map(|(a, b)| a * b).sum::<f64>()).sum()
}
