//! A convolution where nothing is differentiated.

use burn::tensor::{Tensor, TensorData, module::conv2d, ops::ConvOptions};

use crate::tensors::is_plain_memory;

/// The places of a picture that a kernel sees.
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

    /// Along a side of the picture.
    fn places(self, side: usize) -> usize {
        (side + 2 * self.padding).checked_sub(self.kernel).map_or(0, |last| last / self.stride + 1)
    }
}

/// `x` `[batch, in, height, width]` by `filters` `[out, in, kernel, kernel]`, plus `bias` `[out]`.
///
/// In plain memory one product of matrices for each picture, which stays in the processor's cache. Flex's own makes the same matrices
/// value by value, which takes twice as long as all the rest of a ResNet.
pub(crate) fn convolution(x: Tensor<4>, filters: Tensor<4>, bias: Tensor<1>, window: Window) -> Tensor<4> {
    let device = x.device();
    if !is_plain_memory(&device) {
        return conv2d(x, filters, Some(bias), window.options());
    }
    let [_, inputs, height, width] = x.dims();
    let [outputs, ..] = filters.dims();
    let [high, wide] = [height, width].map(|side| window.places(side));
    let (seen, places) = (inputs * window.kernel * window.kernel, high * wide);
    let data = x.into_data();
    let Ok(values) = data.as_slice::<f32>() else {
        return conv2d(Tensor::from_data(data, &device), filters, Some(bias), window.options());
    };
    let (filters, bias) = (filters.reshape([outputs, seen]), bias.reshape([outputs, 1]));
    let pictures = values.chunks_exact(inputs * height * width).map(|picture| {
        let columns = columns(picture, [height, width], [high, wide], window);
        let columns = Tensor::<2>::from_data(TensorData::new(columns, [seen, places]), &device);
        (filters.clone().matmul(columns) + bias.clone()).reshape([1, outputs, high, wide])
    });
    Tensor::cat(pictures.collect(), 0)
}

/// What each place of the kernel sees `[in, kernel, kernel, high, wide]` of a picture `[in, height, width]`.
fn columns(picture: &[f32], [height, width]: [usize; 2], [high, wide]: [usize; 2], window: Window) -> Vec<f32> {
    let Window { kernel, stride, padding } = window;
    let inputs = picture.len() / (height * width);
    let mut columns = vec![0.0; inputs * kernel * kernel * high * wide];
    let mut rows = columns.chunks_exact_mut(wide);
    for plane in picture.chunks_exact(height * width) {
        for place in 0..kernel * kernel {
            let (down, right) = (place / kernel, place % kernel);
            // The first column in which the place lies within the picture.
            let first = padding.saturating_sub(right).div_ceil(stride);
            for (y, row) in rows.by_ref().take(high).enumerate() {
                let seen = (y * stride + down).checked_sub(padding).and_then(|y| plane.chunks_exact(width).nth(y));
                let seen = seen.and_then(|seen| seen.get(first * stride + right - padding..));
                let (Some(seen), Some(row)) = (seen, row.get_mut(first..)) else { continue };
                let count = row.len().min(seen.len().div_ceil(stride));
                match stride {
                    1 => row[..count].copy_from_slice(&seen[..count]),
                    _ => row.iter_mut().zip(seen.iter().step_by(stride)).for_each(|(to, &from)| *to = from),
                }
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// Beside Burn's operation, over kernels, strides, zeros around and sides that do not divide.
    #[test]
    fn it_is_the_convolution_of_burn() {
        let device = Device::flex();
        let numbers = |shape: [usize; 4], step: usize| {
            let values = (0..shape.iter().product()).map(|i: usize| (i * step % 23) as f32 / 11.0 - 1.0).collect();
            Tensor::<4>::from_data(TensorData::new::<f32, _>(values, shape), &device)
        };
        let mut compared = 0;
        for (kernel, stride, padding) in [(3, 1, 1), (3, 2, 1), (1, 2, 0), (1, 1, 0), (7, 2, 3), (5, 3, 0), (2, 1, 3)] {
            for (height, width) in [(8, 8), (7, 11), (12, 5)] {
                let x = numbers([2, 3, height, width], 7);
                let filters = numbers([4, 3, kernel, kernel], 5);
                let bias = Tensor::<1>::from_data([0.5, -1.0, 0.0, 2.0], &device);
                let window = Window { kernel, stride, padding };
                let ours = convolution(x.clone(), filters.clone(), bias.clone(), window);
                let burns = conv2d(x, filters, Some(bias), window.options());
                assert_eq!(ours.dims(), burns.dims(), "{window:?}");
                let apart = (ours - burns).abs().max().into_scalar::<f32>();
                assert!(apart < 1e-4, "{window:?}, {height} x {width}: {apart}");
                compared += 1;
            }
        }
        assert_eq!(compared, 21);
    }
}
