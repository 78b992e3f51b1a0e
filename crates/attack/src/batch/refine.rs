//! One picture's patches, refined through block 0's attention.

use faer::{
    Mat, MatRef, Side,
    linalg::solvers::{Llt, Solve},
};

use super::{
    block::{Block, normalised},
    inputs::{Inputs, norm_back},
    patch_space::PatchSpace,
    places::Places,
    spans::{Pull, Residual, Spans, pull_activation},
};
use crate::small_matrices::{gram, product};

const STEPS: usize = 80;
/// Dampings tried for one step, each ten times the last: where a token is missing, the way leads along a narrow valley.
const TRIES: usize = 16;
/// Share of the residual that a step is worth, and how many steps in a row may remove less.
const WORTH_A_STEP: f64 = 1e-2;
const PATIENCE: usize = 3;

/// Block 0's attention of one picture, and what its derivatives need.
struct Forward {
    /// Normalised input of attention and 1 / its deviation, `[D, T]` and `[T]`.
    first: (Mat<f64>, Vec<f64>),
    heads: Mat<f64>,
    weights: Vec<Mat<f64>>,
    mixed: Mat<f64>,
    /// norm2's output without scale and shift and 1 / its deviation, `[D, T]` and `[T]`.
    second: (Mat<f64>, Vec<f64>),
}

impl Forward {
    fn run(block: &Block, z: MatRef<'_, f64>) -> Self {
        let heads = block.heads_of(z);
        let all: Vec<usize> = (0..z.ncols()).collect();
        let (mixed, weights) = block.attention(heads.as_ref(), &all);
        let after = z + block.proj.apply(mixed.as_ref());
        Self { first: normalised(z), heads, weights, mixed, second: normalised(after.as_ref()) }
    }
}

/// What a picture is fitted to.
#[derive(Clone, Copy)]
pub(super) enum Aim<'a> {
    /// The normalised tokens that the search found for its places: LN2(z + attention(z)) = zhat. Each token counts by
    /// its accuracy.
    Tokens(&'a Inputs, &'a Places),
    /// The row spaces of block 0's gradients, in units of their noise. No token needs to be found.
    Spans(&'a Spans),
}

/// Refines one picture's coordinates `[(B - 1) S, S]` by Levenberg-Marquardt through block 0's attention.
pub(super) fn refine(block: &Block, space: &PatchSpace, aim: Aim<'_>, start: Mat<f64>) -> Mat<f64> {
    let problem = Problem { block, space, aim };
    let mut at = start;
    let mut forward = Forward::run(block, problem.tokens(&at).as_ref());
    let mut error = problem.error(&forward);
    let mut damping = 1e-6;
    let (mut steps, mut slow) = (0, 0);
    while slow < PATIENCE && steps < STEPS {
        let (square, right) = problem.normal_equations(&forward);
        let before = error;
        for _ in 0..TRIES {
            let mut damped = square.clone();
            (0..square.nrows()).for_each(|k| damped[(k, k)] *= 1.0 + damping);
            if let Ok(factor) = Llt::new(damped.as_ref(), Side::Lower) {
                let step = factor.solve(&right);
                let next =
                    Mat::from_fn(at.nrows(), at.ncols(), |row, n| at[(row, n)] - step[(n * at.nrows() + row, 0)]);
                let there = Forward::run(block, problem.tokens(&next).as_ref());
                let error_there = problem.error(&there);
                if error_there < error {
                    (at, forward, error) = (next, there, error_there);
                    damping = (damping * 0.1).max(1e-13);
                    break;
                }
            }
            damping *= 10.0;
        }
        if error >= before || !error.is_finite() {
            break;
        }
        slow = if error > before * (1.0 - WORTH_A_STEP) { slow + 1 } else { 0 };
        steps += 1;
    }
    at
}

