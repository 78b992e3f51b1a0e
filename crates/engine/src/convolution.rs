//! Convolutions as matrix products over unfolded input (im2col).

use std::ops::Range;

use faer::{MatMut, MatRef, reborrow::ReborrowMut as _};

use crate::{
    buffer::{Buffer, Pool},
    direct::{self, PaddedPlanes},
    matrix::{product, product_added, product_onto, rows, rows_mut},
    parallel::each,
    parameters::{Slot, add_all},
    real::Real,
    shape::Shape,
    vector::{total, vectorised},
};

/// Values unfolded per task. They stay in a core's cache until the product has read them.
const TOGETHER: usize = 1 << 17;
/// Enough pieces of one picture to occupy many threads.
const PIECES: usize = 8;
/// From this number of places over all pictures, [`direct`] computes the gradients of filters.
const LONG: usize = 512;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    /// Zeros on every side of the picture.
    pub(crate) padding: usize,
}

impl Window {
    /// Pads with half the kernel on every side.
    pub(crate) fn centred(kernel: usize, stride: usize) -> Self {
        Self { kernel, stride, padding: kernel / 2 }
    }

    /// Returns the outputs along a side of the padded picture, which must not be shorter than the kernel.
    fn outputs(self, side: usize) -> usize {
        (side + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Convolution {
    pub(crate) window: Window,
    pub(crate) input: Shape,
    pub(crate) channels: usize,
}

impl Convolution {
    pub(crate) fn output(&self) -> Shape {
        Shape { batch: self.input.batch, channels: self.channels, side: self.window.outputs(self.input.side) }
    }

    /// Values of one plane in the receptive field of an output.
    fn area(&self) -> usize {
        self.window.kernel * self.window.kernel
    }

    /// Values of the filters `[out, in, kernel, kernel]`.
    pub(crate) fn filters(&self) -> usize {
        self.channels * self.patch()
    }

    /// Values in the receptive field of an output.
    fn patch(&self) -> usize {
        self.input.channels * self.area()
    }

    /// Returns `[batch, out, high, wide]` from `x` `[batch, in, side, side]`, `filters` `[out, in, kernel, kernel]` and
    /// an optional `bias` `[out]`.
    pub(crate) fn apply<R: Real>(&self, pool: &Pool<R>, x: &[R], filters: &[R], bias: Option<&[R]>) -> Buffer<R> {
        let output = self.output();
        let mut y = pool.take(output.len());
        if self.is_direct() && bias.is_none() {
            direct::convolved(pool, &PaddedPlanes::new(pool, x, self.input), filters, &mut y);
            return y;
        }
        let pictures = y.chunks_exact_mut(output.picture()).zip(x.chunks_exact(self.input.picture()));
        let items = pictures.flat_map(|(y, x)| {
            let mut rest = rows_mut(y, output.plane());
            let bands: Vec<_> = self
                .bands()
                .map(|band| {
                    let (y, behind) = take_mut(&mut rest).split_at_col_mut(band.len() * output.side);
                    rest = behind;
                    (y, x, band)
                })
                .collect();
            bands
        });
        each(items, |(y, x, band)| {
            let seen = self.seen(pool, x, &band);
            let filters = rows(filters, self.patch());
            match bias {
                Some(bias) => product_onto(y, |row, _, y: &mut [R]| y.fill(bias[row]), filters, seen.matrix()),
                None => product(y, filters, seen.matrix()),
            }
        });
        y
    }

    /// Sets the gradients of filters and bias, and dl/dx in `by_x`, from `slope`, dl/dy `[batch, out, high, wide]`.
    pub(crate) fn back<R: Real>(
        &self,
        pool: &Pool<R>,
        x: &[R],
        filters: &[R],
        slope: &[R],
        (by_filters, by_bias): (Slot<'_, R>, Slot<'_, R>),
        by_x: Option<&mut [R]>,
    ) {
        let output = self.output();
        if let Some(by_bias) = by_bias {
            by_bias.fill(R::ZERO);
            for (index, plane) in slope.chunks_exact(output.plane()).enumerate() {
                by_bias[index % output.channels] += total(plane);
            }
        }
        let is_direct = self.is_direct() && (by_x.is_some() || self.sums_are_long());
        let lined = is_direct.then(|| PaddedPlanes::new(pool, slope, output));
        if let Some(by_filters) = by_filters {
            match &lined {
                Some(slope) if self.sums_are_long() => {
                    direct::filters_back(pool, &PaddedPlanes::new(pool, x, self.input), slope, by_filters);
                }
                _ => self.filters_back(pool, x, slope, by_filters),
            }
        }
        if let Some(by_x) = by_x {
            if let Some(slope) = lined {
                return direct::input_gradient(pool, &slope, filters, by_x);
            }
            self.input_back(pool, filters, slope, by_x);
        }
    }

    fn filters_back<R: Real>(&self, pool: &Pool<R>, x: &[R], slope: &[R], by_filters: &mut [R]) {
        let (output, plane) = (self.output(), self.input.plane());
        let mut others: Vec<Buffer<R>> = self.chunks().skip(1).map(|_| pool.take(by_filters.len())).collect();
        let parts = std::iter::once(&mut *by_filters).chain(others.iter_mut().map(|part| &mut **part));
        let items = self.chunks().zip(parts).flat_map(|(pictures, part)| {
            let mut rest = rows_mut(part, self.patch());
            let groups: Vec<_> = self
                .groups()
                .map(|group| {
                    let (part, behind) = take_mut(&mut rest).split_at_col_mut(group.len() * self.area());
                    rest = behind;
                    (pictures.clone(), group, part)
                })
                .collect();
            groups
        });
        each(items, |(pictures, group, mut part)| {
            for picture in pictures.clone() {
                let planes = &x[picture * self.input.picture()..][group.start * plane..group.end * plane];
                let seen = self.seen(pool, planes, &(0..output.side));
                let slope = rows(&slope[picture * output.picture()..][..output.picture()], output.plane());
                if picture == pictures.start {
                    product(part.rb_mut(), slope, seen.matrix().transpose());
                } else {
                    product_added(part.rb_mut(), slope, seen.matrix().transpose());
                }
            }
        });
        let others = &others;
        each(by_filters.chunks_mut(TOGETHER).enumerate(), |(index, values)| {
            let start = index * TOGETHER;
            let len = values.len();
            add_all(values, others.iter().map(|part| &part[start..start + len]));
        });
    }

    fn input_back<R: Real>(&self, pool: &Pool<R>, filters: &[R], slope: &[R], by_x: &mut [R]) {
        let (output, plane) = (self.output(), self.input.plane());
        let pictures = by_x.chunks_exact_mut(self.input.picture()).zip(slope.chunks_exact(output.picture()));
        let items = pictures.flat_map(|(by_x, slope)| {
            let mut rest = by_x;
            let groups: Vec<_> = self
                .groups()
                .map(|group| {
                    let (planes, behind) = std::mem::take(&mut rest).split_at_mut(group.len() * plane);
                    rest = behind;
                    (planes, slope, group)
                })
                .collect();
            groups
        });
        each(items, |(planes, slope, group)| {
            let filters = rows(filters, self.patch());
            let filters = filters.submatrix(0, group.start * self.area(), self.channels, group.len() * self.area());
            let slope = rows(slope, output.plane());
            if self.is_pointwise() {
                return product(rows_mut(planes, plane), filters.transpose(), slope);
            }
            let mut seen = pool.take(group.len() * self.area() * output.plane());
            product(rows_mut(&mut seen, output.plane()), filters.transpose(), slope);
            planes.fill(R::ZERO);
            gather(self, &seen, planes);
        });
    }
}

/// Takes the matrix and leaves an empty one.
fn take_mut<'a, R: Real>(matrix: &mut MatMut<'a, R>) -> MatMut<'a, R> {
    std::mem::replace(matrix, rows_mut(&mut [], 0))
}

impl Convolution {
    fn is_direct(&self) -> bool {
        matches!(self.window, Window { kernel: 3, stride: 1, padding: 1 })
    }

