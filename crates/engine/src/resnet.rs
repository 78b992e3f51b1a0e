//! A residual network as torchvision computes it. B is the number of images.

use unmask_core::{Convolution as Layer, ResidualBlock, ResnetSpec, VitConfig};

use crate::{
    batch_norm::{Moments, Normalisation, moments},
    buffer::{Buffer, Pool},
    convolution::{Convolution, Window},
    linear::Into,
    matrix::{rows, rows_mut},
    parallel::{BAND, each},
    parameters::{Linear, Norm, Piece, Slot},
    pooling::{Pooled, max_pool, mean_pool, mean_pool_back},
    real::Real,
    shape::Shape,
    vector::{add, vectorised},
    vit::{image_slope, normalised},
};

/// A convolution without bias, followed by a batch norm.
struct ConvNorm<P> {
    /// `[out, in, kernel, kernel]`
    filters: P,
    norm: Norm<P>,
    layer: Layer,
}

struct Block<P> {
    /// Two, or three in a bottleneck block.
    convolutions: Vec<ConvNorm<P>>,
    /// `None` if the shortcut is the identity.
    shortcut: Option<ConvNorm<P>>,
}

struct Parameters<P> {
    stem: ConvNorm<P>,
    blocks: Vec<Block<P>>,
    head: Linear<P>,
}

impl<P: Piece> ConvNorm<P> {
    fn cut(flat: &mut P, layer: Layer) -> Self {
        let [out, input, kernel] = layer.shape;
        Self { filters: flat.cut(out * input * kernel * kernel), norm: Norm::cut(flat, out), layer }
    }
}

impl<P: Piece> Block<P> {
    fn cut(flat: &mut P, block: &ResidualBlock) -> Self {
        let shortcut = Layer { shape: [block.output, block.input, 1], stride: block.stride };
        Self {
            convolutions: block.convolutions().map(|layer| ConvNorm::cut(flat, layer)).collect(),
            shortcut: block.has_downsample().then(|| ConvNorm::cut(flat, shortcut)),
        }
    }
}

impl<P: Piece> Parameters<P> {
    fn cut(spec: &ResnetSpec, mut flat: P) -> Self {
        let config = spec.config;
        let flat = &mut flat;
        let stem = [config.stem_channels(), VitConfig::CHANNELS, config.stem.kernel()];
        Self {
            stem: ConvNorm::cut(flat, Layer { shape: stem, stride: config.stem.stride() }),
            blocks: config.blocks().map(|block| Block::cut(flat, &block)).collect(),
            head: Linear::cut(flat, spec.classes, config.features()),
        }
    }
}

struct NormPass<R: Real> {
    convolution: Convolution,
    /// Output of the convolution, `[B, out, side, side]`.
    convolved: Buffer<R>,
    /// `[out]`
    moments: Vec<Moments<R>>,
}

struct BlockPass<R: Real> {
    /// Inputs of the convolutions. The first is the block's input.
    inputs: Vec<Buffer<R>>,
    convolutions: Vec<NormPass<R>>,
    shortcut: Option<NormPass<R>>,
}

/// A forward pass, kept for the backward pass.
pub(crate) struct Pass<R: Real> {
    /// The normalised images, `[B, 3, side, side]`.
    images: Buffer<R>,
    stem: NormPass<R>,
    /// If the stem ends with max pooling: its input `[B, channels, side, side]`, and the maxima.
    pooled: Option<(Buffer<R>, Pooled)>,
    blocks: Vec<BlockPass<R>>,
    /// Output of the last block, and its shape.
    last: (Buffer<R>, Shape),
    /// `[B, channels]`
    features: Buffer<R>,
    /// `[B, classes]`
    pub(crate) logits: Buffer<R>,
}

impl<R: Real> Pass<R> {
    /// Yields the moments of each batch norm, in the order of the flat statistics, with the number of values they are
    /// computed over.
    pub(crate) fn moments(&self) -> impl Iterator<Item = (&[Moments<R>], usize)> {
        let blocks = self.blocks.iter().flat_map(|block| block.convolutions.iter().chain(&block.shortcut));
        std::iter::once(&self.stem).chain(blocks).map(|pass| {
            let shape = pass.convolution.output();
            (pass.moments.as_slice(), shape.batch * shape.plane())
        })
    }
}

pub(crate) struct Resnet<'a, R: Real> {
    pub(crate) spec: &'a ResnetSpec,
    pub(crate) batch: usize,
    pub(crate) normalisation: Normalisation,
    /// Whether to keep the pass for a backward pass. If not, only its logits are valid.
    pub(crate) tracked: bool,
    pub(crate) pool: &'a Pool<R>,
}