/// How far each of a picture's tokens lies outside the row spaces, relative to it: the furthest of those before
/// attention, before the MLP and after GELU. `z` are the picture's tokens `[D, T]`.
pub(super) fn residuals_to_spans(block: &Block, spans: &Spans, z: MatRef<'_, f64>) -> Vec<Residual> {
    let forward = Forward::run(block, z);
    let of = |place: usize| {
        let before = forward.first.0.as_ref().subcols(place, 1);
        let after = forward.second.0.as_ref().subcols(place, 1);
        spans.residual(block, before, after)
    };
    (0..z.ncols()).map(of).collect()
}

/// The tokens `[D, S + 1]` of patches `[L, S]`, class token first.
pub(super) fn tokens_of_patches(space: &PatchSpace, patches: &Mat<f64>) -> Mat<f64> {
    let mut z = Mat::zeros(space.class.nrows(), space.positions() + 1);
    z.as_mut().subcols_mut(0, 1).copy_from(&space.class);
    z.as_mut().subcols_mut(1, space.positions()).copy_from(space.embedded(patches.as_ref()));
    z
}

/// norm2's outputs `[D, S + 1]` of a picture, without scale and shift.
pub(super) fn normed_outputs(block: &Block, z: MatRef<'_, f64>) -> Mat<f64> {
    Forward::run(block, z).second.0
}

/// The pulls on the token before attention, and on that before the MLP.
fn span_pulls(block: &Block, spans: &Spans, forward: &Forward, place: usize, slopes: bool) -> (Pull, [Pull; 2]) {
    let before = forward.first.0.as_ref().subcols(place, 1);
    let after = forward.second.0.as_ref().subcols(place, 1);
    (
        spans.attention.pull(before, slopes),
        [spans.mlp.pull(after, slopes), pull_activation(&spans.activation, block, after, slopes)],
    )
}

struct Problem<'a> {
    block: &'a Block,
    space: &'a PatchSpace,
    aim: Aim<'a>,
}