    /// Whether a filter's gradient sums over enough places for [`direct`] to pay off.
    fn sums_are_long(&self) -> bool {
        self.input.batch * self.input.plane() >= LONG
    }

    /// Output rows that one task computes.
    fn bands(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let side = self.output().side;
        let rows = (TOGETHER / (self.patch() * side)).clamp(1, side);
        (0..side).step_by(rows).map(move |top| top..side.min(top + rows))
    }

    /// Input channels that one task computes gradients for.
    fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let channels = self.input.channels;
        let fitting = TOGETHER / (self.area() * self.output().plane());
        let count = fitting.min(channels.div_ceil(PIECES)).max(1);
        (0..channels).step_by(count).map(move |first| first..channels.min(first + count))
    }

    /// Pictures whose filter gradients one task adds up in order.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let batch = self.input.batch;
        let count = batch.div_ceil(PIECES);
        (0..batch).step_by(count).map(move |first| first..batch.min(first + count))
    }

    /// Walks the unfolded input `[planes, kernel, kernel, rows, wide]` of the output's `rows`. For each line that
    /// overlaps the picture, not only the padding, calls `of` with the index of its first value, the index of the same
    /// value in `planes`, and the number of values. In the picture, these values are a stride apart.
    #[inline(always)]
    fn each_line(&self, planes: usize, rows: &Range<usize>, mut of: impl FnMut(usize, usize, usize)) {
        let Window { kernel, stride, padding } = self.window;
        let (side, wide) = (self.input.side, self.output().side);
        let mut line = 0;
        for plane in 0..planes {
            for pixel in 0..kernel * kernel {
                let (down, right) = (pixel / kernel, pixel % kernel);
                // The first output that sees this pixel inside the picture, and the pixel's column there.
                let first = padding.saturating_sub(right).div_ceil(stride);
                let begin = first * stride + right - padding;
                let count = wide.saturating_sub(first).min(side.saturating_sub(begin).div_ceil(stride));
                for row in rows.clone() {
                    match (row * stride + down).checked_sub(padding) {
                        Some(y) if y < side && count > 0 => of(line + first, (plane * side + y) * side + begin, count),
                        _ => {}
                    }
                    line += wide;
                }
            }
        }
    }

    fn is_pointwise(&self) -> bool {
        matches!(self.window, Window { kernel: 1, stride: 1, padding: 0 })
    }

    /// Unfolds `planes` `[planes, side, side]` for the output's `rows`: `[planes kernel kernel, rows wide]`.
    fn seen<'a, R: Real>(&self, pool: &Pool<R>, planes: &'a [R], rows: &Range<usize>) -> Seen<'a, R> {
        let (wide, plane) = (self.output().side, self.input.plane());
        if self.is_pointwise() {
            let all = crate::matrix::rows(planes, plane);
            return Seen::Itself(all.submatrix(0, rows.start * wide, all.nrows(), rows.len() * wide));
        }
        let count = planes.len() / plane;
        let columns = rows.len() * wide;
        let mut seen = if self.window.padding == 0 {
            pool.take(count * self.area() * columns)
        } else {
            pool.zeros(count * self.area() * columns)
        };
        let stride = self.window.stride;
        self.each_line(count, rows, |to, from, count| {
            if stride == 1 {
                seen[to..to + count].copy_from_slice(&planes[from..from + count]);
            } else {
                let strided = planes[from..].iter().step_by(stride);
                seen[to..to + count].iter_mut().zip(strided).for_each(|(to, &from)| *to = from);
            }
        });
        Seen::Made { values: seen, columns }
    }
}

vectorised! {
    /// Folds back: adds each unfolded slope to its value in `planes`.
    fn gather(pass: &Convolution, seen: &[R], planes: &mut [R]) {
        let stride = pass.window.stride;
        let rows = 0..pass.output().side;
        pass.each_line(planes.len() / pass.input.plane(), &rows, |from, to, count| {
            if stride == 1 {
                planes[to..to + count].iter_mut().zip(&seen[from..from + count]).for_each(|(to, &from)| *to += from);
            } else {
                let strided = planes[to..].iter_mut().step_by(stride);
                strided.zip(&seen[from..from + count]).for_each(|(to, &from)| *to += from);
            }
        });
    }
}

/// Unfolded input: one row per kernel pixel, one column per place.
enum Seen<'a, R: Real> {
    Itself(MatRef<'a, R>),
    Made { values: Buffer<R>, columns: usize },
}

impl<R: Real> Seen<'_, R> {
    fn matrix(&self) -> MatRef<'_, R> {
        match self {
            Self::Itself(matrix) => *matrix,
            Self::Made { values, columns } => rows(values, *columns),
        }
    }
}