impl<R: Real> Resnet<'_, R> {
    /// Runs the network on `images` `[B, 3, side, side]` in [0, 1]. Reads `statistics` only if batch norm uses the
    /// running ones.
    pub(crate) fn forward(&self, weights: &[R], statistics: &[R], images: &[R]) -> Pass<R> {
        let Self { spec, batch, pool, .. } = *self;
        let w = Parameters::cut(spec, weights);
        let mut statistics = statistics;
        let mut normalised_images = pool.take(images.len());
        for (to, &x) in normalised_images.iter_mut().zip(images) {
            *to = normalised(x);
        }
        let shape = Shape { batch, channels: VitConfig::CHANNELS, side: spec.side };
        let (stemmed, stem) = self.conv_norm(&w.stem, &normalised_images, shape, &mut statistics, None, true);
        let mut shape = stem.convolution.output();
        let (mut x, mut pooled) = (stemmed, None);
        if spec.config.stem.pools() {
            let (output, largest) = max_pool(pool, &x, shape);
            shape = largest.shape;
            pooled = Some((std::mem::replace(&mut x, output), largest));
        }
        let mut blocks = Vec::with_capacity(w.blocks.len());
        for block in &w.blocks {
            let (out, pass) = self.block(block, x, &mut shape, &mut statistics);
            x = out;
            if self.tracked {
                blocks.push(pass);
            }
        }
        let features = mean_pool(pool, &x, shape);
        let mut logits = pool.take(batch * spec.classes);
        w.head.apply(rows_mut(&mut logits, spec.classes), rows(&features, shape.channels));
        Pass { images: normalised_images, stem, pooled, blocks, last: (x, shape), features, logits }
    }

    /// relu(bn(conv(... relu(bn(conv(x))))) + shortcut(x))
    fn block(
        &self,
        w: &Block<&[R]>,
        x: Buffer<R>,
        shape: &mut Shape,
        statistics: &mut &[R],
    ) -> (Buffer<R>, BlockPass<R>) {
        let entered = *shape;
        let (mut inputs, mut convolutions) = (vec![x], Vec::with_capacity(w.convolutions.len()));
        let mut out = None;
        let before_last = w.convolutions.len() - 1;
        for (index, layer) in w.convolutions.iter().enumerate().take(before_last) {
            let (y, pass) = self.conv_norm(layer, &inputs[index], *shape, statistics, None, true);
            *shape = pass.convolution.output();
            inputs.push(y);
            convolutions.push(pass);
        }
        // In the flat vectors, the shortcut comes last, but it is applied before the last convolution.
        let mut shortcut_statistics = *statistics;
        if let Some(layer) = w.convolutions.last() {
            if self.normalisation == Normalisation::Running {
                shortcut_statistics.cut(2 * layer.layer.shape[0]);
            }
            let shortcut = w
                .shortcut
                .as_ref()
                .map(|layer| self.conv_norm(layer, &inputs[0], entered, &mut shortcut_statistics, None, false));
            let beside = shortcut.as_ref().map_or(&*inputs[0], |(y, _)| y);
            let (y, pass) = self.conv_norm(layer, &inputs[before_last], *shape, statistics, Some(beside), true);
            *shape = pass.convolution.output();
            convolutions.push(pass);
            out = Some((y, shortcut.map(|(_, pass)| pass)));
        }
        *statistics = shortcut_statistics;
        match out {
            Some((y, shortcut)) => (y, BlockPass { inputs, convolutions, shortcut }),
            // Unreachable: blocks have two or three convolutions.
            None => (self.pool.take(0), BlockPass { inputs, convolutions, shortcut: None }),
        }
    }

    /// Computes bn(conv(x)) + `beside`, clamped at zero with `relu`.
    fn conv_norm(
        &self,
        w: &ConvNorm<&[R]>,
        x: &[R],
        shape: Shape,
        statistics: &mut &[R],
        beside: Option<&[R]>,
        relu: bool,
    ) -> (Buffer<R>, NormPass<R>) {
        let convolution = convolution_of(w.layer, shape);
        let convolved = convolution.apply(self.pool, x, w.filters, None);
        let shape = convolution.output();
        let moments = match self.normalisation {
            Normalisation::Batch => moments(&convolved, shape),
            Normalisation::Running => {
                let (mean, variance) = (statistics.cut(shape.channels), statistics.cut(shape.channels));
                mean.iter().zip(variance).map(|(&mean, &variance)| Moments { mean, variance }).collect()
            }
        };
        let y = w.norm.batch_norm(self.pool, &convolved, shape, &moments, beside, relu);
        let convolved = if self.tracked { convolved } else { self.pool.take(0) };
        (y, NormPass { convolution, convolved, moments })
    }

    /// Sets the gradients of the weights that `gradient` has room for, and of the images if wanted, from `slope`,
    /// dl/d(logits) `[B, classes]`.
    pub(crate) fn backward(
        &self,
        weights: &[R],
        pass: Pass<R>,
        slope: &[R],
        gradient: &mut [R],
        by_images: Option<&mut [R]>,
    ) {
        let Self { spec, batch, pool, .. } = *self;
        let w = Parameters::cut(spec, weights);
        let g = Parameters::cut(spec, Some(gradient));
        let Pass { images, stem, pooled, blocks, last: (last, shape), features, .. } = pass;
        let channels = shape.channels;
        let mut by_features = pool.take(batch * channels);
        let place = Into::Place(rows_mut(&mut by_features, channels));
        w.head.back(g.head, rows(slope, spec.classes), rows(&features, channels), place);
        let mut by_x = mean_pool_back(pool, &by_features, shape);
        let mut behind = last;
        for ((block, gradient), mut pass) in w.blocks.iter().zip(g.blocks).zip(blocks).rev() {
            by_x = self.block_back(block, gradient, &pass, &behind, by_x);
            behind = pass.inputs.swap_remove(0);
        }
        if let Some((stemmed, pooled)) = pooled {
            by_x = pooled.back(pool, &by_x, stem.convolution.output());
            behind = stemmed;
        }
        // Without max pooling, the first block's input is the stem's output.
        relu_back(&mut by_x, &behind);
        let mut by_normalised = by_images.as_ref().map(|images| pool.take(images.len()));
        self.conv_norm_back(&w.stem, g.stem, &stem, &images, by_x, by_normalised.as_deref_mut());
        if let (Some(images), Some(slopes)) = (by_images, by_normalised) {
            for (x, &slope) in images.iter_mut().zip(&*slopes) {
                *x = image_slope(slope);
            }
        }
    }

    /// Computes dl/d(in) from dl/d(out). `out` is the block's output.
    fn block_back(
        &self,
        w: &Block<&[R]>,
        g: Block<Slot<'_, R>>,
        pass: &BlockPass<R>,
        out: &[R],
        mut by_out: Buffer<R>,
    ) -> Buffer<R> {
        let pool = self.pool;
        relu_back(&mut by_out, out);
        let mut by_in = match (&w.shortcut, g.shortcut, &pass.shortcut) {
            (Some(w), Some(g), Some(shortcut)) => {
                let mut by_in = pool.take(pass.inputs[0].len());
                self.conv_norm_back(w, g, shortcut, &pass.inputs[0], pool.copy(&by_out), Some(&mut by_in));
                by_in
            }
            _ => pool.copy(&by_out),
        };
        let mut slope = by_out;
        let layers = w.convolutions.iter().zip(g.convolutions).zip(&pass.convolutions).zip(&pass.inputs).enumerate();
        for (index, (((w, g), pass), input)) in layers.rev() {
            let mut by_input = pool.take(input.len());
            self.conv_norm_back(w, g, pass, input, slope, Some(&mut by_input));
            if index > 0 {
                relu_back(&mut by_input, input);
            }
            slope = by_input;
        }
        each(by_in.chunks_mut(BAND).zip(slope.chunks(BAND)), |(a, b)| add(a, b));
        by_in
    }

    fn conv_norm_back(
        &self,
        w: &ConvNorm<&[R]>,
        g: ConvNorm<Slot<'_, R>>,
        pass: &NormPass<R>,
        x: &[R],
        mut slope: Buffer<R>,
        by_x: Option<&mut [R]>,
    ) {
        let NormPass { convolution, convolved, moments } = pass;
        let of_batch = self.normalisation == Normalisation::Batch;
        w.norm.batch_norm_back(g.norm, &mut slope, convolved, convolution.output(), moments, of_batch);
        convolution.back(self.pool, x, w.filters, &slope, (g.filters, None), by_x);
    }
}

fn convolution_of(layer: Layer, input: Shape) -> Convolution {
    let [channels, _, kernel] = layer.shape;
    Convolution { window: Window::centred(kernel, layer.stride), input, channels }
}

/// Turns dl/dy into dl/dx for `y` = relu(x).
fn relu_back<R: Real>(slope: &mut [R], y: &[R]) {
    each(slope.chunks_mut(BAND).zip(y.chunks(BAND)), |(a, b)| relu_back_band(a, b));
}

vectorised! {
    fn relu_back_band(slope: &mut [R], y: &[R]) {
        for (slope, &y) in slope.iter_mut().zip(y) {
            *slope = if y > R::ZERO { *slope } else { R::ZERO };
        }
    }
}
