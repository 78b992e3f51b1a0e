//! The activation of a ViT, x Phi(x) with the exact (erf) Phi.

use std::f64::consts::SQRT_2;

use burn::{
    backend::flex::FlexTensor,
    tensor::{Device, Tensor, activation},
};

use super::{
    Layer, array, in_memory, values,
    vector::{erf, exp, vectorised},
};

#[derive(Debug)]
struct Gelu;

impl Layer<1> for Gelu {
    /// dy/dx
    type Saved = Vec<f32>;

    fn forward(&mut self, [x]: [FlexTensor; 1], tracked: bool) -> (FlexTensor, Vec<f32>) {
        let mut y = vec![0.0; values(&x).len()];
        let mut slopes = vec![0.0; if tracked { y.len() } else { 0 }];
        vectorised(|| {
            if tracked {
                for ((&x, y), slope) in values(&x).iter().zip(&mut y).zip(&mut slopes) {
                    (*y, *slope) = with_slope(x);
                }
            } else {
                for (&x, y) in values(&x).iter().zip(&mut y) {
                    *y = x * cdf(x);
                }
            }
        });
        (array(y, x.layout().shape().clone()), slopes)
    }

    fn backward(slopes: Vec<f32>, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut slopes = slopes;
        vectorised(|| {
            for (slope, &gradient) in slopes.iter_mut().zip(values(&gradient)) {
                *slope *= gradient;
            }
        });
        [Some(array(slopes, gradient.layout().shape().clone()))]
    }
}

/// Phi(x), the distribution of the standard normal.
#[inline(always)]
fn cdf(x: f32) -> f32 {
    0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// x Phi(x), and its derivative Phi(x) + x phi(x) with the density phi.
#[inline(always)]
fn with_slope(x: f32) -> (f32, f32) {
    /// 1 / sqrt(2 pi)
    const PEAK: f32 = 0.398_942_3;
    let cdf = cdf(x);
    (x * cdf, cdf + x * (PEAK * exp(-0.5 * x * x)))
}

pub(crate) fn gelu(x: Tensor<3>) -> Tensor<3> {
    in_memory(&mut Gelu, &x, || [x.clone().into_dispatch()]).unwrap_or_else(|| burns(x))
}

fn burns(x: Tensor<3>) -> Tensor<3> {
    if x.device() == Device::flex() {
        return activation::gelu(x);
    }
    // On other backends Burn's operation differentiates the tanh approximation; erf's derivative is exact everywhere.
    let cdf = (x.clone() / SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
    x * cdf
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, TensorData};

    use super::*;

    fn differentiated(inputs: &[f64], dtype: DType) -> [Vec<f64>; 2] {
        let device = Device::flex().autodiff();
        let data = TensorData::new(inputs.to_vec(), [1, 1, inputs.len()]);
        let x = Tensor::<3>::from_data(data, (&device, dtype)).require_grad();
        let y = gelu(x.clone());
        let gradients = y.clone().sum().backward();
        let read = |tensor: Tensor<3>| tensor.into_data().convert::<f64>().try_into_vec().unwrap();
        [read(y.without_autodiff()), read(x.grad(&gradients).unwrap())]
    }

    /// Beside Burn's operation in f64, over all that a layer may give.
    #[test]
    fn values_and_slopes_are_those_of_the_exact_function() {
        let inputs: Vec<f64> = (-160_000..=160_000).map(|i| f64::from((f64::from(i) / 10_000.0) as f32)).collect();
        let exact = differentiated(&inputs, DType::F64);
        let found = differentiated(&inputs, DType::F32);
        for (which, (exact, found)) in exact.iter().zip(&found).enumerate() {
            for ((x, exact), found) in inputs.iter().zip(exact).zip(found) {
                let scale = if which == 0 { x.abs().max(1e-3) } else { 1.0 };
                assert!((exact - found).abs() < 5e-7 * scale, "{which} at {x}: {found} for {exact}");
            }
        }
        let data = TensorData::new(vec![f32::NAN, f32::INFINITY, 30.0, -30.0], [1, 1, 4]);
        let y: Vec<f32> = gelu(Tensor::from_data(data, &Device::flex())).into_data().try_into_vec().unwrap();
        assert!(y[0].is_nan());
        assert_eq!(y[1..], [f32::INFINITY, 30.0, 0.0]);
    }
}
