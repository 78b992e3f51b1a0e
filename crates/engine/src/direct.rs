//! Convolutions with 3 x 3 kernels and stride 1, computed directly from the picture without unfolding it.
//!
//! Each plane is stored as one line: its rows one after another, with zeros around. The nine inputs of a place then
//! have the same nine offsets everywhere, so unaligned vectors compute many places in parallel.

use pulp::Simd;

use crate::{
    buffer::{Buffer, Pool},
    parallel::each,
    real::Real,
    shape::Shape,
};

const KERNEL: usize = 3;
const TAPS: usize = KERNEL * KERNEL;
/// Channels that one task computes. Their sums stay in registers.
const CHANNELS: usize = 8;
/// Vectors of places computed together.
const WIDE: usize = 3;
/// Largest number of values in a vector.
const LANES: usize = 16;

pub(crate) struct PaddedPlanes<R> {
    values: Buffer<R>,
    shape: Shape,
}

/// The layout of a plane as one line.
#[derive(Clone, Copy)]
struct Line {
    side: usize,
}

impl Line {
    /// Offset of the value below. The zero after a row is also the one before the next row.
    fn pitch(self) -> usize {
        self.side + 1
    }

    /// Length from the first place to the end of the last row, including one unused place per row.
    fn places(self) -> usize {
        self.side * self.pitch()
    }

    /// Offset from the first input of a place to the place itself.
    fn centre(self) -> usize {
        self.pitch() + 1
    }

    /// Values of a plane, with room for vectors that extend past the last place.
    fn len(self) -> usize {
        self.places().next_multiple_of(LANES) + 2 * self.centre()
    }

    /// Offsets of the nine inputs from the first one.
    fn taps(self) -> [usize; TAPS] {
        std::array::from_fn(|tap| tap / KERNEL * self.pitch() + tap % KERNEL)
    }
}

impl<R: Real> PaddedPlanes<R> {
    /// `x` `[batch, channels, side, side]`
    pub(crate) fn new(pool: &Pool<R>, x: &[R], shape: Shape) -> Self {
        let line = Line { side: shape.side };
        let mut values = pool.take(shape.batch * shape.channels * line.len());
        each(values.chunks_mut(CHANNELS * line.len()).zip(x.chunks(CHANNELS * shape.plane())), |(values, x)| {
            values.fill(R::ZERO);
            for (plane, x) in values.chunks_exact_mut(line.len()).zip(x.chunks_exact(shape.plane())) {
                let rows = plane[line.centre()..].chunks_mut(line.pitch());
                for (row, x) in rows.zip(x.chunks_exact(line.side)) {
                    row[..line.side].copy_from_slice(x);
                }
            }
        });
        Self { values, shape }
    }

    fn line(&self) -> Line {
        Line { side: self.shape.side }
    }

    fn picture(&self) -> usize {
        self.shape.channels * self.line().len()
    }
}

/// Convolves `x` with `filters` `[out, in, 3, 3]` into `y` `[batch, out, side, side]`.
pub(crate) fn convolved<R: Real>(pool: &Pool<R>, x: &PaddedPlanes<R>, filters: &[R], y: &mut [R]) {
    let steps = [x.shape.channels * TAPS, TAPS];
    correlate(pool, x, &Filters { values: filters, steps, taps: x.line().taps() }, y);
}

/// Computes dl/dx `[batch, in, side, side]` from `slope`, dl/dy.
pub(crate) fn input_gradient<R: Real>(pool: &Pool<R>, slope: &PaddedPlanes<R>, filters: &[R], by_x: &mut [R]) {
    let channels = by_x.len() * slope.shape.channels / (slope.shape.len());
    let mut taps = slope.line().taps();
    taps.reverse();
    correlate(pool, slope, &Filters { values: filters, steps: [TAPS, channels * TAPS], taps }, by_x);
}

