//! The forward pass of the small convolutional network of Deep Leakage from Gradients.

use burn::tensor::{Tensor, activation, module::conv2d};
use unmask_core::{LenetConfig, ParamLayout, VitConfig};

use super::{
    resnet::centred,
    tensors::{Leaf, Linear, ParamReader, TensorOptions, normalised},
};

struct Convolution {
    /// `[width, in, 5, 5]`
    filters: Tensor<4>,
    /// `[width]`
    bias: Tensor<1>,
    stride: usize,
}

pub(super) struct Parameters {
    convolutions: Vec<Convolution>,
    /// Side of the images in pixels.
    side: usize,
    head: Linear,
    /// The parameters that collect gradients, in the order of the flat vector.
    pub(super) leaves: Vec<Leaf>,
}

impl Parameters {
    /// Reads the parameters from `weights`, a vector of `layout`.
    pub(super) fn new(config: &LenetConfig, layout: &ParamLayout, weights: &[f32], options: TensorOptions<'_>) -> Self {
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

    /// Returns logits `[batch, classes]` of `images` `[batch, 3, side, side]` in [0, 1], and the tensor made from the
    /// images.
    pub(super) fn logits(&self, images: &[f32], batch: usize, options: TensorOptions<'_>) -> (Tensor<2>, Leaf) {
        let images = images.iter().map(|&x| normalised(x)).collect();
        let images: Tensor<4> = options.tensor(images, [batch, VitConfig::CHANNELS, self.side, self.side]);
        let mut x = images.clone();
        for Convolution { filters, bias, stride } in &self.convolutions {
            let options = centred(LenetConfig::KERNEL, *stride);
            x = activation::sigmoid(conv2d(x, filters.clone(), Some(bias.clone()), options));
        }
        let [batch, channels, height, width] = x.dims();
        (self.head.apply(x.reshape([batch, channels * height * width])), Leaf::Rank4(images))
    }
}
