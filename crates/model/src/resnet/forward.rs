//! The forward pass of a residual network as torchvision computes it, on leaf tensors cut from the flat weights.

use burn::tensor::{
    Element, Tensor, activation,
    module::{batch_norm, batch_norm_train, conv2d, max_pool2d},
    ops::{ConvOptions, MaxPoolOptions},
};
use unmask_core::{BasicBlock, ParamLayout, ResnetSpec};

use crate::leaves::{Cutter, Leaf, Linear, Placement};

/// Added to a variance before its root is taken, as in PyTorch.
const EPSILON: f64 = 1e-5;

/// What batch norm normalises by.
#[derive(Clone, Copy)]
pub(crate) enum Moments<'a> {
    /// Mean and biased variance of the batch itself, over images and places.
    Batch,
    /// The running statistics, tensor by tensor, on the device.
    Running(&'a [Tensor<1>]),
}

/// The moments a batch had at one batch norm, without autodiff.
pub(crate) struct BatchMoments {
    /// `[channels]`
    pub(crate) mean: Tensor<1>,
    /// `[channels]`, biased.
    pub(crate) variance: Tensor<1>,
    /// Over how many values a channel.
    pub(crate) count: usize,
}

/// A convolution without bias, and the batch norm behind it.
struct Normed {
    filters: Tensor<4>,
    /// `[channels]`
    gamma: Tensor<1>,
    /// `[channels]`
    beta: Tensor<1>,
    stride: usize,
    padding: usize,
}

struct Block {
    first: Normed,
    second: Normed,
    /// Absent where the shortcut is the identity.
    shortcut: Option<Normed>,
}

/// All parameters on the device.
pub(crate) struct Parameters {
    stem: Normed,
    /// Whether the stem ends with a 3 x 3 maximum of stride 2.
    pools: bool,
    blocks: Vec<Block>,
    head: Linear,
    /// All of them in the order of the flat vector.
    pub(crate) leaves: Vec<Leaf>,
}

/// Goes through the batch norms in the order of the flat vector.
struct Walk<'a> {
    moments: Moments<'a>,
    seen: Vec<BatchMoments>,
    norm: usize,
}

impl Parameters {
    /// Moves `weights`, a vector of `layout`, to where `placement` says.
    pub(crate) fn new<W: Element>(
        spec: &ResnetSpec,
        layout: &ParamLayout,
        weights: &[W],
        placement: Placement<'_>,
    ) -> Self {
        let config = spec.config();
        let mut cutter = Cutter::new(layout.iter().as_slice(), weights, placement);
        let (kernel, channels) = (config.stem.kernel, config.stem_channels());
        let stem = Normed::cut(&mut cutter, [channels, 3, kernel, kernel], config.stem.stride);
        let blocks = config.blocks().map(|block| Block::cut(&mut cutter, block)).collect();
        let head = cutter.linear(spec.classes);
        Self { stem, pools: config.stem.pools, blocks, head, leaves: cutter.leaves }
    }

    /// Logits `[batch, classes]` of normalised `images` `[batch, 3, side, side]`, and with [`Moments::Batch`] the
    /// moments at each batch norm, in the order of the flat vector.
    pub(crate) fn logits(&self, images: Tensor<4>, moments: Moments<'_>) -> (Tensor<2>, Vec<BatchMoments>) {
        let mut walk = Walk { moments, seen: Vec::new(), norm: 0 };
        let mut x = activation::relu(self.stem.apply(images, &mut walk));
        if self.pools {
            x = max_pool2d(x, MaxPoolOptions::new([3, 3]).with_stride([2, 2]).with_padding([1, 1]));
        }
        for block in &self.blocks {
            x = block.apply(x, &mut walk);
        }
        let [batch, channels, height, width] = x.dims();
        let features = x.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels]);
        (self.head.apply(features), walk.seen)
    }
}

impl Normed {
    fn cut<W: Element>(cutter: &mut Cutter<'_, W>, shape: [usize; 4], stride: usize) -> Self {
        let filters = cutter.filters(shape);
        Self { filters, gamma: cutter.vector(), beta: cutter.vector(), stride, padding: shape[3] / 2 }
    }

    fn apply(&self, x: Tensor<4>, walk: &mut Walk<'_>) -> Tensor<4> {
        let options = ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1);
        let x = conv2d(x, self.filters.clone(), None, options);
        walk.normalise(x, self.gamma.clone(), self.beta.clone())
    }
}

impl Walk<'_> {
    fn normalise(&mut self, x: Tensor<4>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<4> {
        let norm = self.norm;
        self.norm += 1;
        match self.moments {
            Moments::Running(statistics) => match &statistics[2 * norm..2 * norm + 2] {
                [mean, variance] => batch_norm(x, gamma, beta, mean.clone(), variance.clone(), EPSILON),
                _ => x,
            },
            Moments::Batch => {
                let [batch, _, height, width] = x.dims();
                let normed = batch_norm_train(x, gamma, beta, EPSILON);
                let (mean, variance) = (normed.mean.without_autodiff(), normed.variance.without_autodiff());
                self.seen.push(BatchMoments { mean, variance, count: batch * height * width });
                normed.output
            }
        }
    }
}

impl Block {
    fn cut<W: Element>(cutter: &mut Cutter<'_, W>, block: BasicBlock) -> Self {
        let BasicBlock { input, output, stride, .. } = block;
        Self {
            first: Normed::cut(cutter, [output, input, 3, 3], stride),
            second: Normed::cut(cutter, [output, output, 3, 3], 1),
            shortcut: block.has_downsample().then(|| Normed::cut(cutter, [output, input, 1, 1], stride)),
        }
    }

    /// relu(bn(conv(relu(bn(conv(x))))) + shortcut(x))
    fn apply(&self, x: Tensor<4>, walk: &mut Walk<'_>) -> Tensor<4> {
        let y = activation::relu(self.first.apply(x.clone(), walk));
        let y = self.second.apply(y, walk);
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.apply(x, walk),
            None => x,
        };
        activation::relu(y + shortcut)
    }
}
