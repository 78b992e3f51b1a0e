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

#[cfg(test)]
mod tests {
    use super::*;

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
