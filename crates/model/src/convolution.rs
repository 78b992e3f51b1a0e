//! A convolution where nothing is differentiated.

use std::ops::Range;

use burn::tensor::{DType, Tensor, TensorData, module::conv2d, ops::ConvOptions};
#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;

use crate::tensors::is_untracked_memory;

/// Values of the matrix that a product takes at once, 2 MiB: larger pictures go in bands.
const TOGETHER: usize = 1 << 19;

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
    pub(crate) fn options(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1)
    }

    /// Outputs along a side of the picture, which is no shorter than the kernel with the zeros around it.
    fn outputs(self, side: usize) -> usize {
        (side + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

/// `x` `[batch, in, height, width]` by `filters` `[out, in, kernel, kernel]`, plus `bias` `[out]`.
///
/// In memory a picture is one product of matrices, or a few. Flex makes the same matrices value by value, which takes as
/// long as all the rest of a small ResNet.
pub(crate) fn convolution(x: Tensor<4>, filters: Tensor<4>, bias: Tensor<1>, window: Window) -> Tensor<4> {
    let device = x.device();
    // A single pixel needs no matrix.
    if !is_untracked_memory(&device) || x.dtype() != DType::F32 || window.kernel == 1 {
        return conv2d(x, filters, Some(bias), window.options());
    }
    let [_, inputs, height, width] = x.dims();
    let [channels, ..] = filters.dims();
    let [high, wide] = [height, width].map(|side| window.outputs(side));
    let patch_len = inputs * window.kernel * window.kernel;
    let band = (TOGETHER / (patch_len * wide)).clamp(1, high);
    let (filters, bias) = (filters.reshape([channels, patch_len]), bias.reshape([channels, 1]));
    let convolved = |picture: &[f32]| {
        let bands = (0..high).step_by(band).map(|top| {
            let rows = top..high.min(top + band);
            let shape = [patch_len, rows.len() * wide];
            let seen = TensorData::new(seen(picture, [height, width], rows.clone(), wide, window), shape);
            let seen = Tensor::<2>::from_data(seen, (&device, DType::F32));
            (filters.clone().matmul(seen) + bias.clone()).reshape([1, channels, rows.len(), wide])
        });
        Tensor::cat(bands.collect(), 2)
    };
    let data = x.into_data();
    let values = data.as_slice::<f32>().unwrap_or_default();
    #[cfg(not(target_family = "wasm"))]
    let pictures = values.par_chunks_exact(inputs * height * width);
    #[cfg(target_family = "wasm")]
    let pictures = values.chunks_exact(inputs * height * width);
    Tensor::cat(pictures.map(convolved).collect(), 0)
}

/// What each pixel of the kernel sees of a picture `[in, height, width]` from each place of these rows: `[in, kernel, kernel, rows, wide]`.
fn seen(picture: &[f32], [height, width]: [usize; 2], rows: Range<usize>, wide: usize, window: Window) -> Vec<f32> {
    let Window { kernel, stride, padding } = window;
    let inputs = picture.len() / (height * width);
    let mut seen = vec![0.0; inputs * kernel * kernel * rows.len() * wide];
    let mut lines = seen.chunks_exact_mut(wide);
    for plane in picture.chunks_exact(height * width) {
        for pixel in 0..kernel * kernel {
            let (down, right) = (pixel / kernel, pixel % kernel);
            // The first output for which the pixel lies within the picture, and where.
            let first = padding.saturating_sub(right).div_ceil(stride);
            let begin = first * stride + right - padding;
            for (row, line) in rows.clone().zip(lines.by_ref()) {
                let from = (row * stride + down).checked_sub(padding).and_then(|y| plane.chunks_exact(width).nth(y));
                let from = from.and_then(|from| from.get(begin..));
                let (Some(from), Some(to)) = (from, line.get_mut(first..)) else { continue };
                if stride == 1 {
                    let count = to.len().min(from.len());
                    to[..count].copy_from_slice(&from[..count]);
                } else {
                    to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &from)| *to = from);
                }
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// Numbers in [-1, 1] without an order.
    fn numbers<const D: usize>(shape: [usize; D], dtype: DType) -> Tensor<D> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| (i * 7 % 23) as f32 / 11.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, shape), (&Device::flex(), dtype))
    }

    fn apart(window: Window, [height, width]: [usize; 2], dtype: DType) -> f32 {
        let x = numbers([2, 3, height, width], dtype);
        let filters = numbers([4, 3, window.kernel, window.kernel], dtype);
        let bias = numbers([4], dtype);
        let ours = convolution(x.clone(), filters.clone(), bias.clone(), window);
        let burns = conv2d(x, filters, Some(bias), window.options());
        assert_eq!((ours.dims(), ours.dtype()), (burns.dims(), dtype), "{window:?}");
        (ours - burns).abs().max().into_scalar()
    }

    /// Over kernels, strides, zeros around and sides that do not divide.
    #[test]
    fn it_is_the_convolution_of_burn() {
        assert!(is_untracked_memory(&Device::flex()), "Burn's is compared with itself otherwise");
        for (kernel, stride, padding) in [(3, 1, 1), (3, 2, 1), (1, 2, 0), (7, 2, 3), (5, 3, 0), (2, 1, 3), (5, 2, 2)] {
            let window = Window { kernel, stride, padding };
            for sides in
                [[8, 8], [7, 11], [12, 5], [1, 2], [1, 1]].into_iter().filter(|sides| sides[0] + 2 * padding >= kernel)
            {
                let apart = apart(window, sides, DType::F32);
                assert!(apart < 1e-4, "{window:?}, {sides:?}: {apart}");
            }
        }
        assert!(apart(Window { kernel: 3, stride: 1, padding: 1 }, [8, 8], DType::F64) < 1e-9);
    }

    /// Too large for one product.
    #[test]
    fn large_pictures_are_convolved_in_bands() {
        for stride in [1, 2] {
            let apart = apart(Window { kernel: 7, stride, padding: 3 }, [90, 150], DType::F32);
            assert!(apart < 1e-3, "{apart}");
        }
    }
}