impl Problem<'_> {
    /// The squared misfit.
    fn error(&self, forward: &Forward) -> f64 {
        match self.aim {
            Aim::Tokens(inputs, places) => {
                self.token_pulls(forward, inputs, places).iter().map(|(_, pull)| pull.error).sum()
            }
            Aim::Spans(spans) => {
                let of = |place| {
                    let (attention, mlp) = span_pulls(self.block, spans, forward, place, false);
                    attention.error + mlp.iter().map(|pull| pull.error).sum::<f64>()
                };
                (0..self.space.positions() + 1).map(of).sum()
            }
        }
    }

    /// The pull of each token that was found on its place.
    fn token_pulls(&self, forward: &Forward, inputs: &Inputs, places: &Places) -> Vec<(usize, Pull)> {
        // Below this the equations of f64 itself are inexact.
        let accuracy = |k: usize| inputs.residuals[k].max(1e-12);
        let best = places.iter().flatten().map(|&k| accuracy(k)).fold(f64::INFINITY, f64::min);
        let found = places.iter().enumerate().filter_map(|(place, &k)| Some((place, k?)));
        let pull = |(place, k): (usize, usize)| {
            let weight = (best / accuracy(k)).powi(2);
            let slope = forward.second.0.as_ref().subcols(place, 1) - inputs.normed.as_ref().subcols(k, 1);
            let error = weight * slope.squared_norm_l2();
            (place, Pull { error, slope: slope * faer::Scale(weight), metric: Mat::from_fn(1, 1, |_, _| weight) })
        };
        found.map(pull).collect()
    }

    /// J^T J and J^T r of the misfit by the coordinates, one position's after the other.
    fn normal_equations(&self, forward: &Forward) -> (Mat<f64>, Mat<f64>) {
        let (dim, freedom, positions) = (self.space.class.nrows(), self.space.freedom(), self.space.positions());
        let mut before = Vec::new();
        let pulls: Vec<(usize, Pull)> = match self.aim {
            Aim::Tokens(inputs, places) => self.token_pulls(forward, inputs, places),
            Aim::Spans(spans) => (0..=positions)
                .map(|place| {
                    let (attention, [mlp, activation]) = span_pulls(self.block, spans, forward, place, true);
                    before.push(attention);
                    let (slope, metric) = (mlp.slope + activation.slope, mlp.metric + activation.metric);
                    (place, Pull { error: mlp.error + activation.error, slope, metric })
                })
                .collect(),
        };
        let places: Vec<usize> = pulls.iter().map(|(place, _)| *place).collect();
        let (mut rows, inner) = self.slopes(forward, &places);
        let mut right = Mat::zeros(freedom * positions, 1);
        for (index, (_, pull)) in pulls.iter().enumerate() {
            let mut block = rows.as_mut().subrows_mut(index * dim, dim);
            right += product(block.as_ref().transpose(), pull.slope.as_ref());
            if pull.metric.nrows() == 1 {
                block *= faer::Scale(pull.metric[(0, 0)].sqrt());
            } else if let Some(root) = root(&pull.metric) {
                let scaled = product(root.transpose(), block.as_ref());
                block.copy_from(scaled);
            }
        }
        let mut square = gram(rows.as_ref());
        for (n, inner) in inner.iter().enumerate() {
            let Some(pull) = before.get(n + 1) else { continue };
            let turned = product(pull.metric.as_ref(), inner.as_ref());
            let mut corner = square.as_mut().submatrix_mut(n * freedom, n * freedom, freedom, freedom);
            corner += product(inner.transpose(), turned.as_ref());
            let mut part = right.as_mut().subrows_mut(n * freedom, freedom);
            part += product(inner.transpose(), pull.slope.as_ref());
        }
        (square, right)
    }

    /// Block inputs `[D, T]`.
    fn tokens(&self, at: &Mat<f64>) -> Mat<f64> {
        let mut z = Mat::zeros(self.space.class.nrows(), self.space.positions() + 1);
        z.as_mut().subcols_mut(0, 1).copy_from(&self.space.class);
        z.as_mut().subcols_mut(1, self.space.positions()).copy_from(&self.space.tokens);
        let moved = product(self.space.token_along.as_ref(), at.as_ref());
        let mut rest = z.as_mut().subcols_mut(1, self.space.positions());
        rest += moved;
        z
    }

    /// The derivatives of norm2's normalised outputs at `places`, `[D places, (B - 1) S S]`, and of each position's
    /// normalised input, `[D, (B - 1) S]`, by the coordinates.
    fn slopes(&self, forward: &Forward, places: &[usize]) -> (Mat<f64>, Vec<Mat<f64>>) {
        let (dim, freedom) = (self.space.class.nrows(), self.space.freedom());
        let (positions, size) = (self.space.positions(), dim / self.block.heads);
        let root = (size as f64).sqrt();
        let Forward { first, heads, weights, mixed, second } = forward;
        let mut out = Mat::zeros(dim * places.len(), freedom * positions);
        let mut inner = Vec::with_capacity(positions);
        for n in 0..positions {
            let token = n + 1;
            // The position's token moves, and with it its query, key and value.
            let repeated = Mat::from_fn(dim, freedom, |row, _| first.0[(row, token)]);
            let mut moved = norm_back(repeated.as_ref(), self.space.token_along.as_ref());
            for column in moved.col_iter_mut() {
                column.iter_mut().for_each(|value| *value *= first.1[token]);
            }
            inner.push(moved.clone());
            for column in moved.col_iter_mut() {
                let parts = column.iter_mut().zip(&self.block.norm1.weight);
                parts.for_each(|(value, weight)| *value *= weight);
            }
            let moved = product(self.block.qkv.weight.as_ref(), moved.as_ref());
            let part = |which: usize, head: usize| moved.as_ref().subrows(which * dim + head * size, size);
            let columns = |which: usize, head: usize| heads.as_ref().subrows(which * dim + head * size, size);
            let proj = |head: usize| self.block.proj.weight.as_ref().subcols(head * size, size);
            let by_value: Vec<Mat<f64>> =
                (0..self.block.heads).map(|head| product(proj(head), part(2, head))).collect();
            // Rows: how each token's score for this one moves.
            let by_key: Vec<Mat<f64>> =
                (0..self.block.heads).map(|head| product(columns(0, head).transpose(), part(1, head))).collect();
            for (index, &place) in places.iter().enumerate() {
                let mut after = Mat::<f64>::zeros(dim, freedom);
                for head in 0..self.block.heads {
                    let share = weights[head][(place, token)];
                    after += &by_value[head] * faer::Scale(share);
                    let own = mixed.as_ref().subrows(head * size, size).subcols(place, 1);
                    let pull = product(proj(head), (columns(2, head).subcols(token, 1) - own).as_ref());
                    let turn = by_key[head].as_ref().subrows(place, 1) * faer::Scale(share / root);
                    after += product(pull.as_ref(), turn.as_ref());
                    if place == token {
                        // Its query moves too.
                        let tokens = positions + 1;
                        let pulls = Mat::from_fn(size, tokens, |row, j| {
                            weights[head][(place, j)] * (columns(2, head)[(row, j)] - own[(row, 0)]) / root
                        });
                        let scores = product(columns(1, head).transpose(), part(0, head));
                        let turned = product(pulls.as_ref(), scores.as_ref());
                        after += product(proj(head), turned.as_ref());
                    }
                }
                if place == token {
                    after += &self.space.token_along;
                }
                let repeated = Mat::from_fn(dim, freedom, |row, _| second.0[(row, place)]);
                let scaled = norm_back(repeated.as_ref(), after.as_ref()) * faer::Scale(second.1[place]);
                out.as_mut().submatrix_mut(index * dim, n * freedom, dim, freedom).copy_from(scaled);
            }
        }
        (out, inner)
    }
}