/// Filters and the offsets that their values apply to.
#[derive(Clone, Copy)]
struct Filters<'a, R> {
    values: &'a [R],
    /// Distance between output channels, and between input channels.
    steps: [usize; 2],
    taps: [usize; TAPS],
}

fn correlate<R: Real>(pool: &Pool<R>, x: &PaddedPlanes<R>, filters: &Filters<'_, R>, y: &mut [R]) {
    let (line, plane) = (x.line(), x.shape.plane());
    let channels = y.len() / (x.shape.batch * plane);
    let pictures = y.chunks_exact_mut(channels * plane).zip(x.values.chunks_exact(x.picture()));
    let items = pictures.flat_map(|(y, x)| y.chunks_mut(CHANNELS * plane).enumerate().map(move |item| (item, x)));
    each(items, |((index, y), x)| {
        let from = &filters.values[index * CHANNELS * filters.steps[0]..];
        let filters = Filters { values: from, ..*filters };
        let mut sums = pool.take(CHANNELS * line.places().next_multiple_of(LANES));
        pulp::Arch::new().dispatch(Sums { x, line, filters, sums: &mut sums, channels: y.len() / plane });
        for (y, sums) in y.chunks_exact_mut(plane).zip(sums.chunks_exact(line.places().next_multiple_of(LANES))) {
            for (y, sums) in y.chunks_exact_mut(line.side).zip(sums.chunks(line.pitch())) {
                y.copy_from_slice(&sums[..line.side]);
            }
        }
    });
}

/// Whether 24 sums and their operands fit into registers. In a browser, the host processor's registers count, and x86
/// may have only 16.
fn has_many_registers<S: Simd>() -> bool {
    S::REGISTER_COUNT >= 32 && cfg!(not(target_family = "wasm"))
}

/// Sums input times filter at each place, for each of `channels`.
struct Sums<'a, R> {
    /// Planes of one picture.
    x: &'a [R],
    line: Line,
    filters: Filters<'a, R>,
    sums: &'a mut [R],
    channels: usize,
}

impl<R: Real> pulp::WithSimd for Sums<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut channel = 0;
        while channel < self.channels {
            match self.channels - channel {
                8.. if has_many_registers::<S>() => channel += self.rows::<S, 8>(simd, channel),
                4.. => channel += self.rows::<S, 4>(simd, channel),
                _ => channel += self.rows::<S, 1>(simd, channel),
            }
        }
    }
}

impl<R: Real> Sums<'_, R> {
    #[inline(always)]
    fn rows<S: Simd, const OUT: usize>(&mut self, simd: S, channel: usize) -> usize {
        let lanes = R::lanes::<S>();
        let places = self.line.places();
        let mut place = 0;
        while place < places {
            match (places - place).div_ceil(lanes) {
                WIDE.. => place += self.block::<S, OUT, WIDE>(simd, channel, place),
                2 => place += self.block::<S, OUT, 2>(simd, channel, place),
                _ => place += self.block::<S, OUT, 1>(simd, channel, place),
            }
        }
        OUT
    }

    #[inline(always)]
    fn block<S: Simd, const OUT: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        channel: usize,
        place: usize,
    ) -> usize {
        let lanes = R::lanes::<S>();
        let Filters { values, steps, taps } = self.filters;
        let (line, row) = (self.line.len(), self.line.places().next_multiple_of(LANES));
        let mut sums = [[R::splat(simd, R::ZERO); VECTORS]; OUT];
        for input in 0..self.x.len() / line {
            let plane = &self.x[input * line + place..];
            let mut filters = [&values[..0]; OUT];
            for out in 0..OUT {
                filters[out] = &values[(channel + out) * steps[0] + input * steps[1]..][..TAPS];
            }
            for tap in 0..TAPS {
                let from = R::vectors::<S>(&plane[taps[tap]..][..VECTORS * lanes]);
                let mut seen = [from[0]; VECTORS];
                seen.copy_from_slice(from);
                for out in 0..OUT {
                    let factor = R::splat(simd, filters[out][tap]);
                    for vector in 0..VECTORS {
                        sums[out][vector] = R::mul_add(simd, factor, seen[vector], sums[out][vector]);
                    }
                }
            }
        }
        for (out, sums) in sums.iter().enumerate() {
            let to = &mut self.sums[(channel + out) * row + place..][..VECTORS * lanes];
            R::vectors_mut::<S>(to).copy_from_slice(sums);
        }
        VECTORS * lanes
    }
}

