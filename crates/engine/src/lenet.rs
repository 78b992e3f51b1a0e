//! The small convolutional network of Deep Leakage from Gradients.

use unmask_core::{LenetConfig, VitConfig};

use crate::{
    buffer::{Buffer, Pool},
    convolution::{Convolution, Window},
    linear::Into,
    matrix::{rows, rows_mut},
    parallel::{BAND, each},
    parameters::{Linear, Piece},
    real::Real,
    shape::Shape,
    vector::vectorised,
    vit::{image_slope, normalised},
};

struct Layer<P> {
    /// `[width, in, 5, 5]`
    filters: P,
    /// `[width]`
    bias: P,
    convolution: Convolution,
}

struct Parameters<P> {
    layers: Vec<Layer<P>>,
    head: Linear<P>,
}

impl<P: Piece> Parameters<P> {
    fn cut(config: &LenetConfig, batch: usize, mut flat: P) -> Self {
        let flat = &mut flat;
        let mut shape = Shape { batch, channels: VitConfig::CHANNELS, side: config.side };
        let layers = LenetConfig::STRIDES
            .into_iter()
            .map(|stride| {
                let window = Window::centred(LenetConfig::KERNEL, stride);
                let convolution = Convolution { window, input: shape, channels: config.width };
                shape = convolution.output();
                Layer { filters: flat.cut(convolution.filters()), bias: flat.cut(config.width), convolution }
            })
            .collect();
        Self { layers, head: Linear::cut(flat, config.classes, config.features()) }
    }
}

/// A forward pass, kept for the backward pass.
pub(crate) struct Pass<R: Real> {
    /// The normalised images, then the output of each sigmoid.
    values: Vec<Buffer<R>>,
    /// `[B, classes]`
    pub(crate) logits: Buffer<R>,
}

pub(crate) struct Lenet<'a, R: Real> {
    pub(crate) config: &'a LenetConfig,
    pub(crate) batch: usize,
    pub(crate) pool: &'a Pool<R>,
}

impl<R: Real> Lenet<'_, R> {
    /// Runs the network on `images` `[B, 3, side, side]` in [0, 1].
    pub(crate) fn forward(&self, weights: &[R], images: &[R]) -> Pass<R> {
        let Self { config, batch, pool } = *self;
        let w = Parameters::cut(config, batch, weights);
        let mut x = pool.take(images.len());
        for (to, &image) in x.iter_mut().zip(images) {
            *to = normalised(image);
        }
        let mut values = vec![x];
        for (index, layer) in w.layers.iter().enumerate() {
            let mut y = layer.convolution.apply(pool, &values[index], layer.filters, Some(layer.bias));
            sigmoid(&mut y);
            values.push(y);
        }
        let mut logits = pool.take(batch * config.classes);
        if let Some(last) = values.last() {
            w.head.apply(rows_mut(&mut logits, config.classes), rows(last, config.features()));
        }
        Pass { values, logits }
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
        let Self { config, batch, pool } = *self;
        let w = Parameters::cut(config, batch, weights);
        let g = Parameters::cut(config, batch, Some(gradient));
        let mut values = pass.values;
        let Some(mut y) = values.pop() else { return };
        let features = config.features();
        let mut by_y = pool.take(y.len());
        let place = Into::Place(rows_mut(&mut by_y, features));
        w.head.back(g.head, rows(slope, config.classes), rows(&y, features), place);
        for ((layer, gradient), x) in w.layers.iter().zip(g.layers).zip(values).rev() {
            sigmoid_back(&mut by_y, &y);
            let mut by_x = pool.take(x.len());
            let slots = (gradient.filters, gradient.bias);
            layer.convolution.back(pool, &x, layer.filters, &by_y, slots, Some(&mut by_x));
            (y, by_y) = (x, by_x);
        }
        for (x, &slope) in by_images.into_iter().flatten().zip(&*by_y) {
            *x = image_slope(slope);
        }
    }
}

fn sigmoid<R: Real>(x: &mut [R]) {
    each(x.chunks_mut(BAND), sigmoid_band);
}

vectorised! {
    fn sigmoid_band(x: &mut [R]) {
        for x in x {
            let below = (if *x < R::ZERO { *x } else { -*x }).exp();
            *x = (if *x < R::ZERO { below } else { R::ONE }) / (R::ONE + below);
        }
    }
}

/// Turns dl/dy into dl/dx for y = sigmoid(x).
fn sigmoid_back<R: Real>(slope: &mut [R], y: &[R]) {
    each(slope.chunks_mut(BAND).zip(y.chunks(BAND)), |(a, b)| sigmoid_back_band(a, b));
}

vectorised! {
    fn sigmoid_back_band(slope: &mut [R], y: &[R]) {
        for (slope, &y) in slope.iter_mut().zip(y) {
            *slope *= y * (R::ONE - y);
        }
    }
}
