//! (x - mean) / sqrt(variance + epsilon) over each row, times a weight, plus a bias.

use crate::{
    buffer::{Buffer, Pool},
    parallel::{band_rows, each, map},
    parameters::{Norm, Slot, add_all},
    real::Real,
    vector::{dot, sum, vectorised},
};

const EPSILON: f64 = 1e-6;

/// A layer norm that was applied.
pub(crate) struct Normed<R: Real> {
    /// `[rows, channels]`
    pub(crate) output: Buffer<R>,
    /// Mean and 1 / sqrt(variance + epsilon) of each row, `[rows, 2]`.
    moments: Buffer<R>,
}

impl<R: Real> Norm<&[R]> {
    /// Of `x` `[rows, channels]`.
    pub(crate) fn layer_norm(&self, pool: &Pool<R>, x: &[R]) -> Normed<R> {
        let len = self.weight.len();
        let mut output = pool.take(x.len());
        let mut moments = pool.take(2 * (x.len() / len));
        let band = band_rows(len);
        let bands = x.chunks(band * len).zip(output.chunks_mut(band * len)).zip(moments.chunks_mut(2 * band));
        each(bands, |((x, y), moments)| norm_band(self.weight, self.bias, x, y, moments));
        Normed { output, moments }
    }

    /// Adds dl/dx to `by_x`, and sets the gradients of weight and bias, by `slope`, dl/dy; all of `[rows, channels]`.
    pub(crate) fn layer_norm_back(
        &self,
        gradient: Norm<Slot<'_, R>>,
        slope: &[R],
        x: &[R],
        normed: &Normed<R>,
        by_x: &mut [R],
    ) {
        let len = self.weight.len();
        let band = band_rows(len);
        let bands = x
            .chunks(band * len)
            .zip(slope.chunks(band * len))
            .zip(normed.moments.chunks(2 * band))
            .zip(by_x.chunks_mut(band * len));
        let parts = map(bands, |(((x, slope), moments), by_x)| norm_back_band(self.weight, x, slope, moments, by_x));
        if let Some(weight) = gradient.weight {
            weight.fill(R::ZERO);
            add_all(weight, parts.iter().map(|(by_weight, _)| by_weight.as_slice()));
        }
        if let Some(bias) = gradient.bias {
            bias.fill(R::ZERO);
            add_all(bias, parts.iter().map(|(_, by_bias)| by_bias.as_slice()));
        }
    }
}

vectorised! {
    /// Of rows of x: the output, and the moments.
    fn norm_band(weights: &[R], biases: &[R], x: &[R], y: &mut [R], moments: &mut [R]) {
        let len = weights.len();
        let count = R::rounded(len as f64);
        for ((x, y), moments) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)).zip(moments.chunks_exact_mut(2)) {
            let mean = sum(x, |x| x) / count;
            let variance = sum(x, |x| (x - mean) * (x - mean)) / count;
            let scale = R::ONE / (variance + R::rounded(EPSILON)).root();
            for (((y, &x), &weight), &bias) in y.iter_mut().zip(x).zip(weights).zip(biases) {
                *y = (x - mean) * scale * weight + bias;
            }
            moments.copy_from_slice(&[mean, scale]);
        }
    }
}

vectorised! {
    /// Of rows: adds dl/dx, and returns their share of the gradients of weight and bias.
    fn norm_back_band(weights: &[R], x: &[R], slope: &[R], moments: &[R], by_x: &mut [R]) -> (Vec<R>, Vec<R>) {
        let len = weights.len();
        let count = R::rounded(len as f64);
        let (mut by_weight, mut by_bias) = (vec![R::ZERO; len], vec![R::ZERO; len]);
        let (mut normal, mut weighted) = (vec![R::ZERO; len], vec![R::ZERO; len]);
        let rows = x.chunks_exact(len).zip(slope.chunks_exact(len)).zip(moments.chunks_exact(2));
        for (((x, slope), moments), by_x) in rows.zip(by_x.chunks_exact_mut(len)) {
            let (mean, scale) = (moments[0], moments[1]);
            for (normal, &x) in normal.iter_mut().zip(x) {
                *normal = (x - mean) * scale;
            }
            for ((weighted, &slope), &weight) in weighted.iter_mut().zip(slope).zip(weights) {
                *weighted = slope * weight;
            }
            for (((by_weight, by_bias), &normal), &slope) in
                by_weight.iter_mut().zip(&mut by_bias).zip(&normal).zip(slope)
            {
                *by_weight += slope * normal;
                *by_bias += slope;
            }
            let mean = sum(&weighted, |x| x) / count;
            let along = dot(&weighted, &normal) / count;
            for ((by_x, &weighted), &normal) in by_x.iter_mut().zip(&weighted).zip(&normal) {
                *by_x += (weighted - mean - normal * along) * scale;
            }
        }
        (by_weight, by_bias)
    }
}