/// Computes dl/d(filters) `[out, in, 3, 3]` from `x` and `slope`, dl/dy.
pub(crate) fn filters_back<R: Real>(
    pool: &Pool<R>,
    x: &PaddedPlanes<R>,
    slope: &PaddedPlanes<R>,
    by_filters: &mut [R],
) {
    let (inputs, outputs) = (x.shape.channels, slope.shape.channels);
    // The gradients of all pairs: `[output block, input, output in the block, tap]`.
    let block = CHANNELS * TAPS;
    let mut pairs = pool.take(outputs.div_ceil(CHANNELS) * inputs * block);
    let items = pairs.chunks_mut(inputs * block).enumerate().flat_map(|(index, block_pairs)| {
        let groups = block_pairs.chunks_mut(CHANNELS * block).enumerate();
        groups.map(move |(group, pairs)| (pairs, [index * CHANNELS, group * CHANNELS]))
    });
    each(items, |(pairs, first)| {
        let channels = CHANNELS.min(outputs - first[0]);
        pulp::Arch::new().dispatch(FilterGradients { x, slope, first, channels, pairs });
    });
    let rows = by_filters.chunks_mut(CHANNELS * inputs * TAPS).zip(pairs.chunks(inputs * block));
    each(rows, |(rows, pairs)| {
        for (row, out) in rows.chunks_exact_mut(inputs * TAPS).zip(0..) {
            for (filter, pairs) in row.chunks_exact_mut(TAPS).zip(pairs.chunks_exact(block)) {
                filter.copy_from_slice(&pairs[out * TAPS..][..TAPS]);
            }
        }
    });
}

/// For pairs of channels: the nine sums of input times slope over pictures and places.
struct FilterGradients<'a, R> {
    x: &'a PaddedPlanes<R>,
    slope: &'a PaddedPlanes<R>,
    /// First output and first input.
    first: [usize; 2],
    /// Number of outputs.
    channels: usize,
    /// For each input, the sums of all outputs.
    pairs: &'a mut [R],
}

impl<R: Real> pulp::WithSimd for FilterGradients<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for input in 0..self.pairs.len() / (CHANNELS * TAPS) {
            let mut channel = 0;
            while channel < self.channels {
                if has_many_registers::<S>() && channel + 2 <= self.channels {
                    channel += self.sums::<S, 2>(simd, input, channel);
                } else {
                    channel += self.sums::<S, 1>(simd, input, channel);
                }
            }
        }
    }
}

impl<R: Real> FilterGradients<'_, R> {
    /// Handles few outputs per call, so that their planes and the input's stay in the L1 cache.
    #[inline(always)]
    fn sums<S: Simd, const OUT: usize>(&mut self, simd: S, input: usize, channel: usize) -> usize {
        let line = self.x.line();
        let (taps, len) = (line.taps(), line.len());
        let count = line.places().div_ceil(R::lanes::<S>());
        let values = count * R::lanes::<S>();
        let mut sums = [[R::splat(simd, R::ZERO); TAPS]; OUT];
        for picture in 0..self.x.shape.batch {
            let x = &self.x.values[picture * self.x.picture() + (self.first[1] + input) * len..][..len];
            let slope = &self.slope.values[picture * self.slope.picture() + (self.first[0] + channel) * len..];
            let mut seen = [R::vectors::<S>(&x[..values]); TAPS];
            for tap in 0..TAPS {
                seen[tap] = &R::vectors::<S>(&x[taps[tap]..])[..count];
            }
            let mut slopes = [seen[0]; OUT];
            for out in 0..OUT {
                slopes[out] = &R::vectors::<S>(&slope[out * len + line.centre()..])[..count];
            }
            for index in 0..count {
                let mut here = [slopes[0][index]; OUT];
                for out in 1..OUT {
                    here[out] = slopes[out][index];
                }
                for tap in 0..TAPS {
                    let seen = seen[tap][index];
                    for out in 0..OUT {
                        sums[out][tap] = R::mul_add(simd, here[out], seen, sums[out][tap]);
                    }
                }
            }
        }
        for (out, sums) in sums.iter().enumerate() {
            let pair = &mut self.pairs[(input * CHANNELS + channel + out) * TAPS..][..TAPS];
            for (to, &sum) in pair.iter_mut().zip(sums) {
                *to = R::reduce_sum(simd, sum);
            }
        }
        OUT
    }
}

