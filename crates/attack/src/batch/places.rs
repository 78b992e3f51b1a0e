//! Which token belongs where, and to which picture.

use faer::Mat;

use super::{assignment::cheapest, block::Block, inputs::Inputs, patch_space::PatchSpace};
use crate::least_squares::least_squares;

/// Most sweeps of swaps over all positions. Each sweep that changes nothing ends the search.
const SWEEPS: usize = 20;

/// The tokens of one picture by place, class token first: indices of [`Inputs`]' columns, `None` where none was found.
pub(super) type Places = Vec<Option<usize>>;

/// Assigns each token its place: 0 for a class token, n + 1 for the patch at position n.
pub(super) fn places(space: &PatchSpace, inputs: &Inputs, batch: usize) -> Vec<usize> {
    let places = space.positions() + 1;
    let distances = Mat::from_fn(inputs.centred.ncols(), places, |k, place| {
        let z = inputs.centred.subcols(k, 1);
        match place.checked_sub(1) {
            None => space.distance_to_class(z),
            Some(n) => space.nearest(n, z).1,
        }
    });
    let costs = Mat::from_fn(distances.nrows(), places * batch, |k, slot| distances[(k, slot / batch)].powi(2));
    cheapest(costs.as_ref()).into_iter().map(|slot| slot / batch).collect()
}

/// How well a grouping into pictures explains what attention mixed.
struct Grouping<'a> {
    block: &'a Block,
    inputs: &'a Inputs,
    /// Queries, keys and values `[3 D, N]`.
    heads: Mat<f64>,
}

impl Grouping<'_> {
    /// The squared error of the mixed values in one picture, each token's weighed by the noise in it.
    fn cost(&self, picture: &Places) -> f64 {
        let tokens: Vec<usize> = picture.iter().copied().flatten().collect();
        let (mixed, _) = self.block.attention(self.heads.as_ref(), &tokens);
        let errors = tokens.iter().enumerate().map(|(at, &k)| {
            let error = (mixed.col(at) - self.inputs.mixed.col(k)).squared_norm_l2();
            error / self.inputs.noise[k].powi(2)
        });
        errors.sum()
    }

    /// Whether each token `[N]` is in the picture of class token c, from what c mixed: with ind_c = 1, for each head,
    /// sum_j ind_j exp(q_c k_j / sqrt(size)) (v_j - o_c) = 0 is linear in the indicators.
    fn indicators(&self, class: usize, others: &[usize]) -> Option<Mat<f64>> {
        let dim = self.inputs.mixed.nrows();
        let size = dim / self.block.heads;
        let power = |head: usize, j: usize| {
            let row = head * size;
            let dot: f64 = (row..row + size).map(|r| self.heads[(r, class)] * self.heads[(dim + r, j)]).sum();
            (dot / (size as f64).sqrt()).exp()
        };
        let term = |row: usize, j: usize| {
            power(row / size, j) * (self.heads[(2 * dim + row, j)] - self.inputs.mixed[(row, class)])
        };
        let matrix = Mat::from_fn(dim, others.len(), |row, at| term(row, others[at]));
        let right = Mat::from_fn(dim, 1, |row, _| -term(row, class));
        Some(least_squares(matrix.as_ref(), right.as_ref(), 1e-9)?.0)
    }
}

/// Divides the tokens among `batch` pictures, given their places and the denoised block inputs `z` `[D, N]`.
///
/// The attention equation of the class tokens gives a first division. Swaps of two pictures' tokens at one position
/// improve it while they explain better what attention mixed. `None` if the class tokens were not all found.
pub(super) fn pictures(
    block: &Block,
    inputs: &Inputs,
    z: &Mat<f64>,
    place_of: &[usize],
    batch: usize,
) -> Option<Vec<Places>> {
    let grouping = Grouping { block, inputs, heads: block.heads_of(z.as_ref()) };
    let positions = place_of.iter().copied().max()?;
    let at = |place: usize| -> Vec<usize> { (0..place_of.len()).filter(|&k| place_of[k] == place).collect() };
    let classes = at(0);
    if classes.len() != batch {
        return None;
    }
    let others: Vec<usize> = (0..place_of.len()).filter(|&k| place_of[k] > 0).collect();
    let mut belongs = Vec::with_capacity(batch);
    for &class in &classes {
        belongs.push(grouping.indicators(class, &others)?);
    }
    let mut pictures: Vec<Places> = classes.iter().map(|&class| vec![Some(class)]).collect();
    for place in 1..=positions {
        let here = at(place);
        let costs = Mat::from_fn(here.len(), batch, |row, picture| {
            let index = others.iter().position(|&k| k == here[row]);
            index.map_or(0.0, |index| (1.0 - belongs[picture][(index, 0)]).clamp(-2.0, 3.0))
        });
        let chosen = cheapest(costs.as_ref());
        for (picture, places) in pictures.iter_mut().enumerate() {
            places.push(chosen.iter().position(|&c| c == picture).map(|row| here[row]));
        }
    }
    swap(&grouping, &mut pictures);
    Some(pictures)
}

/// Swaps tokens of two pictures at one position while that lowers the cost.
fn swap(grouping: &Grouping<'_>, pictures: &mut [Places]) {
    let mut costs: Vec<f64> = pictures.iter().map(|picture| grouping.cost(picture)).collect();
    let places = pictures.first().map_or(0, Vec::len);
    for _ in 0..SWEEPS {
        let mut is_changed = false;
        for place in 1..places {
            for one in 0..pictures.len() {
                for other in one + 1..pictures.len() {
                    let (mut a, mut b) = (pictures[one].clone(), pictures[other].clone());
                    std::mem::swap(&mut a[place], &mut b[place]);
                    let (cost_a, cost_b) = (grouping.cost(&a), grouping.cost(&b));
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

/// The block input of each token, from the patch nearest to what was read off, or the class token: `[D, N]`. Also the
/// coordinates of each patch.
pub(super) fn denoised(space: &PatchSpace, inputs: &Inputs, place_of: &[usize]) -> (Mat<f64>, Vec<Mat<f64>>) {
    let mut z = Mat::zeros(inputs.centred.nrows(), inputs.centred.ncols());
    let mut coordinates = Vec::with_capacity(place_of.len());
    for (k, &place) in place_of.iter().enumerate() {
        let (token, at) = match place.checked_sub(1) {
            None => (space.class.clone(), Mat::zeros(space.freedom(), 1)),
            Some(n) => {
                let (at, _) = space.nearest(n, inputs.centred.subcols(k, 1));
                (space.token(n, at.as_ref()), at)
            }
        };
        z.as_mut().subcols_mut(k, 1).copy_from(&token);
        coordinates.push(at);
    }
    (z, coordinates)
}
