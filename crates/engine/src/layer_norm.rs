//! Layer norm: (x - mean) / sqrt(variance + epsilon) over each row, times a weight, plus a bias.

use crate::{
    buffer::{Buffer, Pool},
    parallel::{band_rows, each, map},
    parameters::{Change, Norm, Slot, add_all},
    real::Real,
    vector::{dot, sum, vectorised},
};

const EPSILON: f64 = 1e-6;

pub(crate) struct Normed<R: Real> {
    /// `[rows, channels]`
    pub(crate) output: Buffer<R>,
    /// Mean and 1 / sqrt(variance + epsilon) of each row, `[rows, 2]`.
    moments: Buffer<R>,
}

impl<R: Real> Norm<&[R]> {
    /// Normalises `x` `[rows, channels]`.
    pub(crate) fn layer_norm(&self, pool: &Pool<R>, x: &[R]) -> Normed<R> {
        let len = self.weight.len();
        let mut output = pool.take(x.len());
        let mut moments = pool.take(2 * (x.len() / len));
        let band = band_rows(len);
        let bands = x.chunks(band * len).zip(output.chunks_mut(band * len)).zip(moments.chunks_mut(2 * band));
        each(bands, |((x, y), moments)| norm_band(self.weight, self.bias, x, y, moments));
        Normed { output, moments }
    }

    /// Adds dl/dx to `by_x` and sets the gradients of weight and bias, from `slope`, dl/dy. `slope`, `x` and `by_x` are
    /// `[rows, channels]`.
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

impl<R: Real> Norm<&[R]> {
    /// Returns the derivative of the output, where `of_x` `[rows, channels]` is that of `x` and `along` that of the
    /// norm.
    pub(crate) fn layer_norm_change(
        &self,
        pool: &Pool<R>,
        along: &Norm<Change<'_, R>>,
        x: &[R],
        of_x: &[R],
        normed: &Normed<R>,
    ) -> Buffer<R> {
        let len = self.weight.len();
        let band = band_rows(len);
        let zeros = vec![R::ZERO; len];
        let along = [along.weight, along.bias].map(|change| change.unwrap_or(&zeros));
        let mut change = pool.take(x.len());
        let bands = change.chunks_mut(band * len).zip(x.chunks(band * len)).zip(of_x.chunks(band * len));
        each(bands.zip(normed.moments.chunks(2 * band)), |(((change, x), of_x), moments)| {
            norm_change_band(self.weight, along, [x, of_x], moments, change);
        });
        change
    }

    /// Adds the derivative of dl/dx to `change`. `slope` (dl/dy) and `x` are pairs of value and derivative,
    /// `[rows, channels]`; `along` is the derivative of the norm.
    pub(crate) fn layer_norm_back_change(
        &self,
        along: &Norm<Change<'_, R>>,
        slope: [&[R]; 2],
        x: [&[R]; 2],
        normed: &Normed<R>,
        change: &mut [R],
    ) {
        let len = self.weight.len();
        let band = band_rows(len);
        let zeros = vec![R::ZERO; len];
        let along = along.weight.unwrap_or(&zeros);
        let [slope, of_slope, x, of_x] = [slope[0], slope[1], x[0], x[1]].map(|values| values.chunks(band * len));
        let bands = change.chunks_mut(band * len).zip(slope.zip(of_slope)).zip(x.zip(of_x));
        each(bands.zip(normed.moments.chunks(2 * band)), |(((change, (slope, of_slope)), (x, of_x)), moments)| {
            norm_back_change_band([self.weight, along], [slope, of_slope], [x, of_x], moments, change);
        });
    }
}

/// Sets `normal` to (x - mean) scale and `of_normal` to its derivative. Returns the derivative of the scale, relative
/// to the scale.
#[inline(always)]
fn normal_change<R: Real>(normal: &mut [R], of_normal: &mut [R], [x, of_x]: [&[R]; 2], moments: &[R]) -> R {
    let (mean, scale) = (moments[0], moments[1]);
    let count = R::rounded(x.len() as f64);
    for (normal, &x) in normal.iter_mut().zip(x) {
        *normal = (x - mean) * scale;
    }
    let mean = sum(of_x, |x| x) / count;
    let along = dot(normal, of_x) / count * scale;
    for ((of_normal, &normal), &of_x) in of_normal.iter_mut().zip(&*normal).zip(of_x) {
        *of_normal = (of_x - mean) * scale - normal * along;
    }
    -along
}

vectorised! {
    fn norm_change_band(weights: &[R], along: [&[R]; 2], x: [&[R]; 2], moments: &[R], change: &mut [R]) {
        let len = weights.len();
        let (mut normal, mut of_normal) = (vec![R::ZERO; len], vec![R::ZERO; len]);
        let rows = x[0].chunks_exact(len).zip(x[1].chunks_exact(len)).zip(moments.chunks_exact(2));
        for (((x, of_x), moments), change) in rows.zip(change.chunks_exact_mut(len)) {
            normal_change(&mut normal, &mut of_normal, [x, of_x], moments);
            let normals = normal.iter().zip(&of_normal);
            let layer = weights.iter().zip(along[0]).zip(along[1]);
            for ((change, (&normal, &of_normal)), ((&weight, &of_weight), &of_bias)) in change.iter_mut().zip(normals).zip(layer) {
                *change = of_normal * weight + normal * of_weight + of_bias;
            }
        }
    }

    /// Adds the derivative of dl/dx to `change`.
    fn norm_back_change_band(weights: [&[R]; 2], slope: [&[R]; 2], x: [&[R]; 2], moments: &[R], change: &mut [R]) {
        let len = weights[0].len();
        let count = R::rounded(len as f64);
        let (mut normal, mut of_normal) = (vec![R::ZERO; len], vec![R::ZERO; len]);
        let (mut weighted, mut of_weighted) = (vec![R::ZERO; len], vec![R::ZERO; len]);
        let slopes = slope[0].chunks_exact(len).zip(slope[1].chunks_exact(len));
        let rows = x[0].chunks_exact(len).zip(x[1].chunks_exact(len)).zip(moments.chunks_exact(2));
        for (((slope, of_slope), ((x, of_x), moments)), change) in slopes.zip(rows).zip(change.chunks_exact_mut(len)) {
            let scale = moments[1];
            let of_scale = normal_change(&mut normal, &mut of_normal, [x, of_x], moments);
            let layer = weights[0].iter().zip(weights[1]);
            let both = weighted.iter_mut().zip(&mut of_weighted);
            for (((weighted, of_weighted), (&weight, &of_weight)), (&slope, &of_slope)) in
                both.zip(layer).zip(slope.iter().zip(of_slope))
            {
                *weighted = slope * weight;
                *of_weighted = of_slope * weight + slope * of_weight;
            }
            let mean = sum(&weighted, |x| x) / count;
            let of_mean = sum(&of_weighted, |x| x) / count;
            let along = dot(&weighted, &normal) / count;
            let of_along = (dot(&of_weighted, &normal) + dot(&weighted, &of_normal)) / count;
            let normals = normal.iter().zip(&of_normal);
            let both = weighted.iter().zip(&of_weighted);
            for ((change, (&normal, &of_normal)), (&weighted, &of_weighted)) in change.iter_mut().zip(normals).zip(both) {
                let by_x = weighted - mean - normal * along;
                let of_by_x = of_weighted - of_mean - of_normal * along - normal * of_along;
                *change += (of_by_x + by_x * of_scale) * scale;
            }
        }
    }
}

vectorised! {
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
    /// Adds dl/dx to `by_x` and returns these rows' share of the gradients of weight and bias.
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
