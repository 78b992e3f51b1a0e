//! Batch norm: (x - mean) / sqrt(variance + epsilon) per channel, times a weight, plus a bias.

use crate::{
    buffer::{Buffer, Pool},
    parallel::{each, map},
    parameters::{Norm, Slot},
    real::Real,
    shape::Shape,
    vector::{dot, sum, vectorised},
};

/// Same value as in PyTorch.
const EPSILON: f64 = 1e-5;

/// The statistics that batch norm uses. Networks without batch norm ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalisation {
    /// The moments of the batch: PyTorch's training mode.
    Batch,
    /// The running statistics: PyTorch's evaluation mode. Inverting Gradients (Geiping et al., NeurIPS 2020) attacks
    /// gradients of this kind.
    Running,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments<R> {
    pub(crate) mean: R,
    /// Biased if computed from a batch.
    pub(crate) variance: R,
}

impl<R: Real> Moments<R> {
    fn scale(self) -> R {
        R::ONE / (self.variance + R::rounded(EPSILON)).root()
    }
}

/// Groups planes by channel.
fn channels<T>(planes: impl Iterator<Item = T>, shape: Shape) -> Vec<Vec<T>> {
    let mut channels: Vec<Vec<T>> = (0..shape.channels).map(|_| Vec::with_capacity(shape.batch)).collect();
    for (index, plane) in planes.enumerate() {
        channels[index % shape.channels].push(plane);
    }
    channels
}

/// Sums over a channel's planes in f64. f32 is exact enough within a plane, but perhaps not across planes.
#[inline(always)]
fn over<T: Copy, R: Real>(planes: &[T], of: impl Fn(T) -> R) -> f64 {
    planes.iter().map(|&plane| -> f64 { of(plane).into() }).sum()
}

/// Returns the moments of each channel of `x`, over images and places.
pub(crate) fn moments<R: Real>(x: &[R], shape: Shape) -> Vec<Moments<R>> {
    let count = (shape.batch * shape.plane()) as f64;
    map(channels(x.chunks_exact(shape.plane()), shape).into_iter(), |planes| moments_of_channel(&planes[..], count))
}

vectorised! {
    /// `count` is the total number of values in the planes.
    fn moments_of_channel(planes: &[&[R]], count: f64) -> Moments<R> {
        let mean = R::rounded(over(planes, |plane| sum(plane, |x| x)) / count);
        let variance = over(planes, |plane| sum(plane, |x| (x - mean) * (x - mean))) / count;
        Moments { mean, variance: R::rounded(variance) }
    }
}

impl<R: Real> Norm<&[R]> {
    /// Normalises `x`, then adds `beside` (if given) and applies ReLU (with `relu`).
    pub(crate) fn batch_norm(
        &self,
        pool: &Pool<R>,
        x: &[R],
        shape: Shape,
        moments: &[Moments<R>],
        beside: Option<&[R]>,
        relu: bool,
    ) -> Buffer<R> {
        let plane = shape.plane();
        let mut y = pool.take(x.len());
        each(y.chunks_exact_mut(plane).zip(x.chunks_exact(plane)).enumerate(), |(index, (y, x))| {
            let channel = index % shape.channels;
            let mean = moments[channel].mean;
            let weight = moments[channel].scale() * self.weight[channel];
            let beside = beside.map(|beside| &beside[index * plane..][..plane]);
            norm_plane(y, x, [mean, weight, self.bias[channel]], beside, relu);
        });
        y
    }

    /// Turns `slope` from dl/dy into dl/dx. `x` is the input; `of_batch` says that the moments are those of `x` itself.
    pub(crate) fn batch_norm_back(
        &self,
        gradient: Norm<Slot<'_, R>>,
        slope: &mut Buffer<R>,
        x: &[R],
        shape: Shape,
        moments: &[Moments<R>],
        of_batch: bool,
    ) {
        let count = (shape.batch * shape.plane()) as f64;
        let planes = slope.chunks_exact_mut(shape.plane()).zip(x.chunks_exact(shape.plane()));
        let sums = map(channels(planes, shape).into_iter().enumerate(), |(channel, mut planes)| {
            let of_batch = of_batch.then_some(count);
            norm_back_channel(&mut planes[..], moments[channel], self.weight[channel], of_batch)
        });
        for (slot, of) in [(gradient.weight, 0), (gradient.bias, 1)] {
            for (slot, &(along, total)) in slot.into_iter().flatten().zip(&sums) {
                *slot = if of == 0 { along } else { total };
            }
        }
    }
}

vectorised! {
    /// Sets `y` to (x - mean) weight + bias + beside, clamped at zero with `relu`.
    fn norm_plane(y: &mut [R], x: &[R], numbers: [R; 3], beside: Option<&[R]>, relu: bool) {
    let [mean, weight, bias] = numbers;
        let lowest = if relu { R::ZERO } else { R::NEG_INFINITY };
        // This order of the comparison keeps NaN.
        let bounded = |y: R| if y < lowest { lowest } else { y };
        match beside {
            Some(beside) => {
                for ((y, &x), &beside) in y.iter_mut().zip(x).zip(beside) {
                    *y = bounded((x - mean) * weight + bias + beside);
                }
            }
            None => {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = bounded((x - mean) * weight + bias);
                }
            }
        }
    }
}

vectorised! {
    /// Turns the planes of dl/dy into dl/dx and returns the gradients of weight and bias. `count` is the number of
    /// values in the planes if the moments were computed from them.
    fn norm_back_channel(planes: &mut [(&mut [R], &[R])], moments: Moments<R>, weight: R, count: Option<f64>) -> (R, R) {
        let (mean, scale) = (moments.mean, moments.scale());
        let mut normal = vec![R::ZERO; planes.first().map_or(0, |(_, x)| x.len())];
        let (mut total, mut along) = (0.0, 0.0);
        for (slope, x) in &*planes {
            for (normal, &x) in normal.iter_mut().zip(*x) {
                *normal = (x - mean) * scale;
            }
            total += sum(slope, |x| x).into();
            along += dot(slope, &normal).into();
        }
        let (mean_slope, mean_along) = count.map_or((0.0, 0.0), |count| (total / count, along / count));
        let (mean_slope, mean_along) = (R::rounded(mean_slope), R::rounded(mean_along) * scale);
        let weight = scale * weight;
        for (slope, x) in planes {
            for (slope, &x) in slope.iter_mut().zip(*x) {
                *slope = (*slope - mean_slope - (x - mean) * mean_along) * weight;
            }
        }
        (R::rounded(along), R::rounded(total))
    }
}
