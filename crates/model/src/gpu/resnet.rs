//! The forward pass of a residual network as torchvision computes it.

use burn::tensor::{
    Tensor, activation,
    module::{batch_norm_train, conv2d, max_pool2d},
    ops::{ConvOptions, MaxPoolOptions},
};
use unmask_core::{Convolution, ParamLayout, ResidualBlock, ResnetSpec};

use super::tensors::{Leaf, Linear, ParamReader, TensorOptions, normalised};

/// Same value as in PyTorch.
const EPSILON: f64 = 1e-5;

#[derive(Clone, Copy)]
pub(super) enum Moments<'a> {
    /// Mean and biased variance of the batch, over images and places.
    Batch,
    /// The running statistics, tensor by tensor, on the device.
    Running(&'a [Tensor<1>]),
}

/// The moments of a batch at one batch norm, without autodiff.
pub(super) struct BatchMoments {
    /// `[channels]`
    pub(super) mean: Tensor<1>,
    /// `[channels]`, biased.
    pub(super) variance: Tensor<1>,
    /// Values per channel.
    pub(super) count: usize,
}

/// A convolution without bias, followed by a batch norm.
struct ConvNorm {
    filters: Tensor<4>,
    /// `[channels]`
    gamma: Tensor<1>,
    /// `[channels]`
    beta: Tensor<1>,
    kernel: usize,
    stride: usize,
}

struct Block {
    /// Two, or three in a bottleneck block.
    convolutions: Vec<ConvNorm>,
    /// `None` if the shortcut is the identity.
    shortcut: Option<ConvNorm>,
}

pub(super) struct Parameters {
    stem: ConvNorm,
    /// Whether the stem ends with 3 x 3 max pooling of stride 2.
    pools: bool,
    /// Side of the images in pixels.
    side: usize,
    blocks: Vec<Block>,
    head: Linear,
    /// The parameters that collect gradients, in the order of the flat vector.
    pub(super) leaves: Vec<Leaf>,
}

/// Visits the batch norms in the order of the flat vector.
struct NormPass<'a> {
    moments: Moments<'a>,
    seen: Vec<BatchMoments>,
    norm: usize,
}

impl Parameters {
    /// Reads the parameters from `weights`, a vector of `layout`.
    pub(super) fn new(spec: &ResnetSpec, layout: &ParamLayout, weights: &[f32], options: TensorOptions<'_>) -> Self {
        let config = spec.config;
        let mut reader = ParamReader::new(layout.iter().as_slice(), weights, options);
        let stem = [config.stem_channels(), 3, config.stem.kernel()];
        let stem = ConvNorm::read(&mut reader, Convolution { shape: stem, stride: config.stem.stride() });
        let blocks = config.blocks().map(|block| Block::read(&mut reader, &block)).collect();
        let head = reader.linear(spec.classes);
        Self { stem, pools: config.stem.pools(), side: spec.side, blocks, head, leaves: reader.leaves }
    }

    /// Returns logits `[batch, classes]` of `images` `[batch, 3, side, side]` in [0, 1], the tensor made from the
    /// images, and with [`Moments::Batch`] the moments at each batch norm, in the order of the flat vector.
    pub(super) fn logits(
        &self,
        images: &[f32],
        batch: usize,
        options: TensorOptions<'_>,
        moments: Moments<'_>,
    ) -> (Tensor<2>, Leaf, Vec<BatchMoments>) {
        let images = images.iter().map(|&x| normalised(x)).collect();
        let images: Tensor<4> = options.tensor(images, [batch, 3, self.side, self.side]);
        let mut pass = NormPass { moments, seen: Vec::new(), norm: 0 };
        let mut x = activation::relu(self.stem.apply(images.clone(), &mut pass));
        if self.pools {
            x = max_pool2d(x, MaxPoolOptions::new([3, 3]).with_stride([2, 2]).with_padding([1, 1]));
        }
        for block in &self.blocks {
            x = block.apply(x, &mut pass);
        }
        let [batch, channels, height, width] = x.dims();
        let features = x.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels]);
        (self.head.apply(features), Leaf::Rank4(images), pass.seen)
    }
}

impl ConvNorm {
    fn read(reader: &mut ParamReader<'_>, Convolution { shape, stride }: Convolution) -> Self {
        let [out, input, kernel] = shape;
        let filters = reader.filters([out, input, kernel, kernel]);
        Self { filters, gamma: reader.vector(), beta: reader.vector(), kernel, stride }
    }

    fn options(&self) -> ConvOptions<2> {
        centred(self.kernel, self.stride)
    }

    fn apply(&self, x: Tensor<4>, pass: &mut NormPass<'_>) -> Tensor<4> {
        let (gamma, beta) = (self.gamma.clone(), self.beta.clone());
        match pass.next() {
            // gamma (w * x - mean) / sqrt(variance + epsilon) + beta is a convolution with other filters and a bias.
            Some([mean, variance]) => {
                let scale = gamma / (variance + EPSILON).sqrt();
                let bias = beta - mean * scale.clone();
                conv2d(x, self.filters.clone() * scale.reshape([-1, 1, 1, 1]), Some(bias), self.options())
            }
            None => pass.by_batch(conv2d(x, self.filters.clone(), None, self.options()), gamma, beta),
        }
    }
}

impl NormPass<'_> {
    /// Returns mean and variance `[channels]` of the next batch norm; `None` if it uses those of the batch.
    fn next(&mut self) -> Option<[Tensor<1>; 2]> {
        let norm = self.norm;
        self.norm += 1;
        match self.moments {
            Moments::Running(statistics) => Some([statistics[2 * norm].clone(), statistics[2 * norm + 1].clone()]),
            Moments::Batch => None,
        }
    }

    /// Normalises by the batch's own moments and records them.
    fn by_batch(&mut self, x: Tensor<4>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<4> {
        let [batch, _, height, width] = x.dims();
        let normed = batch_norm_train(x, gamma, beta, EPSILON);
        let (mean, variance) = (normed.mean.without_autodiff(), normed.variance.without_autodiff());
        self.seen.push(BatchMoments { mean, variance, count: batch * height * width });
        normed.output
    }
}

impl Block {
    fn read(reader: &mut ParamReader<'_>, block: &ResidualBlock) -> Self {
        let shortcut = Convolution { shape: [block.output, block.input, 1], stride: block.stride };
        Self {
            convolutions: block.convolutions().map(|convolution| ConvNorm::read(reader, convolution)).collect(),
            shortcut: block.has_downsample().then(|| ConvNorm::read(reader, shortcut)),
        }
    }

    /// relu(bn(conv(... relu(bn(conv(x))))) + shortcut(x))
    fn apply(&self, x: Tensor<4>, pass: &mut NormPass<'_>) -> Tensor<4> {
        let mut y = x.clone();
        for (index, convolution) in self.convolutions.iter().enumerate() {
            let within = if index == 0 { y } else { activation::relu(y) };
            y = convolution.apply(within, pass);
        }
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.apply(x, pass),
            None => x,
        };
        activation::relu(y + shortcut)
    }
}

/// Pads with half the kernel on every side.
pub(super) fn centred(kernel: usize, stride: usize) -> ConvOptions<2> {
    ConvOptions::new([stride; 2], [kernel / 2; 2], [1, 1], 1)
}
