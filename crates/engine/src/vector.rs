//! Loops that the compiler vectorises for the widest SIMD instructions of the processor. Every operation rounds as IEEE
//! 754 specifies, and sums have a fixed order, so that every processor gives the same bits.

use crate::real::Real;

/// Partial results per sum or maximum.
const LANES: usize = 16;

/// Defines functions, generic over [`Real`], that run with the processor's SIMD instructions. Functions that they call
/// use these instructions only if inlined, so mark those `#[inline(always)]` and keep closures to one line.
macro_rules! vectorised {
    ($($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? $body:block)+) => {$(
        $(#[$attribute])*
        $visibility fn $name<R: Real>($($argument: $type),*) $(-> $output)? {
            #[allow(non_camel_case_types)]
            struct Work<$($argument),*>($($argument),*);

            impl<R: Real> pulp::NullaryFnOnce for Work<$($type),*> {
                type Output = $crate::vector::vectorised!(@ $($output)?);

                #[inline(always)]
                fn call(self) -> Self::Output {
                    let Self($($argument),*) = self;
                    $body
                }
            }

            pulp::Arch::new().dispatch(Work($($argument),*))
        }
    )+};
    (@) => { () };
    (@ $output:ty) => { $output };
}

pub(crate) use vectorised;

vectorised! {
    pub(crate) fn add(sum: &mut [R], x: &[R]) {
        for (sum, &x) in sum.iter_mut().zip(x) {
            *sum += x;
        }
    }

    pub(crate) fn total(slice: &[R]) -> R {
        sum(slice, |x| x)
    }
}

#[inline(always)]
fn joined<R: Real>(mut lanes: [R; LANES], join: impl Fn(R, R) -> R) -> R {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn gathered<R: Real>(slice: &[R], start: R, gather: impl Fn(R, R) -> R, join: impl Fn(R, R) -> R) -> R {
    let mut lanes = [start; LANES];
    let (whole, rest) = slice.as_chunks::<LANES>();
    for chunk in whole {
        for lane in 0..LANES {
            lanes[lane] = gather(lanes[lane], chunk[lane]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = gather(*lane, x);
    }
    joined(lanes, join)
}

/// Sums `of(x)` over the values x.
#[inline(always)]
pub(crate) fn sum<R: Real>(slice: &[R], of: impl Fn(R) -> R) -> R {
    gathered(slice, R::ZERO, |sum, x| sum + of(x), |a, b| a + b)
}

/// Returns the largest value. Ignores NaN.
#[inline(always)]
pub(crate) fn max<R: Real>(slice: &[R]) -> R {
    let larger = |a, b| if b > a { b } else { a };
    gathered(slice, R::NEG_INFINITY, larger, larger)
}

#[inline(always)]
pub(crate) fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    let mut lanes = [R::ZERO; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    for ((lane, &a), &b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += a * b;
    }
    joined(lanes, |a, b| a + b)
}

/// Below this, e^x is treated as 0. Above it, e^x is not subnormal; subnormal numbers are slow.
const FAR_BELOW: f32 = -87.0;
/// 1.5 x 2^23: adding it rounds to a whole number, held in the last bits of the sum.
const ROUNDING: f32 = 12_582_912.0;
/// ln 2 in two parts. The first is short enough that whole multiples of it are exact (Cody and Waite).
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, lowest powers first (Cephes, `expf`).
const EXP: [f32; 6] = [0.5, 0.166_666_65, 0.041_665_796, 8.333_452e-3, 1.398_2e-3, 1.987_569_1e-4];

/// e^x for x <= 0, without branches. The relative error is below 2e-7; below -87 the result is 0.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let rounded = x * std::f32::consts::LOG2_E + ROUNDING;
    let whole = rounded - ROUNDING;
    let r = x - whole * LN_2[0] - whole * LN_2[1];
    let power = EXP.iter().rev().fold(0.0, |sum, &factor| sum * r + factor) * r * r + r + 1.0;
    // Multiply by 2^whole through the exponent bits.
    let e = power * f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x < FAR_BELOW { 0.0 } else { e }
}

/// From here on, erf is 1 to the last bit of f32.
const FAR: f32 = 3.92;
/// erf(x) = x P(x^2) / Q(x^2) up to [`FAR`], lowest powers first.
const P: [f32; 6] =
    [std::f32::consts::FRAC_2_SQRT_PI, 0.190_408_81, 0.052_749_03, 0.003_765_714, 0.000_284_884_18, 2.050_061e-6];
const Q: [f32; 6] = [1.0, 0.502_078_2, 0.114_110_075, 0.014_969_415, 0.001_162_557_4, 3.809_152e-5];

/// The error function, without branches.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let x = x.clamp(-FAR, FAR);
    let square = x * x;
    let p = P.iter().rev().fold(0.0, |sum, &factor| sum * square + factor);
    let q = Q.iter().rev().fold(0.0, |sum, &factor| sum * square + factor);
    (x * p / q).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_that_of_the_library() {
        for i in 0..=870_000 {
            let x = -(i as f32) / 10_000.0;
            let (found, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((found - exact).abs() < 2e-7 * exact, "{x}: {found} for {exact}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!([-87.1, -1e9, f32::NEG_INFINITY].map(exp), [0.0; 3]);
    }

    #[test]
    fn sums_take_every_value_once() {
        for len in [0, 1, 15, 16, 17, 31, 32, 33, 65, 96] {
            let a: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let exact: f32 = a.iter().sum();
            assert_eq!(sum(&a, |x| x), exact, "{len}");
            assert_eq!(dot(&a, &vec![2.0; len]), 2.0 * exact, "{len}");
            assert_eq!(max(&a), a.last().copied().unwrap_or(f32::NEG_INFINITY), "{len}");
        }
    }
}
