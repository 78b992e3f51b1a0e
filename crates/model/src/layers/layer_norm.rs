//! (x - mean) / sqrt(variance + epsilon) over the last dimension, times a weight, plus a bias.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, Tensor, module},
};

use super::{
    Layer, array, in_memory, row_len, values,
    vector::{dot, sum, vectorised},
};

#[derive(Debug)]
struct LayerNorm {
    epsilon: f32,
}

#[derive(Debug, Clone)]
struct Saved {
    /// (x - mean) / sqrt(variance + epsilon)
    normal: Vec<f32>,
    /// 1 / sqrt(variance + epsilon) of each row.
    scales: Vec<f32>,
    weight: FlexTensor,
}

impl Layer<3> for LayerNorm {
    type Saved = Saved;

    fn forward(&mut self, [x, weight, bias]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Saved) {
        let len = row_len(&x);
        debug_assert!([&weight, &bias].iter().all(|vector| values(vector).len() == len));
        let mut y = vec![0.0; values(&x).len()];
        let mut normal = vec![0.0; if tracked { y.len() } else { 0 }];
        let mut scales = vec![0.0; y.len() / len];
        vectorised(|| {
            let rows = values(&x).chunks_exact(len).zip(y.chunks_exact_mut(len));
            for (row, ((x, y), scale)) in rows.zip(&mut scales).enumerate() {
                let mean = sum(x, |x| x) / len as f32;
                let variance = sum(x, |x| (x - mean) * (x - mean)) / len as f32;
                *scale = 1.0 / (variance + self.epsilon).sqrt();
                for (x, y) in x.iter().zip(&mut *y) {
                    *y = (x - mean) * *scale;
                }
                if tracked {
                    normal[row * len..][..len].copy_from_slice(y);
                }
                for ((y, weight), bias) in y.iter_mut().zip(values(&weight)).zip(values(&bias)) {
                    *y = *y * weight + bias;
                }
            }
        });
        (array(y, x.layout().shape().clone()), Saved { normal, scales, weight })
    }

    fn backward(saved: Saved, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Saved { mut normal, scales, weight } = saved;
        let len = values(&weight).len();
        let (mut by_weight, mut by_bias) = (vec![0.0; len], vec![0.0; len]);
        let mut weighted = vec![0.0; len];
        vectorised(|| {
            let rows = normal.chunks_exact_mut(len).zip(values(&gradient).chunks_exact(len));
            for ((normal, gradient), scale) in rows.zip(&scales) {
                for (((sum, bias), normal), gradient) in
                    by_weight.iter_mut().zip(&mut by_bias).zip(&*normal).zip(gradient)
                {
                    *sum += gradient * normal;
                    *bias += gradient;
                }
                for ((weighted, gradient), weight) in weighted.iter_mut().zip(gradient).zip(values(&weight)) {
                    *weighted = gradient * weight;
                }
                let mean = sum(&weighted, |x| x) / len as f32;
                let along = dot(&weighted, normal) / len as f32;
                // dl/dx takes the place of what was normalised.
                for (normal, weighted) in normal.iter_mut().zip(&weighted) {
                    *normal = (weighted - mean - *normal * along) * scale;
                }
            }
        });
        let vector = |values| Some(array(values, Shape::new([len])));
        [Some(array(normal, gradient.layout().shape().clone())), vector(by_weight), vector(by_bias)]
    }
}

/// `x` `[..., D]`, `weight` and `bias` `[D]`.
pub(crate) fn layer_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<D> {
    let inputs = || [x.clone().into_dispatch(), weight.clone().into_dispatch(), bias.clone().into_dispatch()];
    in_memory(&mut LayerNorm { epsilon: epsilon as f32 }, &x, inputs)
        .unwrap_or_else(|| module::layer_norm(x, weight, Some(bias), epsilon))
}
