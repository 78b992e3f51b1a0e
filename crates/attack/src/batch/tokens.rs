//! The search for the tokens of a batch in block 0's MLP.

use std::ops::ControlFlow;

use faer::{
    Mat, MatRef, Side,
    linalg::solvers::{Llt, Solve},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    block::gelu,
    mlp::{Dual, MlpSpans},
    parallel,
};
use crate::{
    Ending, Rounding,
    small_matrices::{gram, product},
};

/// Starts that are tried side by side. It does not depend on the number of processors, so that the results do not.
const WAVE: usize = 8;
/// Most starts, as a multiple of the number of tokens.
const STARTS: usize = 30;
/// Most starts in a row that find nothing new.
const PATIENCE: usize = 160;
const STEPS: usize = 120;
const POLISHING: usize = 40;
/// A start is given up after this many steps that together shorten the residual by less than [`PROGRESS`].
const WINDOW: usize = 10;
const PROGRESS: f64 = 0.03;
/// Relative distance of two tokens that are one.
const SAME: f64 = 1e-3;

/// Largest relative residuals at which a point is a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) activation: f64,
    pub(super) dual: f64,
}

impl Tolerance {
    /// What true tokens stay below in gradients of this rounding. Points that are none have residuals of some percent.
    pub(super) fn of(rounding: Rounding) -> Self {
        match rounding {
            Rounding::F64 => Self { activation: 1e-7, dual: 1e-5 },
            _ => Self { activation: 1e-2, dual: 0.1 },
        }
    }
}

/// A token that lies in both sets.
#[derive(Debug, Clone)]
pub(super) struct Token {
    /// Its coordinates m `[N, 1]`: [h, 1] = V m.
    pub(super) m: Mat<f64>,
    pub(super) dual: Dual,
    /// Length of GELU(W1 h + b1) outside the span, relative to it.
    pub(super) residual: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Tokens {
    pub(super) found: Vec<Token>,
    pub(super) starts: usize,
    pub(super) ending: Ending,
}

/// The points with m . one = 1 and m . d = 0 for the tokens found before: m = origin + basis y.
struct Plane<'a> {
    spans: &'a MlpSpans,
    origin: Mat<f64>,
    basis: Mat<f64>,
    /// The hidden layer's input at the origin `[4 D, 1]`, and along the basis `[4 D, p]`.
    hidden: [Mat<f64>; 2],
    /// The normalised token at the origin `[D, 1]`, and along the basis `[D, p]`.
    normal: [Mat<f64>; 2],
}

impl<'a> Plane<'a> {
    fn new(spans: &'a MlpSpans, found: &[Token]) -> Option<Self> {
        let (count, rules) = (spans.count(), found.len() + 1);
        let rule = |row: usize, rule: usize| match rule.checked_sub(1) {
            None => spans.one[row],
            Some(k) => found[k].dual.direction[(row, 0)],
        };
        let rules = Mat::from_fn(count, rules, rule);
        let qr = rules.qr();
        let (q, r) = (qr.compute_Q(), qr.thin_R());
        let mut along = Mat::zeros(rules.ncols(), 1);
        along[(0, 0)] = 1.0;
        // R^T x = e_1, by forward substitution.
        for row in 0..along.nrows() {
            let known: f64 = (0..row).map(|k| r[(k, row)] * along[(k, 0)]).sum();
            along[(row, 0)] = (along[(row, 0)] - known) / r[(row, row)];
        }
        let origin = product(q.subcols(0, rules.ncols()), along.as_ref());
        if origin.col(0).iter().any(|value| !value.is_finite()) {
            return None;
        }
        let basis = q.subcols(rules.ncols(), count - rules.ncols()).to_owned();
        let along = |from: &Mat<f64>| [product(from.as_ref(), origin.as_ref()), product(from.as_ref(), basis.as_ref())];
        let mut normal = along(&spans.normal);
        normal[0].col_mut(0).iter_mut().zip(&spans.shift).for_each(|(value, shift)| *value -= shift);
        Some(Self { spans, hidden: along(&spans.hidden), normal, origin, basis })
    }

    fn at(&self, y: MatRef<'_, f64>) -> Mat<f64> {
        &self.origin + product(self.basis.as_ref(), y)
    }

