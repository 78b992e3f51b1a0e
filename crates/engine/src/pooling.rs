//! 3 x 3 max pooling with stride 2, and global mean pooling.

use crate::{
    buffer::{Buffer, Pool},
    parallel::each,
    real::Real,
    shape::Shape,
    vector::total,
};

pub(crate) struct Pooled {
    pub(crate) shape: Shape,
    /// Position of each maximum in its input plane.
    places: Vec<u32>,
}

/// Max pooling with one row of padding on every side.
pub(crate) fn max_pool<R: Real>(pool: &Pool<R>, x: &[R], shape: Shape) -> (Buffer<R>, Pooled) {
    let side = shape.side;
    let pooled = Shape { side: (side - 1) / 2 + 1, ..shape };
    let mut output = pool.take(pooled.len());
    let mut places = vec![0; pooled.len()];
    let planes = output.chunks_exact_mut(pooled.plane()).zip(places.chunks_exact_mut(pooled.plane()));
    each(planes.zip(x.chunks_exact(shape.plane())), |((output, places), x)| {
        for (place, (output, found)) in output.iter_mut().zip(places).enumerate() {
            let around = |centre: usize| (2 * centre).saturating_sub(1)..side.min(2 * centre + 2);
            let mut largest = R::NEG_INFINITY;
            let mut first = true;
            for row in around(place / pooled.side) {
                for column in around(place % pooled.side) {
                    let value = x[row * side + column];
                    // NaN counts as the largest value, as in PyTorch.
                    if first || value > largest || value.partial_cmp(&value).is_none() {
                        (largest, *found) = (value, (row * side + column) as u32);
                        first = false;
                    }
                }
            }
            *output = largest;
        }
    });
    (output, Pooled { shape: pooled, places })
}

impl Pooled {
    /// Computes dl/dx, with `shape`, from dl/dy.
    pub(crate) fn back<R: Real>(&self, pool: &Pool<R>, slope: &[R], shape: Shape) -> Buffer<R> {
        let mut by_x = pool.zeros(shape.len());
        let plane = self.shape.plane();
        let planes = by_x.chunks_exact_mut(shape.plane()).zip(slope.chunks_exact(plane));
        each(planes.zip(self.places.chunks_exact(plane)), |((by_x, slope), places)| {
            for (&slope, &place) in slope.iter().zip(places) {
                by_x[place as usize] += slope;
            }
        });
        by_x
    }
}

/// Returns the mean of each plane, `[batch, channels]`.
pub(crate) fn mean_pool<R: Real>(pool: &Pool<R>, x: &[R], shape: Shape) -> Buffer<R> {
    let mut means = pool.take(shape.batch * shape.channels);
    let count = R::rounded(shape.plane() as f64);
    for (mean, plane) in means.iter_mut().zip(x.chunks_exact(shape.plane())) {
        *mean = total(plane) / count;
    }
    means
}

/// Computes dl/dx from dl/d(means) `[batch, channels]`.
pub(crate) fn mean_pool_back<R: Real>(pool: &Pool<R>, slope: &[R], shape: Shape) -> Buffer<R> {
    let mut by_x = pool.take(shape.len());
    let count = R::rounded(shape.plane() as f64);
    for (plane, &slope) in by_x.chunks_exact_mut(shape.plane()).zip(slope) {
        plane.fill(slope / count);
    }
    by_x
}