/// L with L L^T = `metric`, which may be indefinite by rounding.
fn root(metric: &Mat<f64>) -> Option<Mat<f64>> {
    let mean = (0..metric.nrows()).map(|k| metric[(k, k)]).sum::<f64>() / metric.nrows() as f64;
    for ridge in [1e-14, 1e-11, 1e-8] {
        let mut raised = metric.clone();
        (0..raised.nrows()).for_each(|k| raised[(k, k)] += ridge * mean);
        if let Ok(factor) = Llt::new(raised.as_ref(), Side::Lower) {
            return Some(factor.L().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use unmask_core::{VitConfig, VitPreset};

    use super::*;
    use crate::{Rounding, batch::cases::case, reconstruction::patches_of};

    /// The attention of the other tokens tells what the patches are whose tokens were not found.
    #[test]
    fn places_whose_tokens_were_not_found_are_filled() {
        let config: VitConfig = VitPreset::NanoPatch8.into();
        let case = case(&config, &[0, 3], &[3, 8], 1, Rounding::F64);
        let (weights, gradients) = (&case.evidence.weights, &case.evidence.gradients);
        let (block, space) = (Block::read(weights).unwrap(), PatchSpace::read(weights, gradients, 2).unwrap());
        let truth = patches_of(&case.pictures[0], &config).transpose().to_owned();
        let normed = normed_outputs(&block, tokens_of_patches(&space, &truth).as_ref());
        let tokens = config.tokens();
        let none = Mat::zeros(0, tokens);
        let inputs = Inputs {
            normed,
            centred: none.clone(),
            mixed: none,
            noise: vec![1.0; tokens],
            residuals: vec![1e-12; tokens],
        };
        let exact = product(space.along.transpose(), (&truth - &space.first).as_ref());
        for missing in [vec![16, 3, 6], vec![4, 7, 10, 13]] {
            let places: Places = (0..tokens).map(|place| (!missing.contains(&place)).then_some(place)).collect();
            let start = Mat::from_fn(space.freedom(), space.positions(), |row, n| {
                if missing.contains(&(n + 1)) { 0.0 } else { exact[(row, n)] }
            });
            let at = refine(&block, &space, Aim::Tokens(&inputs, &places), start);
            let error = (space.patches(at.as_ref()) - &truth).norm_max();
            assert!(error < 1e-5, "{missing:?}: {error}");
        }
    }
}
