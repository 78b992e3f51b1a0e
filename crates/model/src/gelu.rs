//! The activation of a ViT, x Phi(x) with the exact (erf) Phi.

use std::f64::consts::SQRT_2;

use burn::tensor::{Device, Tensor, activation};

use crate::tensors::is_untracked_memory;

/// How to compute it.
#[derive(Clone, Copy)]
pub(crate) enum Gelu {
    /// Burn's operation. Its backward pass is exact on flex alone: the other backends differentiate the tanh
    /// approximation.
    Fused,
    /// Composed from erf, whose derivative is exact everywhere.
    Composed,
    /// By [`gelu`]: flex takes half of a forward pass for it. Where nothing is differentiated.
    Values,
}

impl Gelu {
    pub(crate) fn on(device: &Device) -> Self {
        if is_untracked_memory(device) {
            Self::Values
        } else if *device == Device::flex() {
            Self::Fused
        } else {
            Self::Composed
        }
    }

    pub(crate) fn apply(self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Fused => activation::gelu(x),
            Self::Composed => {
                let phi = (x.clone() / SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
                x * phi
            }
            Self::Values => {
                let (device, dtype) = (x.device(), x.dtype());
                let mut data = x.into_data();
                match data.as_mut_slice::<f32>() {
                    Ok(values) => {
                        values.iter_mut().for_each(|value| *value = gelu(*value));
                        Tensor::from_data(data, (&device, dtype))
                    }
                    Err(_) => activation::gelu(Tensor::from_data(data, (&device, dtype))),
                }
            }
        }
    }
}

/// x Phi(x), without a branch, so that a loop over it is vectorised. It errs by less than 5e-7 of |x|.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// Where erf is 1 to f32's last place.
const FAR: f32 = 3.92;
/// erf(x) = x P(x^2) / Q(x^2) up to [`FAR`], lowest powers first.
const P: [f32; 6] =
    [std::f32::consts::FRAC_2_SQRT_PI, 0.190_408_81, 0.052_749_03, 0.003_765_714, 0.000_284_884_18, 2.050_061e-6];
const Q: [f32; 6] = [1.0, 0.502_078_2, 0.114_110_075, 0.014_969_415, 0.001_162_557_4, 3.809_152e-5];

fn erf(x: f32) -> f32 {
    let x = x.clamp(-FAR, FAR);
    let square = x * x;
    let polynomial = |of: &[f32; 6]| of.iter().rev().fold(0.0, |sum, &factor| sum * square + factor);
    (x * polynomial(&P) / polynomial(&Q)).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, TensorData};

    use super::*;

    /// Beside Burn's operation in f64, over all that a layer may give.
    #[test]
    fn values_are_those_of_the_exact_function() {
        let inputs: Vec<f64> = (-160_000..=160_000).map(|i| f64::from((f64::from(i) / 10_000.0) as f32)).collect();
        let device = Device::flex();
        let shape = [1, 1, inputs.len()];
        let exact = Tensor::<3>::from_data(TensorData::new(inputs.clone(), shape), (&device, DType::F64));
        let exact: Vec<f64> = activation::gelu(exact).into_data().try_into_vec().unwrap();
        let given = Tensor::<3>::from_data(
            TensorData::new(inputs.iter().map(|&x| x as f32).collect::<Vec<f32>>(), shape),
            (&device, DType::F32),
        );
        let found: Vec<f32> = Gelu::on(&device).apply(given).into_data().try_into_vec().unwrap();
        for ((x, exact), found) in inputs.iter().zip(exact).zip(found) {
            assert!((exact - f64::from(found)).abs() < 5e-7 * x.abs().max(1e-3), "{x}: {found} for {exact}");
        }
        assert!(gelu(f32::NAN).is_nan());
        assert_eq!((gelu(f32::INFINITY), gelu(30.0), gelu(-30.0)), (f32::INFINITY, 30.0, 0.0));
    }

    #[test]
    fn what_is_differentiated_is_left_to_burn() {
        assert!(matches!(Gelu::on(&Device::flex().autodiff()), Gelu::Fused));
        assert!(matches!(Gelu::on(&Device::flex()), Gelu::Values));
    }
}
