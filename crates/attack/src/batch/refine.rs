//! One picture's patches, refined through block 0's attention.

use faer::{Mat, MatRef, Side, linalg::solvers::{Llt, Solve}};

use super::{
    block::{Block, normalised},
    inputs::{Inputs, norm_back},
    patch_space::PatchSpace,
    places::Places,
};
use crate::small_matrices::product;

const STEPS: usize = 25;
/// Share of the residual that a step must remove for another to follow.
const WORTH_A_STEP: f64 = 1e-3;

/// A picture's patches within their affine sets.
#[derive(Debug, Clone)]
pub(super) struct Refined {
    /// Coordinates of each patch, `[(B - 1) S, S]`.
    pub(super) coordinates: Mat<f64>,
    /// Distance between norm2's outputs of this picture and those of the tokens found, relative to the latter.
    pub(super) residual: f64,
}

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

/// Refines one picture's coordinates `[(B - 1) S, S]` by Levenberg-Marquardt, so that norm2's output matches the tokens
/// that the MLP gave away: LN2(z + attention(z)) = zhat for z = z(coordinates). Each token counts by its accuracy.
pub(super) fn refine(block: &Block, space: &PatchSpace, inputs: &Inputs, places: &Places, start: Mat<f64>) -> Refined {
    let problem = Problem::new(block, space, inputs, places);
    let mut at = start;
    let mut forward = Forward::run(block, problem.tokens(&at).as_ref());
    let mut left = problem.residual(&forward);
    let mut damping = 1e-9;
    for _ in 0..STEPS {
        let slope = problem.slope(&forward);
        let square = product(slope.transpose(), slope.as_ref());
        let right = product(slope.transpose(), left.as_ref());
        let before = left.squared_norm_l2();
        for _ in 0..10 {
            let mut damped = square.clone();
            let mean = (0..square.nrows()).map(|k| square[(k, k)]).sum::<f64>() / square.nrows().max(1) as f64;
            (0..square.nrows()).for_each(|k| damped[(k, k)] += damping * mean);
            if let Ok(factor) = Llt::new(damped.as_ref(), Side::Lower) {
                let step = factor.solve(&right);
                let next = Mat::from_fn(at.nrows(), at.ncols(), |row, n| at[(row, n)] - step[(n * at.nrows() + row, 0)]);
                let there = Forward::run(block, problem.tokens(&next).as_ref());
                let left_there = problem.residual(&there);
                if left_there.squared_norm_l2() < before {
                    (at, forward, left) = (next, there, left_there);
                    damping = (damping * 0.1).max(1e-14);
                    break;
                }
            }
            damping *= 10.0;
        }
        if left.squared_norm_l2() > before * (1.0 - WORTH_A_STEP) {
            break;
        }
    }
    let (mut error, mut size) = (0.0, 0.0);
    for (place, k) in places.iter().enumerate() {
        if let &Some(k) = k {
            error += (forward.second.0.col(place) - inputs.normed.col(k)).squared_norm_l2();
            size += inputs.normed.col(k).squared_norm_l2();
        }
    }
    Refined { coordinates: at, residual: (error / size).sqrt() }
}

struct Problem<'a> {
    block: &'a Block,
    space: &'a PatchSpace,
    inputs: &'a Inputs,
    /// Place, column of the inputs, and weight of each token that was found.
    targets: Vec<(usize, usize, f64)>,
}

impl<'a> Problem<'a> {
    fn new(block: &'a Block, space: &'a PatchSpace, inputs: &'a Inputs, places: &Places) -> Self {
        let found = places.iter().enumerate().filter_map(|(place, &k)| Some((place, k?)));
        // Below this the equations of f64 itself are inexact.
        let accuracy = |k: usize| inputs.residuals[k].max(1e-12);
        let best = places.iter().flatten().map(|&k| accuracy(k)).fold(f64::INFINITY, f64::min);
        let targets = found.map(|(place, k)| (place, k, best / accuracy(k))).collect();
        Self { block, space, inputs, targets }
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

    fn residual(&self, forward: &Forward) -> Mat<f64> {
        let dim = self.space.class.nrows();
        Mat::from_fn(dim * self.targets.len(), 1, |row, _| {
            let (place, k, weight) = self.targets[row / dim];
            weight * (forward.second.0[(row % dim, place)] - self.inputs.normed[(row % dim, k)])
        })
    }

    /// The residual's derivative by the coordinates, one position's after the other.
    fn slope(&self, forward: &Forward) -> Mat<f64> {
        let (dim, freedom) = (self.space.class.nrows(), self.space.freedom());
        let (positions, size) = (self.space.positions(), dim / self.block.heads);
        let root = (size as f64).sqrt();
        let Forward { first, heads, weights, mixed, second } = forward;
        let mut out = Mat::zeros(dim * self.targets.len(), freedom * positions);
        for n in 0..positions {
            let token = n + 1;
            // The position's token moves, and with it its query, key and value.
            let repeated = Mat::from_fn(dim, freedom, |row, _| first.0[(row, token)]);
            let mut moved = norm_back(repeated.as_ref(), self.space.token_along.as_ref());
            for column in moved.col_iter_mut() {
                let parts = column.iter_mut().zip(&self.block.norm1.weight);
                parts.for_each(|(value, weight)| *value *= weight * first.1[token]);
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
            for (index, &(place, _, weight)) in self.targets.iter().enumerate() {
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
                let scaled = norm_back(repeated.as_ref(), after.as_ref()) * faer::Scale(weight * second.1[place]);
                out.as_mut().submatrix_mut(index * dim, n * freedom, dim, freedom).copy_from(scaled);
            }
        }
        out
    }
}
