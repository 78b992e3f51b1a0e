//! (x - mean) / sqrt(variance + epsilon) over the images and places of a batch, times a weight for each channel, plus a bias.

use std::ops::Range;

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, Tensor, module},
};

use super::{
    Layer, array, dims, in_memory, values,
    vector::{dot, sum, vectorised},
};

#[derive(Debug)]
struct BatchNorm {
    epsilon: f32,
    channels: Vec<Channel>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    mean: f32,
    /// Biased.
    variance: f32,
    /// 1 / sqrt(variance + epsilon)
    scale: f32,
}

#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    weight: FlexTensor,
    channels: Vec<Channel>,
}

/// Over the planes of one channel after the other: `of` the index of a channel and where its planes lie.
#[inline(always)]
fn each_channel([batch, channels, height, width]: [usize; 4], mut of: impl FnMut(usize, &[Range<usize>])) {
    let plane = height * width;
    for channel in 0..channels {
        let planes: Vec<_> =
            (0..batch).map(|image| (image * channels + channel) * plane).map(|start| start..start + plane).collect();
        of(channel, &planes);
    }
}

/// The sum over the planes of a channel, in f64: of each in f32 it is exact enough, of all together it may not be.
#[inline(always)]
fn over(planes: &[Range<usize>], of: impl Fn(Range<usize>) -> f32) -> f64 {
    planes.iter().map(|plane| f64::from(of(plane.clone()))).sum()
}

impl Layer<3> for BatchNorm {
    type Saved = Saved;

    fn forward(&mut self, [x, weight, bias]: [FlexTensor; 3], _: bool) -> (FlexTensor, Saved) {
        let shape = dims(&x);
        let [batch, channels, height, width] = shape;
        let count = (batch * height * width) as f64;
        self.channels = vec![Channel::default(); channels];
        let mut y = vec![0.0; values(&x).len()];
        let (input, weights, biases) = (values(&x), values(&weight), values(&bias));
        vectorised(|| {
            each_channel(shape, |channel, planes| {
                let mean = (over(planes, |plane| sum(&input[plane], |x| x)) / count) as f32;
                let variance = over(planes, |plane| sum(&input[plane], |x| (x - mean) * (x - mean))) / count;
                let variance = variance as f32;
                let scale = 1.0 / (variance + self.epsilon).sqrt();
                self.channels[channel] = Channel { mean, variance, scale };
                let (weight, bias) = (scale * weights[channel], biases[channel]);
                for plane in planes {
                    for (x, y) in input[plane.clone()].iter().zip(&mut y[plane.clone()]) {
                        *y = (x - mean) * weight + bias;
                    }
                }
            });
        });
        let y = array(y, x.layout().shape().clone());
        (y, Saved { x, weight, channels: self.channels.clone() })
    }

    fn backward(saved: Saved, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Saved { x, weight, channels } = saved;
        let shape = dims(&x);
        let [batch, _, height, width] = shape;
        let count = (batch * height * width) as f64;
        let mut slopes = vec![0.0; values(&x).len()];
        let (mut by_weight, mut by_bias) = (vec![0.0; channels.len()], vec![0.0; channels.len()]);
        let (input, weights, gradients) = (values(&x), values(&weight), values(&gradient));
        vectorised(|| {
            each_channel(shape, |channel, planes| {
                let Channel { mean, scale, .. } = channels[channel];
                // Where dl/dx will be, (x - mean) scale is until then.
                for plane in planes {
                    for (x, normal) in input[plane.clone()].iter().zip(&mut slopes[plane.clone()]) {
                        *normal = (x - mean) * scale;
                    }
                }
                let total = over(planes, |plane| sum(&gradients[plane], |x| x));
                let along = over(planes, |plane| dot(&gradients[plane.clone()], &slopes[plane]));
                by_weight[channel] = along as f32;
                by_bias[channel] = total as f32;
                let (total, along) = ((total / count) as f32, (along / count) as f32);
                let scale = scale * weights[channel];
                for plane in planes {
                    for (gradient, slope) in gradients[plane.clone()].iter().zip(&mut slopes[plane.clone()]) {
                        *slope = (gradient - total - *slope * along) * scale;
                    }
                }
            });
        });
        let vector = |values| Some(array(values, Shape::new([channels.len()])));
        [Some(array(slopes, x.layout().shape().clone())), vector(by_weight), vector(by_bias)]
    }
}

/// What comes out of [`batch_norm_train`].
pub(crate) struct Normed {
    /// `[batch, channels, height, width]`
    pub(crate) output: Tensor<4>,
    /// `[channels]`, without autodiff.
    pub(crate) mean: Tensor<1>,
    /// `[channels]`, biased, without autodiff.
    pub(crate) variance: Tensor<1>,
}

/// `x` `[batch, channels, height, width]`, `weight` and `bias` `[channels]`.
pub(crate) fn batch_norm_train(x: Tensor<4>, weight: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Normed {
    let mut layer = BatchNorm { epsilon: epsilon as f32, channels: Vec::new() };
    let inputs = || [x.clone().into_dispatch(), weight.clone().into_dispatch(), bias.clone().into_dispatch()];
    if let Some(output) = in_memory(&mut layer, &x, inputs) {
        let device = x.device().without_autodiff();
        let moment = |of: fn(&Channel) -> f32| {
            let values: Vec<f32> = layer.channels.iter().map(of).collect();
            Tensor::from_floats(values.as_slice(), &device)
        };
        let (mean, variance) = (moment(|channel| channel.mean), moment(|channel| channel.variance));
        return Normed { output, mean, variance };
    }
    let normed = module::batch_norm_train(x, weight, bias, epsilon);
    let (mean, variance) = (normed.mean.without_autodiff(), normed.variance.without_autodiff());
    Normed { output: normed.output, mean, variance }
}
