//! The weights of attention.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Tensor, activation},
};

use super::{
    Layer, array, in_memory, values,
    vector::{dot, exp, max, sum, vectorised},
};

#[derive(Debug)]
struct Softmax;

fn row_len(x: &FlexTensor) -> usize {
    x.layout().shape().last().copied().unwrap_or(1).max(1)
}

impl Layer<1> for Softmax {
    /// The output.
    type Saved = FlexTensor;

    fn forward(&mut self, [x]: [FlexTensor; 1], _: bool) -> (FlexTensor, FlexTensor) {
        let len = row_len(&x);
        let mut y = vec![0.0; values(&x).len()];
        vectorised(|| {
            for (x, y) in values(&x).chunks_exact(len).zip(y.chunks_exact_mut(len)) {
                let max = max(x);
                for (x, y) in x.iter().zip(&mut *y) {
                    *y = exp(x - max);
                }
                let scale = 1.0 / sum(y, |y| y);
                for y in y {
                    *y *= scale;
                }
            }
        });
        let y = array(y, x.layout().shape().clone());
        (y.clone(), y)
    }

    /// y (g - sum(g y))
    fn backward(y: FlexTensor, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let len = row_len(&y);
        let mut slopes = vec![0.0; values(&y).len()];
        vectorised(|| {
            let rows = values(&y).chunks_exact(len).zip(values(&gradient).chunks_exact(len));
            for ((y, gradient), slopes) in rows.zip(slopes.chunks_exact_mut(len)) {
                let common = dot(gradient, y);
                for ((slope, y), gradient) in slopes.iter_mut().zip(y).zip(gradient) {
                    *slope = y * (gradient - common);
                }
            }
        });
        [Some(array(slopes, y.layout().shape().clone()))]
    }
}

/// Over the last dimension.
pub(crate) fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match in_memory(&mut Softmax, || [x.clone().into_dispatch()], &x) {
        Some(y) => Tensor::from_dispatch(y),
        None => activation::softmax(x, D - 1),
    }
}
