//! Convolutions. In memory a picture is one product of matrices, or a few. Flex makes the same matrices value by value, which
//! takes as long as all the rest of a small ResNet.

use std::ops::Range;

use burn::{
    backend::{Flex, flex::FlexTensor, ops::FloatTensorOps},
    tensor::{Shape, Tensor, module::conv2d, ops::ConvOptions},
};
#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;

use super::{
    Layer, array, dims, in_memory, product, values,
    vector::{add, sum, vectorised},
};

/// Values of the matrix that a product takes at once, 2 MiB: larger pictures go in bands.
const TOGETHER: usize = 1 << 19;

/// Pictures whose gradients of the filters are held at once.
const PICTURES: usize = 16;

/// What a kernel sees of a picture from each place of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Side of the kernel.
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    /// Zeros around the picture.
    pub(crate) padding: usize,
}

impl Window {
    fn options(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1)
    }

    /// Outputs along a side of the picture, which is no shorter than the kernel with the zeros around it.
    fn outputs(self, side: usize) -> usize {
        (side + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

/// Pictures of one shape, and the window that goes over them.
#[derive(Debug, Clone, Copy)]
struct Pass {
    window: Window,
    inputs: usize,
    height: usize,
    width: usize,
    /// Rows and columns of the output.
    high: usize,
    wide: usize,
}

impl Pass {
    fn new(window: Window, x: &FlexTensor) -> Self {
        let [_, inputs, height, width] = dims(x);
        Self { window, inputs, height, width, high: window.outputs(height), wide: window.outputs(width) }
    }

    /// Values of a picture.
    fn picture(&self) -> usize {
        self.inputs * self.height * self.width
    }

    /// Values that a place of the output sees.
    fn patch(&self) -> usize {
        self.inputs * self.window.kernel * self.window.kernel
    }

    /// Rows of the output that are computed together.
    fn bands(self) -> impl Iterator<Item = Range<usize>> {
        let rows = (TOGETHER / (self.patch() * self.wide)).clamp(1, self.high);
        (0..self.high).step_by(rows).map(move |top| top..self.high.min(top + rows))
    }

    /// Of what is seen from `rows`, `[inputs, kernel, kernel, rows, wide]`, each line that lies in the picture and not in the zeros
    /// around it: calls `of` with the place where its values begin there, the place in the picture of the first, and their number.
    /// In the picture they lie a stride apart.
    #[inline(always)]
    fn each_line(&self, rows: Range<usize>, mut of: impl FnMut(usize, usize, usize)) {
        let Self { window: Window { kernel, stride, padding }, inputs, height, width, wide, .. } = *self;
        let mut line = 0;
        for plane in 0..inputs {
            for pixel in 0..kernel * kernel {
                let (down, right) = (pixel / kernel, pixel % kernel);
                // The first output for which the pixel lies within the picture, and where.
                let first = padding.saturating_sub(right).div_ceil(stride);
                let begin = first * stride + right - padding;
                let count = wide.saturating_sub(first).min(width.saturating_sub(begin).div_ceil(stride));
                for row in rows.clone() {
                    match (row * stride + down).checked_sub(padding) {
                        Some(y) if y < height && count > 0 => {
                            of(line + first, (plane * height + y) * width + begin, count);
                        }
                        _ => {}
                    }
                    line += wide;
                }
            }
        }
    }

    /// What each pixel of the kernel sees of picture `index` of `x` from each place of these rows:
    /// `[inputs kernel kernel, rows wide]`.
    fn seen(&self, x: &FlexTensor, index: usize, rows: Range<usize>) -> FlexTensor {
        if let Window { kernel: 1, stride: 1, padding: 0 } = self.window {
            let planes = x.narrow(0, index, 1).reshape(Shape::new([self.inputs, self.height * self.width]));
            return planes.narrow(1, rows.start * self.wide, rows.len() * self.wide);
        }
        let picture = &values(x)[index * self.picture()..][..self.picture()];
        let stride = self.window.stride;
        let shape = Shape::new([self.patch(), rows.len() * self.wide]);
        let mut seen = vec![0.0; self.patch() * rows.len() * self.wide];
        self.each_line(rows, |to, from, count| {
            if stride == 1 {
                seen[to..to + count].copy_from_slice(&picture[from..from + count]);
            } else {
                seen[to..to + count]
                    .iter_mut()
                    .zip(picture[from..].iter().step_by(stride))
                    .for_each(|(to, &from)| *to = from);
            }
        });
        array(seen, shape)
    }

    /// Adds to each value of a picture the slopes of all that saw it.
    fn gather(&self, seen: &[f32], rows: Range<usize>, picture: &mut [f32]) {
        let stride = self.window.stride;
        vectorised(|| {
            self.each_line(rows, |from, to, count| {
                if stride == 1 {
                    add(&mut picture[to..to + count], &seen[from..from + count]);
                } else {
                    picture[to..]
                        .iter_mut()
                        .step_by(stride)
                        .zip(&seen[from..from + count])
                        .for_each(|(to, from)| *to += from);
                }
            });
        });
    }

    /// Of the output `[channels, high, wide]` of a picture these rows: `[channels, rows wide]`.
    fn band(&self, output: &[f32], rows: &Range<usize>) -> FlexTensor {
        let (start, len) = (rows.start * self.wide, rows.len() * self.wide);
        let planes = output.chunks_exact(self.high * self.wide);
        let shape = Shape::new([planes.len(), len]);
        let mut band = Vec::with_capacity(planes.len() * len);
        planes.for_each(|plane| band.extend_from_slice(&plane[start..start + len]));
        array(band, shape)
    }
}

/// On all threads; in a browser there is one.
fn each_picture<T: Send>(pictures: Range<usize>, of: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    #[cfg(not(target_family = "wasm"))]
    let pictures = pictures.into_par_iter();
    pictures.map(of).collect()
}

#[derive(Debug)]
struct Convolution(Window);

#[derive(Debug, Clone)]
struct Saved {
    pass: Pass,
    x: FlexTensor,
    /// `[out, in kernel kernel]`
    filters: FlexTensor,
    filters_shape: Shape,
}

impl Layer<3> for Convolution {
    type Saved = Saved;

    fn forward(&mut self, [x, filters, bias]: [FlexTensor; 3], _: bool) -> (FlexTensor, Saved) {
        let pass = Pass::new(self.0, &x);
        let filters_shape = filters.layout().shape().clone();
        let [channels, ..] = dims::<4>(&filters);
        let filters = filters.reshape(Shape::new([channels, pass.patch()]));
        let [batch, ..] = dims::<4>(&x);
        let pictures = each_picture(0..batch, |index| {
            let plane = pass.high * pass.wide;
            let mut y = Vec::with_capacity(channels * plane);
            values(&bias).iter().for_each(|&bias| y.resize(y.len() + plane, bias));
            for rows in pass.bands() {
                let band = product(filters.clone(), pass.seen(&x, index, rows.clone()));
                let (start, len) = (rows.start * pass.wide, rows.len() * pass.wide);
                vectorised(|| {
                    for (plane, band) in y.chunks_exact_mut(plane).zip(values(&band).chunks_exact(len)) {
                        add(&mut plane[start..start + len], band);
                    }
                });
            }
            y
        });
        let y = array(pictures.concat(), Shape::new([batch, channels, pass.high, pass.wide]));
        (y, Saved { pass, x, filters, filters_shape })
    }

    fn backward(saved: Saved, gradient: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Saved { pass, x, filters, filters_shape } = saved;
        let [for_x, for_filters, for_bias] = wanted;
        let [batch, channels, high, wide] = dims(&gradient);
        let plane = high * wide;
        let transposed = Flex::float_swap_dims(filters, 0, 1).to_contiguous();
        let slopes = |index: usize| {
            let output = &values(&gradient)[index * channels * plane..][..channels * plane];
            let mut by_x = vec![0.0; if for_x { pass.picture() } else { 0 }];
            let mut by_filters = Vec::new();
            for rows in pass.bands() {
                let output = pass.band(output, &rows);
                if for_x {
                    let seen = product(transposed.clone(), output.clone());
                    pass.gather(values(&seen), rows.clone(), &mut by_x);
                }
                if for_filters {
                    let seen = Flex::float_swap_dims(pass.seen(&x, index, rows), 0, 1);
                    by_filters.push(product(output, seen));
                }
            }
            (by_x, by_filters)
        };
        let mut by_x = Vec::with_capacity(if for_x { batch * pass.picture() } else { 0 });
        let mut by_filters = vec![0.0; if for_filters { channels * pass.patch() } else { 0 }];
        for first in (0..batch).step_by(PICTURES) {
            for (picture, bands) in each_picture(first..batch.min(first + PICTURES), slopes) {
                by_x.extend_from_slice(&picture);
                vectorised(|| bands.iter().for_each(|band| add(&mut by_filters, values(band))));
            }
        }
        let by_x = for_x.then(|| array(by_x, x.layout().shape().clone()));
        let by_filters = for_filters.then(|| array(by_filters, filters_shape));
        let by_bias = for_bias.then(|| {
            let mut total = vec![0.0; channels];
            vectorised(|| {
                for (index, plane) in values(&gradient).chunks_exact(plane).enumerate() {
                    total[index % channels] += sum(plane, |x| x);
                }
            });
            array(total, Shape::new([channels]))
        });
        [by_x, by_filters, by_bias]
    }
}

/// `x` `[batch, in, height, width]` by `filters` `[out, in, kernel, kernel]`, plus `bias` `[out]`, if there is one.
pub(crate) fn convolution(x: Tensor<4>, filters: Tensor<4>, bias: Option<Tensor<1>>, window: Window) -> Tensor<4> {
    let inputs = || {
        let zeros = || Tensor::zeros([filters.dims()[0]], (&x.device(), x.dtype()));
        let bias = bias.clone().unwrap_or_else(zeros);
        [x.clone().into_dispatch(), filters.clone().into_dispatch(), bias.into_dispatch()]
    };
    in_memory(&mut Convolution(window), &x, inputs).unwrap_or_else(|| conv2d(x, filters, bias, window.options()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::tests::{assert_is_burns, numbers};

    fn assert_is_burns_convolution(window: Window, [height, width]: [usize; 2]) {
        let inputs = [numbers(&[2, 3, height, width]), numbers(&[4, 3, window.kernel, window.kernel]), numbers(&[4])];
        assert_is_burns(&format!("{window:?} on {height} x {width}"), &inputs, |[x, filters, bias]| {
            convolution(x.unflat(), filters.unflat(), Some(bias.unflat()), window)
        });
        assert_is_burns(&format!("{window:?} on {height} x {width}, no bias"), &inputs[..2], |[x, filters]| {
            convolution(x.unflat(), filters.unflat(), None, window)
        });
    }

    /// Over kernels, strides, zeros around and sides that do not divide.
    #[test]
    fn it_is_the_convolution_of_burn() {
        for (kernel, stride, padding) in
            [(3, 1, 1), (3, 2, 1), (1, 1, 0), (1, 2, 0), (7, 2, 3), (5, 3, 0), (2, 1, 3), (5, 2, 2)]
        {
            let window = Window { kernel, stride, padding };
            for sides in
                [[8, 8], [7, 11], [12, 5], [1, 2], [1, 1]].into_iter().filter(|sides| sides[0] + 2 * padding >= kernel)
            {
                assert_is_burns_convolution(window, sides);
            }
        }
    }

    /// Too large for one product.
    #[test]
    fn large_pictures_are_convolved_in_bands() {
        for (stride, sides) in [(1, [90, 150]), (2, [130, 200])] {
            let window = Window { kernel: 7, stride, padding: 3 };
            let x = array(vec![0.0; 3 * sides[0] * sides[1]], Shape::new([1, 3, sides[0], sides[1]]));
            assert!(Pass::new(window, &x).bands().count() > 1);
            assert_is_burns_convolution(window, sides);
        }
    }

    /// More than are held at once.
    #[test]
    fn large_batches_are_convolved() {
        let inputs = [numbers(&[PICTURES + 3, 2, 6, 6]), numbers(&[4, 2, 3, 3])];
        assert_is_burns("a large batch", &inputs, |[x, filters]| {
            convolution(x.unflat(), filters.unflat(), None, Window { kernel: 3, stride: 1, padding: 1 })
        });
    }
}
