//! Alternating least squares with total variation: embedding inversion that treats dropped entries as unknowns.

use std::ops::{ControlFlow, Range};

use faer::{
    Accum, Col, ColMut, Mat, MatRef, Par, Side,
    linalg::{
        matmul::matmul,
        solvers::{Llt, Solve},
    },
};
use unmask_core::{AttackMethod, VitConfig};

use crate::{
    AccumulatedRounds, AttackError, AttackProgress, Ending, Reconstruction,
    least_squares::Spectrum,
    model::POSITION,
    total_variation::{Channel, Roughness},
};

/// Smoothing of the total variation, in the model's input space [-1, 1].
const EPS: f64 = 0.03;
const REWEIGHTINGS: usize = 3;
/// Weight of the total variation in the first iteration, per expected error of an equation.
const FIRST_SMOOTHNESS: f64 = 0.1;
const LAST_SMOOTHNESS: f64 = 0.003;
/// First and last smoothness where every equation is exact but there are fewer of them than patches.
const UNDETERMINED_SMOOTHNESS: (f64, f64) = (1e-4, 1e-8);
/// Expected relative error of an equation with all coefficients known. Such equations weigh a million times more than
/// those that rest on guesses.
const LEAST_ERROR: f64 = 1e-6;
/// Ridge of the gradient step, per S times the picture's mean square.
const RIDGE: f64 = 0.1;
/// Relative residual at which conjugate gradients stop, in the preconditioner's norm.
const TOLERANCE: f64 = 1e-5;
/// Tolerance where some directions have almost no data and only the prior decides.
const TIGHT_TOLERANCE: f64 = 1e-8;
const MOST_STEPS: usize = 1000;

/// Outer iterations of [`als`]. More of them gain little.
pub const ALS_ITERATIONS: usize = 10;

