//! Which token belongs where.

use faer::Mat;

use super::{assignment::cheapest, inputs::Inputs, patch_space::PatchSpace};

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
    assigned(&distances, batch)
}

/// The place of each token by its `distances` `[N, S + 1]`, for up to `batch` tokens at each place.
///
/// A token's distances err by one factor, which nobody knows: weak tokens lie far from every place. So the sum of the
/// logarithms decides, and a weak token cannot drive a strong one away.
fn assigned(distances: &Mat<f64>, batch: usize) -> Vec<usize> {
    let cost = |k: usize, slot: usize| distances[(k, slot / batch)].max(1e-12).ln();
    let costs = Mat::from_fn(distances.nrows(), distances.ncols() * batch, cost);
    cheapest(costs.as_ref()).into_iter().map(|slot| slot / batch).collect()
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

#[cfg(test)]
mod tests {
    use faer::mat;

    use super::*;

    #[test]
    fn a_weak_token_leaves_a_strong_one_its_place() {
        // The sum of the squares is smaller the other way round.
        assert_eq!(assigned(&mat![[0.001, 0.8], [2.0, 8.0]], 1), [0, 1]);
        assert_eq!(assigned(&mat![[0.001, 0.8], [2.0, 8.0]], 2), [0, 0]);
    }
}
