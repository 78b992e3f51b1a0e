//! The forward pass of the small convolutional network of Deep Leakage from Gradients.

use burn::tensor::{Element, Tensor, activation};
use unmask_core::{LenetConfig, ParamLayout, VitConfig};

use crate::{
    layers::{Window, convolution},
    tensors::{Float, Leaf, Linear, ParamReader, TensorOptions, normalised},
};

struct Convolution {
    /// `[width, in, 5, 5]`
    filters: Tensor<4>,
    /// `[width]`
    bias: Tensor<1>,
    stride: usize,
}

/// All parameters on the device.
pub(crate) struct Parameters {
    convolutions: Vec<Convolution>,
    /// Of the images, in pixels.
    side: usize,
    head: Linear,
    /// Those that gather gradients, in the order of the flat vector.
    pub(crate) leaves: Vec<Leaf>,
}

impl Parameters {
    /// From `weights`, a vector of `layout`.
    pub(crate) fn new<W: Element>(
        config: &LenetConfig,
        layout: &ParamLayout,
        weights: &[W],
        options: TensorOptions<'_>,
    ) -> Self {
        let mut reader = ParamReader::new(layout.iter().as_slice(), weights, options);
        let shapes = config.inputs().map(|input| [config.width, input, LenetConfig::KERNEL, LenetConfig::KERNEL]);
        let convolutions = shapes
            .into_iter()
            .zip(LenetConfig::STRIDES)
            .map(|(shape, stride)| Convolution { filters: reader.filters(shape), bias: reader.vector(), stride })
            .collect();
        let head = reader.linear(config.classes);
        Self { convolutions, side: config.side, head, leaves: reader.leaves }
    }

    /// Logits `[batch, classes]` of `images` `[batch, 3, side, side]` in [0, 1], and the tensor these became.
    pub(crate) fn logits<T: Float>(&self, images: &[T], batch: usize, options: TensorOptions<'_>) -> (Tensor<2>, Leaf) {
        let images = images.iter().map(|&x| normalised(x)).collect();
        let images: Tensor<4> = options.tensor(images, [batch, VitConfig::CHANNELS, self.side, self.side]);
        let mut x = images.clone();
        for Convolution { filters, bias, stride } in &self.convolutions {
            let window = Window { kernel: LenetConfig::KERNEL, stride: *stride, padding: LenetConfig::KERNEL / 2 };
            x = activation::sigmoid(convolution(x, filters.clone(), Some(bias.clone()), window));
        }
        let [batch, channels, height, width] = x.dims();
        (self.head.apply(x.reshape([batch, channels * height * width])), Leaf::Rank4(images))
    }
}