/// Recovers the picture X `[S, L]` and the dropped entries of G_pos `[S, D]` by turns.
///
/// G_E = G_pos^T X and b_E = G_pos^T 1 hold for the kept entries, see [`crate::embedding_inversion`]. Starting from G =
/// kept / (1 - R), each iteration takes two steps:
/// - *picture*: least squares over the kept entries of G_E plus isotropic total variation, one colour channel at a
///   time, by iteratively reweighted least squares. X is clamped to [-1, 1]. An equation weighs less the more of its
///   coefficients are unknown, or uncertain because the model drifted between rounds.
/// - *gradient*: for each column of G, ridge regression of the missing entries on the kept entries of its row of [G_E |
///   b_E], with regressors [X, 1]. Kept entries do not change.
///
/// The weight of the total variation falls geometrically from 0.1 times the arithmetic mean of the equations' expected
/// errors to 0.003 times their harmonic mean, which is almost zero once enough equations are exact.
///
/// At least one iteration runs. `progress` is called after each, with ||G_pos^T X - G_E||^2 / ||G_E||^2 over the kept
/// entries of G_E as the objective: 1 explains nothing, 0 everything. If it breaks, the current picture is returned.
///
/// # Errors
/// [`AttackError::NothingKept`] without a round; [`AttackError::Unsolvable`] if values are too large or too small.
pub fn als(
    rounds: &AccumulatedRounds,
    iterations: usize,
    mut progress: impl FnMut(AttackProgress<'_>) -> ControlFlow<()>,
) -> Result<Reconstruction, AttackError> {
    if rounds.rounds() == 0 {
        return Err(AttackError::NothingKept { name: POSITION });
    }
    let unsolvable = || AttackError::Unsolvable { method: AttackMethod::Embedding };
    let config = rounds.config();
    let errors: Vec<f64> = rounds.equation_errors().iter().map(|error| error + LEAST_ERROR).collect();
    let equations = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / equations;
    let harmonic = equations / errors.iter().map(|error| error.recip()).sum::<f64>();
    // With too few exact equations only the prior chooses among the solutions, so it needs a noticeable weight.
    let fewest = (0..rounds.patch().ncols()).map(|pixel| rounds.patch().known_in_column(pixel)).min().unwrap_or(0);
    let ((first, last), tolerance) = if rounds.position().is_whole() && fewest < config.patches() {
        (UNDETERMINED_SMOOTHNESS, TIGHT_TOLERANCE)
    } else {
        ((FIRST_SMOOTHNESS * mean, LAST_SMOOTHNESS * harmonic), TOLERANCE)
    };

    let position = rounds.position();
    let share = position.known() as f64 / position.len() as f64;
    // A common scale keeps squares from overflowing or vanishing.
    let size = position.mean_square().sqrt();
    let mut g = &position.values * faer::Scale(1.0 / (share * size));
    let mut x = Mat::zeros(config.patches(), config.patch_len());
    let iterations = iterations.max(1);
    for iteration in 1.. {
        let done = (iteration - 1) as f64 / (iterations - 1).max(1) as f64;
        let smoothing = Smoothing { weight: first * (last / first).powf(done), tolerance };
        step_picture(rounds, &errors, size, g.as_ref(), &mut x, smoothing).ok_or_else(unsolvable)?;
        let spectrum = spectrum(g.as_ref()).ok_or_else(unsolvable)?;
        let mut picture = Reconstruction::from_patches(x.as_ref(), config, spectrum);
        picture.note_hidden(rounds);
        let objective = misfit(rounds, size, g.as_ref(), x.as_ref());
        if !objective.is_finite() {
            return Err(unsolvable());
        }
        let at = AttackProgress { iteration, iterations, objective, pictures: &picture.image };
        let is_ended = progress(at).is_break() && iteration < iterations;
        if is_ended || iteration >= iterations {
            picture.ending = if is_ended { Ending::Ended } else { Ending::Settled };
            return Ok(picture);
        }
        step_gradient(rounds, size, x.as_ref(), &mut g).ok_or_else(unsolvable)?;
    }
    Err(unsolvable())
}

/// Weight of the total variation in one picture step, and the accuracy of its solution.
#[derive(Clone, Copy)]
struct Smoothing {
    weight: f64,
    tolerance: f64,
}

fn spectrum(g: MatRef<'_, f64>) -> Option<Spectrum> {
    let singular = g.singular_values().ok()?;
    let (&largest, &smallest) = (singular.first()?, singular.last()?);
    Some(Spectrum { ratio: smallest / largest, kept: singular.len(), total: singular.len() })
}

fn misfit(rounds: &AccumulatedRounds, size: f64, g: MatRef<'_, f64>, x: MatRef<'_, f64>) -> f64 {
    let patch = rounds.patch();
    let explained = g.transpose() * x;
    let (mut left, mut all) = (0.0, 0.0);
    for column in 0..patch.ncols() {
        for row in (0..patch.nrows()).filter(|&row| patch.is_known(row, column)) {
            let value = patch.values[(row, column)] / size;
            left += (value - explained[(row, column)]).powi(2);
            all += value * value;
        }
    }
    left / all
}

/// Fills the unknown entries of G by ridge regression, column by column, and resets the known ones.
fn step_gradient(rounds: &AccumulatedRounds, size: f64, x: MatRef<'_, f64>, g: &mut Mat<f64>) -> Option<()> {
    let (position, patch, bias) = (rounds.position(), rounds.patch(), rounds.bias());
    let (s, l) = (x.nrows(), x.ncols());
    let ridge = RIDGE * x.squared_norm_l2() / l as f64;
    // The regressors [X, 1] and their targets [G_E | b_E].
    let regressor = |row: usize, equation: usize| if equation == l { 1.0 } else { x[(row, equation)] };
    for column in 0..position.ncols() {
        let unknown: Vec<usize> = (0..s).filter(|&row| !position.is_known(row, column)).collect();
        let mut equations: Vec<usize> = (0..l).filter(|&pixel| patch.is_known(column, pixel)).collect();
        if bias.is_known(column, 0) {
            equations.push(l);
        }
        for row in 0..s {
            g[(row, column)] = position.values[(row, column)] / size;
        }
        if unknown.is_empty() || equations.is_empty() {
            continue;
        }
        let observed = |equation: usize| {
            let (from, at) = if equation == l { (bias, 0) } else { (patch, equation) };
            (from.values[(column, at)] / size, from.weights[(column, at)].sqrt())
        };
        let a = Mat::from_fn(unknown.len(), equations.len(), |i, j| {
            observed(equations[j]).1 * regressor(unknown[i], equations[j])
        });
        let residual = Col::from_fn(equations.len(), |j| {
            let (value, weight) = observed(equations[j]);
            weight * (value - (0..s).map(|row| g[(row, column)] * regressor(row, equations[j])).sum::<f64>())
        });
        let mut normal = &a * a.transpose();
        for i in 0..unknown.len() {
            normal[(i, i)] += ridge;
        }
        let mut solution = &a * &residual;
        Llt::new(normal.as_ref(), Side::Lower).ok()?.solve_in_place(solution.as_mut());
        for (i, &row) in unknown.iter().enumerate() {
            g[(row, column)] = solution[i];
        }
    }
    Some(())
}

/// Fits a smooth picture to the kept entries of G_E.
fn step_picture(
    rounds: &AccumulatedRounds,
    errors: &[f64],
    size: f64,
    g: MatRef<'_, f64>,
    x: &mut Mat<f64>,
    smoothing: Smoothing,
) -> Option<()> {
    let config = rounds.config();
    let channel = Channel::new(config.grid(), config.patch);
    let (s, pixels) = (g.nrows(), config.patch * config.patch);
    for c in 0..VitConfig::CHANNELS {
        let normal = Normal::new(rounds, errors, size, g, c * pixels..(c + 1) * pixels)?;
        let at = |i: usize| (i % s, c * pixels + i / s);
        let mut picture: Vec<f64> = (0..channel.len()).map(|i| x[at(i)]).collect();
        for _ in 0..REWEIGHTINGS {
            let roughness = channel.roughness(&picture, EPS);
            normal.solve(&channel, &roughness, smoothing, &mut picture)?;
        }
        for (i, value) in picture.iter().enumerate() {
            x[at(i)] = value.clamp(-1.0, 1.0);
        }
    }
    Some(())
}

/// Normal equations of one colour channel's kept entries. They do not couple pixels at different places of a patch:
/// each place has its own H = sum_d w_d g_d g_d^T `[S, S]`.
struct Normal {
    blocks: Vec<Mat<f64>>,
    right: Vec<f64>,
}

impl Normal {
    /// Scales the equations so that all diagonals together have a mean of 1.
    fn new(
        rounds: &AccumulatedRounds,
        errors: &[f64],
        size: f64,
        g: MatRef<'_, f64>,
        pixels: Range<usize>,
    ) -> Option<Self> {
        let patch = rounds.patch();
        let (s, d) = (g.nrows(), g.ncols());
        let mut blocks = Vec::with_capacity(pixels.len());
        let mut right = Vec::with_capacity(pixels.len() * s);
        let mut weighted = Mat::zeros(s, d);
        for pixel in pixels.clone() {
            for (column, error) in errors.iter().enumerate() {
                let weight = patch.weights[(column, pixel)] / error;
                for row in 0..s {
                    weighted[(row, column)] = weight * g[(row, column)];
                }
            }
            let mut block = Mat::zeros(s, s);
            matmul(block.as_mut(), Accum::Replace, weighted.as_ref(), g.transpose(), 1.0, Par::Seq);
            blocks.push(block);
            right.extend((&weighted * patch.values.col(pixel)).iter().map(|value| value / size));
        }
        let trace: f64 = blocks.iter().map(|block| (0..s).map(|i| block[(i, i)]).sum::<f64>()).sum();
        let scale = (s * pixels.len()) as f64 / trace;
        if !scale.is_finite() {
            return None;
        }
        for block in &mut blocks {
            *block *= faer::Scale(scale);
        }
        right.iter_mut().for_each(|value| *value *= scale);
        Some(Self { blocks, right })
    }

    fn patches(&self) -> usize {
        self.blocks[0].nrows()
    }

    /// Solves (H + smoothness D^T W D) x = right by conjugate gradients, starting from `x`. The preconditioner uses all
    /// of H but only the diagonal of D^T W D.
    fn solve(&self, channel: &Channel, roughness: &Roughness, smoothing: Smoothing, x: &mut [f64]) -> Option<()> {
        let smoothness = smoothing.weight;
        let s = self.patches();
        let diagonal = channel.diagonal(roughness);
        let factors: Vec<Llt<f64>> = (self.blocks.iter().zip(diagonal.chunks_exact(s)))
            .map(|(block, diagonal)| {
                let mut block = block.clone();
                for (i, roughness) in diagonal.iter().enumerate() {
                    // Keeps rounding from making a block without data indefinite.
                    block[(i, i)] += smoothness * roughness + 1e-12;
                }
                Llt::new(block.as_ref(), Side::Lower).ok()
            })
            .collect::<Option<_>>()?;
        let precondition = |r: &[f64]| {
            let mut z = r.to_vec();
            for (factor, z) in factors.iter().zip(z.chunks_exact_mut(s)) {
                factor.solve_in_place(ColMut::from_slice_mut(z));
            }
            z
        };
        let apply = |x: &[f64]| {
            let mut out = vec![0.0; x.len()];
            for ((block, x), out) in self.blocks.iter().zip(x.chunks_exact(s)).zip(out.chunks_exact_mut(s)) {
                for (column, &x) in block.col_iter().zip(x) {
                    out.iter_mut().zip(column.iter()).for_each(|(out, value)| *out += value * x);
                }
            }
            channel.add_laplacian(roughness, smoothness, x, &mut out);
            out
        };

        let goal = smoothing.tolerance * smoothing.tolerance * dot(&self.right, &precondition(&self.right));
        let mut r: Vec<f64> = self.right.iter().zip(apply(x)).map(|(right, left)| right - left).collect();
        let mut z = precondition(&r);
        let mut p = z.clone();
        let mut rho = dot(&r, &z);
        for _ in 0..MOST_STEPS {
            if rho <= goal {
                break;
            }
            let q = apply(&p);
            let curvature = dot(&p, &q);
            if curvature <= 0.0 {
                break;
            }
            let length = rho / curvature;
            x.iter_mut().zip(&p).for_each(|(x, p)| *x += length * p);
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= length * q);
            z = precondition(&r);
            let next = dot(&r, &z);
            p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + next / rho * *p);
            rho = next;
        }
        rho.is_finite().then_some(())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