    /// A random direction, as long as a normalised token: |zhat|^2 = D.
    fn start(&self, seed: u64) -> Mat<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || -> f64 {
            // Twelve uniform numbers are normal enough for a direction.
            (0..12).map(|_| rng.random_range(-0.5..0.5)).sum::<f64>()
        };
        let y = Mat::from_fn(self.basis.ncols(), 1, |_, _| normal());
        let along = product(self.normal[1].as_ref(), y.as_ref());
        let (a, b) = (along.squared_norm_l2(), product(along.transpose(), self.normal[0].as_ref())[(0, 0)]);
        let c = self.normal[0].squared_norm_l2() - self.normal[0].nrows() as f64;
        let root = (b * b - a * c).max(0.0).sqrt();
        let scale = (root - b) / a;
        if scale.is_finite() { y * faer::Scale(scale) } else { y }
    }

    /// The residual at y: GELU's part outside the span, and |zhat|^2 / D - 1 if `is_normed`. Also the length of the
    /// activations, and GELU' at each.
    fn residual(&self, y: MatRef<'_, f64>, is_normed: bool) -> Point {
        let u = &self.hidden[0] + product(self.hidden[1].as_ref(), y);
        let (mut values, mut slopes) = (Mat::zeros(u.nrows(), 1), Vec::with_capacity(u.nrows()));
        for (value, &u) in values.col_mut(0).iter_mut().zip(u.col(0).iter()) {
            let (y, slope) = gelu(u);
            *value = y;
            slopes.push(slope);
        }
        let length = values.norm_l2();
        let basis = self.spans.activations.as_ref();
        let outside = &values - product(basis, product(basis.transpose(), values.as_ref()).as_ref());
        let zhat = &self.normal[0] + product(self.normal[1].as_ref(), y);
        let excess = if is_normed { zhat.squared_norm_l2() / zhat.nrows() as f64 - 1.0 } else { 0.0 };
        let square = excess * excess + outside.squared_norm_l2();
        Point { relative: outside.norm_l2() / length, outside, slopes, zhat, excess, square }
    }

    /// Levenberg-Marquardt from y. Returns the last point and its relative residual.
    fn descend(&self, mut y: Mat<f64>, is_normed: bool, steps: usize) -> (Mat<f64>, f64) {
        let mut point = self.residual(y.as_ref(), is_normed);
        let (width, basis) = (y.nrows(), self.spans.activations.as_ref());
        let mut damping = if is_normed { 1e-2 } else { 1e-9 };
        let mut history = vec![point.square];
        while width > 0 && history.len() <= steps {
            let mut slope = self.hidden[1].clone();
            for column in slope.col_iter_mut() {
                column.iter_mut().zip(&point.slopes).for_each(|(value, slope)| *value *= slope);
            }
            // J = slope - Q Q^T slope, and the residual has no part in Q.
            let mut square = gram(slope.as_ref()) - gram(product(basis.transpose(), slope.as_ref()).as_ref());
            let mut right = product(slope.transpose(), point.outside.as_ref());
            if is_normed {
                let scale = 2.0 / point.zhat.nrows() as f64;
                let row = product(self.normal[1].transpose(), point.zhat.as_ref()) * faer::Scale(scale);
                square += product(row.as_ref(), row.transpose());
                right += row * faer::Scale(point.excess);
            }
            let mut is_better = false;
            for _ in 0..12 {
                let mut damped = square.clone();
                (0..width).for_each(|k| damped[(k, k)] *= 1.0 + damping);
                let Ok(factor) = Llt::new(damped.as_ref(), Side::Lower) else {
                    damping = (damping * 10.0).max(1e-12);
                    continue;
                };
                let next = &y - factor.solve(&right);
                let there = self.residual(next.as_ref(), is_normed);
                if there.square < point.square {
                    is_better = true;
                    (y, point) = (next, there);
                    damping = (damping * 0.1).max(1e-15);
                    break;
                }
                damping *= 5.0;
            }
            history.push(point.square);
            let is_slow =
                history.len() > WINDOW && point.square > history[history.len() - 1 - WINDOW] * (1.0 - PROGRESS).powi(2);
            if !is_better || is_slow || point.relative < 1e-15 {
                break;
            }
        }
        (y, point.relative)
    }
}

struct Point {
    outside: Mat<f64>,
    slopes: Vec<f64>,
    zhat: Mat<f64>,
    excess: f64,
    square: f64,
    /// Length of the part outside the span, relative to the activations.
    relative: f64,
}

/// One start: descends on `plane`, where the tokens found before are ruled out, then on `all`, where they are not,
/// because their duals are as inexact as the gradient.
fn attempt(plane: &Plane<'_>, all: &Plane<'_>, tolerance: Tolerance, seed: u64) -> Option<Token> {
    let (y, residual) = plane.descend(plane.start(seed), true, STEPS);
    if residual > tolerance.activation.max(1e-3).sqrt() {
        return None;
    }
    let m = plane.at(y.as_ref());
    let y = product(all.basis.transpose(), (&m - &all.origin).as_ref());
    let (y, residual) = all.descend(y, false, POLISHING);
    if residual > tolerance.activation {
        return None;
    }
    let m = all.at(y.as_ref());
    let size = all.residual(y.as_ref(), true).excess;
    let dual = plane.spans.dual(m.as_ref())?;
    (dual.residual < tolerance.dual && size.abs() < 0.5).then_some(Token { m, dual, residual })
}

