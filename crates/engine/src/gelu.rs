//! GELU, the activation of a ViT: x Phi(x) with the exact (erf) Phi.

use crate::{
    parallel::{BAND, each},
    real::Real,
    vector::vectorised,
};

/// Phi(x), the standard normal distribution function.
#[inline(always)]
fn cdf<R: Real>(x: R) -> R {
    R::from(0.5) * (R::ONE + (x * R::rounded(std::f64::consts::FRAC_1_SQRT_2)).erf())
}

/// phi(x), the standard normal density.
#[inline(always)]
fn density<R: Real>(x: R) -> R {
    /// 1 / sqrt(2 pi)
    const PEAK: f64 = 0.398_942_280_401_432_7;
    R::rounded(PEAK) * (R::from(-0.5) * x * x).exp()
}

/// The derivative of GELU, Phi(x) + x phi(x).
#[inline(always)]
fn slope<R: Real>(x: R) -> R {
    cdf(x) + x * density(x)
}

/// The second derivative of GELU.
#[inline(always)]
fn curvature<R: Real>(x: R) -> R {
    (R::from(2.0) - x * x) * density(x)
}

pub(crate) fn gelu<R: Real>(y: &mut [R], x: &[R]) {
    each(y.chunks_mut(BAND).zip(x.chunks(BAND)), |(a, b)| gelu_band(a, b));
}

vectorised! {
    fn gelu_band(y: &mut [R], x: &[R]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x * cdf(x);
        }
    }
}

/// Computes dl/dx from `slopes`, dl/dy.
pub(crate) fn gelu_back<R: Real>(by_x: &mut [R], slopes: &[R], x: &[R]) {
    let bands = by_x.chunks_mut(BAND).zip(slopes.chunks(BAND)).zip(x.chunks(BAND));
    each(bands, |((by_x, slopes), x)| gelu_back_band(by_x, slopes, x));
}

vectorised! {
    fn gelu_back_band(by_x: &mut [R], slopes: &[R], x: &[R]) {
        for ((by_x, &along), &x) in by_x.iter_mut().zip(slopes).zip(x) {
            *by_x = along * slope(x);
        }
    }
}

/// Computes the derivative of [`gelu_back`]. `slopes` and `x` are pairs of value and derivative.
pub(crate) fn gelu_back_change<R: Real>(changes: &mut [R], slopes: [&[R]; 2], x: [&[R]; 2]) {
    let [slopes, of_slopes, x, of_x] = [slopes[0], slopes[1], x[0], x[1]].map(|values| values.chunks(BAND));
    let bands = changes.chunks_mut(BAND).zip(slopes.zip(of_slopes)).zip(x.zip(of_x));
    each(bands, |((changes, (slopes, of_slopes)), (x, of_x))| {
        gelu_back_change_band(changes, slopes, of_slopes, x, of_x);
    });
}

vectorised! {
    fn gelu_back_change_band(changes: &mut [R], slopes: &[R], of_slopes: &[R], x: &[R], of_x: &[R]) {
        let slopes = slopes.iter().zip(of_slopes);
        for ((change, (&along, &of_along)), (&x, &of_x)) in changes.iter_mut().zip(slopes).zip(x.iter().zip(of_x)) {
            *change = of_along * slope(x) + along * curvature(x) * of_x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares f32 with f64 over the whole range of a layer's outputs.
    #[test]
    fn values_and_slopes_are_those_of_the_exact_function() {
        let x: Vec<f32> = (-160_000..=160_000).map(|i| i as f32 / 10_000.0).collect();
        let exact: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        let (mut y, mut exact_y) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        gelu(&mut y, &x);
        gelu(&mut exact_y, &exact);
        let (mut slopes, mut exact_slopes) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        gelu_back(&mut slopes, &vec![1.0; x.len()], &x);
        gelu_back(&mut exact_slopes, &vec![1.0; x.len()], &exact);
        for (i, x) in exact.iter().enumerate() {
            assert!((f64::from(y[i]) - exact_y[i]).abs() < 5e-7 * x.abs().max(1e-3), "{x}");
            assert!((f64::from(slopes[i]) - exact_slopes[i]).abs() < 5e-7, "{x}");
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let mut y = [0.0; 4];
        gelu(&mut y, &[f32::NAN, f32::INFINITY, 30.0, -30.0]);
        assert!(y[0].is_nan());
        assert_eq!(y[1..], [f32::INFINITY, 30.0, 0.0]);
    }
}