// proptest is a native-only dependency.
#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Calls `of` with the indices (y, filters, x) of each product of a convolution of `shape` to `outputs` channels.
    fn each_product(shape: Shape, outputs: usize, mut of: impl FnMut(usize, usize, usize)) {
        let Shape { batch, channels, side } = shape;
        for picture in 0..batch {
            for out in 0..outputs {
                for input in 0..channels {
                    for (place, tap) in (0..side * side).flat_map(|place| (0..TAPS).map(move |tap| (place, tap))) {
                        let (row, column) = (place / side + tap / KERNEL, place % side + tap % KERNEL);
                        if (1..=side).contains(&row) && (1..=side).contains(&column) {
                            let x = ((picture * channels + input) * side + row - 1) * side + column - 1;
                            let y = (picture * outputs + out) * side * side + place;
                            of(y, (out * channels + input) * TAPS + tap, x);
                        }
                    }
                }
            }
        }
    }

    fn agree(found: &[f32], exact: &[f64]) -> Result<(), TestCaseError> {
        let largest = exact.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
        for (index, (&found, &exact)) in found.iter().zip(exact).enumerate() {
            prop_assert!((f64::from(found) - exact).abs() < 1e-5 * largest, "{index}: {found} for {exact}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Includes channel counts that do not fill a block and sides that do not fill a vector.
        #[test]
        fn the_three_products_are_those_of_the_definition(
            batch in 1_usize..3, channels in 1_usize..18, outputs in 1_usize..18, side in 1_usize..20, pace in 0.5_f32..2.0,
        ) {
            let pool = Pool::default();
            let shape = Shape { batch, channels, side };
            let of = Shape { channels: outputs, ..shape };
            let waves = |len: usize, pace: f32| -> Vec<f32> { (0..len).map(|i| (pace * i as f32).sin()).collect() };
            let (x, slope) = (waves(shape.len(), pace), waves(of.len(), 1.7 * pace));
            let filters = waves(outputs * channels * TAPS, 0.9 * pace);
            let (mut y, mut by_x, mut by_filters) = (vec![0.0; slope.len()], vec![0.0; x.len()], vec![0.0; filters.len()]);
            let (lined, lined_slope) = (PaddedPlanes::new(&pool, &x, shape), PaddedPlanes::new(&pool, &slope, of));
            convolved(&pool, &lined, &filters, &mut y);
            input_gradient(&pool, &lined_slope, &filters, &mut by_x);
            filters_back(&pool, &lined, &lined_slope, &mut by_filters);

            let mut exact = [vec![0.0; y.len()], vec![0.0; x.len()], vec![0.0; filters.len()]];
            each_product(shape, outputs, |of_y, of_filter, of_x| {
                let [x, slope, filter] = [x[of_x], slope[of_y], filters[of_filter]].map(f64::from);
                exact[0][of_y] += x * filter;
                exact[1][of_x] += slope * filter;
                exact[2][of_filter] += slope * x;
            });
            agree(&y, &exact[0])?;
            agree(&by_x, &exact[1])?;
            agree(&by_filters, &exact[2])?;
        }
    }
}