/// Finds the tokens behind `spans`, or as many as it can.
///
/// Each start minimises the part of GELU(W1 h + b1) outside its span by Levenberg-Marquardt, on the plane m . d = 0 of
/// the tokens found before, where no other token is lost. `progress` hears how many tokens were found after how many
/// starts, and may end the search. The result depends on the seed, but not on the number of threads.
pub(super) fn find(
    spans: &MlpSpans,
    tolerance: Tolerance,
    seed: u64,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Tokens {
    let count = spans.count();
    let mut tokens = Tokens { found: Vec::new(), starts: 0, ending: Ending::Unsettled };
    let Some(all) = Plane::new(spans, &[]) else { return tokens };
    let mut last_success = 0;
    while tokens.found.len() < count && tokens.starts < STARTS * count && tokens.starts - last_success < PATIENCE {
        let Some(plane) = Plane::new(spans, &tokens.found) else { break };
        let first = seed.wrapping_add(tokens.starts as u64);
        let tried = parallel::map(WAVE, |k| attempt(&plane, &all, tolerance, first.wrapping_add(k as u64)));
        tokens.starts += WAVE;
        for token in tried.into_iter().flatten() {
            let is_new = |known: &Token| (&known.m - &token.m).norm_l2() > SAME * token.m.norm_l2();
            if tokens.found.len() < count && tokens.found.iter().all(is_new) {
                tokens.found.push(token);
                last_success = tokens.starts;
            }
        }
        if progress(tokens.found.len(), tokens.starts).is_break() {
            tokens.ending = Ending::Ended;
            return tokens;
        }
    }
    if tokens.found.len() == count {
        tokens.ending = Ending::Settled;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{VitConfig, VitPreset};

    use super::*;
    use crate::{
        TensorSource, Tensors,
        batch::block::{Block, Layer, Norm},
    };

    fn planted(config: &VitConfig, count: usize, seed: u64) -> (Block, Mat<f64>, Tensors) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |rows: usize, columns: usize, size: f64| {
            Mat::from_fn(rows, columns, |_, _| size * (0..12).map(|_| rng.random_range(-0.5..0.5)).sum::<f64>())
        };
        let (dim, hidden) = (config.dim, config.mlp_dim());
        let vector = |from: Mat<f64>| from.col(0).iter().copied().collect::<Vec<f64>>();
        let mut layer = |out: usize, input: usize, size: f64| Layer {
            weight: draw(out, input, size),
            bias: vector(draw(out, 1, 0.1)),
        };
        let (qkv, proj) = (layer(3 * dim, dim, 0.1), layer(dim, dim, 0.1));
        let (fc1, fc2) = (layer(hidden, dim, 1.0 / (dim as f64).sqrt()), layer(dim, hidden, 0.1));
        let norm = |weight: Vec<f64>, bias: Vec<f64>| Norm { weight, bias };
        let scales = draw(dim, 2, 0.1);
        let weight: Vec<f64> = scales.col(0).iter().map(|value| 1.0 + value).collect();
        let bias: Vec<f64> = scales.col(1).iter().copied().collect();
        let norm1 = norm(weight.clone(), bias.clone());
        let block = Block { heads: config.heads, norm1, qkv, proj, norm2: norm(weight, bias), fc1, fc2 };

        let (zhat, _) = crate::batch::block::normalised(draw(dim, count, 1.0).as_ref());
        let slopes = draw(dim, count, 1.0);
        let h =
            Mat::from_fn(dim, count, |row, k| zhat[(row, k)].mul_add(block.norm2.weight[row], block.norm2.bias[row]));
        let u = block.fc1.apply(h.as_ref());
        let activations = Mat::from_fn(hidden, count, |row, k| gelu(u[(row, k)]).0);
        let back = product(block.fc2.weight.transpose(), slopes.as_ref());
        let deltas = Mat::from_fn(hidden, count, |row, k| back[(row, k)] * gelu(u[(row, k)]).1);
        let by_fc1 = product(deltas.as_ref(), h.transpose());
        let by_fc2 = product(slopes.as_ref(), activations.transpose());
        let flat = |from: &Mat<f64>| from.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        let mut gradients = Tensors::new(TensorSource::Gradients, config, Rounding::F64);
        let sums = deltas.row_iter().map(|row| row.iter().sum()).collect();
        gradients.insert("blocks.0.mlp.fc1.weight", &[hidden, dim], flat(&by_fc1)).unwrap();
        gradients.insert("blocks.0.mlp.fc1.bias", &[hidden], sums).unwrap();
        gradients.insert("blocks.0.mlp.fc2.weight", &[dim, hidden], flat(&by_fc2)).unwrap();
        (block, zhat, gradients)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Any layers, any tokens: all are found, and nothing else.
        #[test]
        fn planted_tokens_are_found(seed in 0u64..1_000_000, count in 1usize..20) {
            let config = VitConfig { dim: 36, heads: 3, ..VitPreset::NanoPatch8.into() };
            let (block, zhat, gradients) = planted(&config, count, seed);
            let spans = MlpSpans::read(&block, &gradients, count).unwrap().unwrap();
            let found = find(&spans, Tolerance::of(Rounding::F64), seed, &mut |_, _| ControlFlow::Continue(()));
            prop_assert_eq!(found.found.len(), count);
            for token in &found.found {
                let raw = product(spans.normal.as_ref(), token.m.as_ref());
                let distance = |k: usize| (0..36).map(|row| (raw[(row, 0)] - spans.shift[row] - zhat[(row, k)]).powi(2)).sum::<f64>();
                let nearest = (0..count).map(distance).fold(f64::INFINITY, f64::min);
                prop_assert!(nearest < 1e-12, "{nearest}");
            }
        }
    }
}
