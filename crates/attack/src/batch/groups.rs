//! Which tokens belong to one picture.

use faer::{
    Mat, MatRef, Side,
    linalg::solvers::{DenseSolveCore, Llt},
};

use super::{assignment::cheapest, block::Block, inputs::Inputs, parallel, places::Places};
use crate::{
    least_squares::least_squares,
    small_matrices::{gram, product},
};

/// Most sweeps over all positions. Each sweep that changes nothing ends the search.
const SWEEPS: usize = 20;
/// Most that one token's attention may say about another token: its noise is only an estimate.
const MOST_SAID: f64 = 20.0;
/// How firmly the indicators of one place sum up to 1, and how firmly each is near 1 / B before anything is known, as
/// 1 / variance.
const SUM_PRECISION: f64 = 1e6;
const PRIOR_PRECISION: f64 = 4.0;

/// What attention mixed, and the tokens that it may have mixed.
struct Mixing<'a> {
    block: &'a Block,
    inputs: &'a Inputs,
    /// Queries, keys and values `[3 D, N]`.
    heads: Mat<f64>,
    /// The place of each token, `[N]`.
    place_of: &'a [usize],
    batch: usize,
}

impl Mixing<'_> {
    /// How much token `query` speaks for each token `[N]` being in its picture: the logarithm of the odds.
    ///
    /// With ind_j = 1 for the tokens of the picture and 0 for the others, each head mixed o with
    /// sum_j ind_j exp(q k_j / sqrt(size)) (v_j - o) = 0, which is linear in the indicators. What the equations leave
    /// over tells their noise, and with it how much each indicator is worth: one of a token that attention passed over
    /// is worth nothing.
    fn said_by(&self, query: usize) -> Option<Vec<f64>> {
        let (dim, heads, batch) = (self.inputs.mixed.nrows(), self.block.heads, self.batch as f64);
        let size = dim / heads;
        let others: Vec<usize> =
            (0..self.place_of.len()).filter(|&j| self.place_of[j] != self.place_of[query]).collect();
        let score = |head: usize, j: usize| {
            let rows = head * size..(head + 1) * size;
            let dot: f64 = rows.map(|row| self.heads[(row, query)] * self.heads[(dim + row, j)]).sum();
            dot / (size as f64).sqrt()
        };
        let mut all = others.clone();
        all.push(query);
        // Powers relative to the largest, so that none overflows. `[heads, N']`
        let mut powers = Mat::from_fn(heads, all.len(), |head, at| score(head, all[at]));
        for head in 0..heads {
            let most = powers.row(head).iter().copied().fold(f64::NEG_INFINITY, f64::max);
            powers.row_mut(head).iter_mut().for_each(|power| *power = (*power - most).exp());
        }
        let term = |row: usize, at: usize| {
            powers[(row / size, at)] * (self.heads[(2 * dim + row, all[at])] - self.inputs.mixed[(row, query)])
        };
        let matrix = Mat::from_fn(dim, others.len(), term);
        let right = Mat::from_fn(dim, 1, |row, _| -term(row, others.len()));
        let (fit, _) = least_squares(matrix.as_ref(), right.as_ref(), 1e-9)?;
        let left = (product(matrix.as_ref(), fit.as_ref()) - &right).squared_norm_l2();
        let scale = right.squared_norm_l2().max(matrix.squared_norm_l2());
        let noise = (left / dim.saturating_sub(others.len()).max(1) as f64).max(1e-26 * scale);

        // The posterior of the indicators: P x = y.
        let mut precision = gram(matrix.as_ref()) * faer::Scale(1.0 / noise);
        let mut known = product(matrix.transpose(), right.as_ref()) * faer::Scale(1.0 / noise);
        let full = |place: usize| self.place_of.iter().filter(|&&other| other == place).count() == self.batch;
        for at in 0..others.len() {
            precision[(at, at)] += PRIOR_PRECISION;
            known[(at, 0)] += PRIOR_PRECISION / batch;
            let place = self.place_of[others[at]];
            if full(place) {
                known[(at, 0)] += SUM_PRECISION;
                for to in 0..others.len() {
                    if self.place_of[others[to]] == place {
                        precision[(at, to)] += SUM_PRECISION;
                    }
                }
            }
        }
        let variance = Llt::new(precision.as_ref(), Side::Lower).ok()?.inverse();
        let mean = product(variance.as_ref(), known.as_ref());
        let mut said = vec![0.0; self.place_of.len()];
        for (at, &j) in others.iter().enumerate() {
            let value = mean[(at, 0)];
            // A value that is neither 0 nor 1 is as inexact as that.
            let off = value.abs().min((1.0 - value).abs());
            let odds = (value - 0.5) / off.mul_add(off, variance[(at, at)].max(0.0));
            said[j] = if odds.is_finite() { odds.clamp(-MOST_SAID, MOST_SAID) } else { 0.0 };
        }
        Some(said)
    }

    /// How much speaks for each two tokens being in one picture, `[N, N]`.
    fn odds(&self) -> Mat<f64> {
        let count = self.place_of.len();
        let said = parallel::map(count, |query| self.said_by(query).unwrap_or_else(|| vec![0.0; count]));
        Mat::from_fn(count, count, |j, k| said[j][k] + said[k][j])
    }

    /// How badly a picture explains what attention mixed: for each token, D times the logarithm of the error, because
    /// nobody knows how exact its equations are.
    fn cost(&self, picture: &Places) -> f64 {
        let tokens: Vec<usize> = picture.iter().copied().flatten().collect();
        let (mixed, _) = self.block.attention(self.heads.as_ref(), &tokens);
        let errors = tokens.iter().enumerate().map(|(at, &k)| {
            let own = self.inputs.mixed.col(k);
            ((mixed.col(at) - own).squared_norm_l2() / own.squared_norm_l2()).max(1e-24).ln()
        });
        errors.sum()
    }
}

