//! The activation of a ViT's MLP. Training uses GELU; others serve to check which one a foreign model used.

use unmask_core::Activation;

use crate::{
    gelu::{gelu, gelu_back},
    real::Real,
};

/// CLIP's constant.
const QUICK: f64 = 1.702;

pub(crate) fn activate<R: Real>(activation: Activation, y: &mut [R], x: &[R]) {
    match activation {
        Activation::Gelu => gelu(y, x),
        Activation::Relu => y.iter_mut().zip(x).for_each(|(y, &x)| *y = if x > R::ZERO { x } else { R::ZERO }),
        Activation::QuickGelu => y.iter_mut().zip(x).for_each(|(y, &x)| *y = x * gate(x)),
    }
}

/// Computes dl/dx from `slopes`, dl/dy.
pub(crate) fn activate_back<R: Real>(activation: Activation, by_x: &mut [R], slopes: &[R], x: &[R]) {
    let pairs = by_x.iter_mut().zip(slopes).zip(x);
    match activation {
        Activation::Gelu => gelu_back(by_x, slopes, x),
        Activation::Relu => pairs.for_each(|((by_x, &along), &x)| *by_x = if x > R::ZERO { along } else { R::ZERO }),
        Activation::QuickGelu => pairs.for_each(|((by_x, &along), &x)| {
            let gate = gate(x);
            *by_x = along * gate * (R::ONE + R::rounded(QUICK) * x * (R::ONE - gate));
        }),
    }
}

/// sigma(1.702 x)
fn gate<R: Real>(x: R) -> R {
    R::ONE / (R::ONE + (R::rounded(-QUICK) * x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_functions() {
        let x: Vec<f64> = (0..40).map(|i| 0.2 * f64::from(i) - 3.95).collect();
        for activation in Activation::ALL {
            let at = |moved: f64| {
                let x: Vec<f64> = x.iter().map(|x| x + moved).collect();
                let mut y = vec![0.0; x.len()];
                activate(activation, &mut y, &x);
                y
            };
            let mut slopes = vec![0.0; x.len()];
            activate_back(activation, &mut slopes, &vec![1.0; x.len()], &x);
            for ((above, below), slope) in at(1e-5).iter().zip(at(-1e-5)).zip(slopes) {
                assert!(((above - below) / 2e-5 - slope).abs() < 1e-6, "{} {slope}", activation.name());
            }
        }
    }
}