/// The pictures so far, and what speaks for them.
struct Division {
    odds: Mat<f64>,
    /// Tokens at each place.
    at: Vec<Vec<usize>>,
    pictures: Vec<Places>,
}

impl Division {
    /// Minus what speaks for each token of a place being in each picture, without what is there now: `[tokens, B]`.
    fn costs(&self, place: usize) -> Mat<f64> {
        let member = |picture: &Places, token: usize| -> f64 {
            let others = picture.iter().enumerate().filter_map(|(other, &k)| Some((other, k?)));
            others.filter(|(other, _)| *other != place).map(|(_, k)| self.odds[(token, k)]).sum()
        };
        Mat::from_fn(self.at[place].len(), self.pictures.len(), |row, picture| {
            -member(&self.pictures[picture], self.at[place][row])
        })
    }

    /// Assigns the tokens of a place.
    fn assign(&mut self, place: usize, chosen: &[usize]) {
        for (index, picture) in self.pictures.iter_mut().enumerate() {
            picture[place] = chosen.iter().position(|&picture| picture == index).map(|row| self.at[place][row]);
        }
    }

    /// Assigns place after place, the one with the clearest choice first.
    fn grow(&mut self, mut places: Vec<usize>) {
        while !places.is_empty() {
            let best = places.iter().enumerate().map(|(index, &place)| {
                let costs = self.costs(place);
                let chosen = cheapest(costs.as_ref());
                (clearness(costs.as_ref(), &chosen), index, chosen)
            });
            let Some((_, index, chosen)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            let place = places.remove(index);
            self.assign(place, &chosen);
        }
        for _ in 0..SWEEPS {
            let before = self.pictures.clone();
            for place in 0..self.at.len() {
                let chosen = cheapest(self.costs(place).as_ref());
                self.assign(place, &chosen);
            }
            if self.pictures == before {
                break;
            }
        }
    }
}

/// By how much every other choice is dearer.
fn clearness(costs: MatRef<'_, f64>, chosen: &[usize]) -> f64 {
    let sum = |chosen: &[usize]| chosen.iter().enumerate().map(|(row, &column)| costs[(row, column)]).sum::<f64>();
    let least = sum(chosen);
    let without = |row: usize| {
        let mut dearer = costs.to_owned();
        dearer[(row, chosen[row])] += 1e9;
        sum(&cheapest(dearer.as_ref())) - least
    };
    (0..chosen.len()).map(without).fold(f64::INFINITY, f64::min)
}

/// Divides the tokens among `batch` pictures, given their places and the denoised block inputs `z` `[D, N]`.
///
/// Every token's attention says which tokens it saw. These words together give a first division. Swaps of two
/// pictures' tokens at one position improve it while they explain better what attention mixed.
pub(super) fn pictures(block: &Block, inputs: &Inputs, z: &Mat<f64>, place_of: &[usize], batch: usize) -> Vec<Places> {
    let mixing = Mixing { block, inputs, heads: block.heads_of(z.as_ref()), place_of, batch };
    let places = place_of.iter().copied().max().map_or(0, |most| most + 1);
    let at: Vec<Vec<usize>> =
        (0..places).map(|place| (0..place_of.len()).filter(|&k| place_of[k] == place).collect()).collect();
    // The first of the fullest places begins the pictures: most often that of the class tokens, which are strongest.
    let Some(first) = (0..places).rev().max_by_key(|&place| at[place].len()) else { return Vec::new() };
    let mut division = Division { odds: mixing.odds(), at, pictures: vec![vec![None; places]; batch] };
    division.assign(first, &(0..division.at[first].len()).collect::<Vec<_>>());
    division.grow((0..places).filter(|&place| place != first).collect());
    let mut pictures = division.pictures;
    swap(&mixing, &mut pictures);
    pictures
}

/// Swaps tokens of two pictures at one position while that lowers the cost.
fn swap(mixing: &Mixing<'_>, pictures: &mut [Places]) {
    let mut costs: Vec<f64> = pictures.iter().map(|picture| mixing.cost(picture)).collect();
    let places = pictures.first().map_or(0, Vec::len);
    for _ in 0..SWEEPS {
        let mut is_changed = false;
        for place in 1..places {
            for one in 0..pictures.len() {
                for other in one + 1..pictures.len() {
                    let (mut a, mut b) = (pictures[one].clone(), pictures[other].clone());
                    std::mem::swap(&mut a[place], &mut b[place]);
                    let (cost_a, cost_b) = (mixing.cost(&a), mixing.cost(&b));
                    if cost_a + cost_b < costs[one] + costs[other] {
                        (costs[one], costs[other]) = (cost_a, cost_b);
                        (pictures[one], pictures[other]) = (a, b);
                        is_changed = true;
                    }
                }
            }
        }
        if !is_changed {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use unmask_core::{VitConfig, VitPreset};

    use super::*;
    use crate::batch::{
        block::{Layer, Norm, normalised},
        inputs::centred,
    };

    const PLACES: usize = 17;

    /// Random pictures, their tokens in any order, through attention that sees few tokens, as in trained models. Returns
    /// the block, what is known of the tokens, and the picture of each.
    fn planted(batch: usize, seed: u64) -> (Block, Inputs, Mat<f64>, Vec<usize>, Vec<usize>) {
        let config: VitConfig = VitPreset::NanoPatch8.into();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |rows: usize, columns: usize, size: f64| {
            Mat::from_fn(rows, columns, |_, _| size * (0..12).map(|_| rng.random_range(-0.5..0.5)).sum::<f64>())
        };
        let dim = config.dim;
        let mut layer =
            |out: usize, input: usize, size: f64| Layer { weight: draw(out, input, size), bias: vec![0.0; out] };
        let norm = || Norm { weight: vec![1.0; dim], bias: vec![0.0; dim] };
        let (proj, fc1, fc2) = (layer(dim, dim, 0.1), layer(4 * dim, dim, 0.1), layer(dim, 4 * dim, 0.1));
        let block =
            Block { heads: config.heads, norm1: norm(), qkv: layer(3 * dim, dim, 0.2), proj, norm2: norm(), fc1, fc2 };
        let class = draw(dim, 1, 1.0);
        let mut z = draw(dim, batch * PLACES, 1.0);
        (0..batch).for_each(|b| z.as_mut().subcols_mut(b * PLACES, 1).copy_from(&class));
        // The known tokens come in another order.
        let count = batch * PLACES;
        let scale_of = |b: usize| 10f64.powi(b as i32);
        let column_of = |token: usize| (token * 5 + 3) % count;
        let heads = block.heads_of(z.as_ref());
        let (mut known, mut mixed) = (Mat::zeros(dim, count), Mat::zeros(dim, count));
        let (mut place_of, mut picture_of) = (vec![0; count], vec![0; count]);
        for b in 0..batch {
            let own: Vec<usize> = (b * PLACES..(b + 1) * PLACES).collect();
            let (seen, _) = block.attention(heads.as_ref(), &own);
            for (place, &token) in own.iter().enumerate() {
                let column = column_of(token);
                // Class tokens are known, and the tokens of some pictures are weak.
                let noise = if place == 0 { 0.0 } else { 1e-3 * scale_of(b) };
                let inexact = z.as_ref().subcols(token, 1) + draw(dim, 1, noise);
                known.as_mut().subcols_mut(column, 1).copy_from(&inexact);
                mixed
                    .as_mut()
                    .subcols_mut(column, 1)
                    .copy_from(seen.as_ref().subcols(place, 1) + draw(dim, 1, 0.1 * noise));
                (place_of[column], picture_of[column]) = (place, b);
            }
        }
        let inputs = Inputs {
            normed: normalised(known.as_ref()).0,
            centred: centred(known.as_ref()),
            mixed,
            noise: picture_of.iter().map(|&b| scale_of(b)).collect(),
            residuals: vec![1e-6; count],
        };
        (block, inputs, known, place_of, picture_of)
    }

    #[test]
    fn tokens_that_saw_few_others_are_divided_rightly() {
        for batch in [2, 3] {
            for seed in 0..10 {
                let (block, inputs, z, place_of, picture_of) = planted(batch, seed);
                let found = pictures(&block, &inputs, &z, &place_of, batch);
                let is_one = |picture: &Places| {
                    let mut of: Vec<usize> = picture.iter().flatten().map(|&k| picture_of[k]).collect();
                    of.dedup();
                    of.len() == 1 && picture.iter().flatten().count() == PLACES
                };
                assert!(found.len() == batch && found.iter().all(is_one), "{batch} pictures, seed {seed}");
            }
        }
    }
}
