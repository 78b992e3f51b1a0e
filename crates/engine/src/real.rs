//! The number types of the engine.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use pulp::Simd;

use crate::elementary;

/// `f32`, or `f64` for checks.
pub trait Real:
    faer::traits::RealField
    + Copy
    + Default
    + From<f32>
    + Into<f64>
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;

    /// Rounds to the nearest number of this type.
    fn rounded(x: f64) -> Self;

    fn root(self) -> Self;

    /// e^x for x <= 0.
    fn exp(self) -> Self;

    fn erf(self) -> Self;

    type Vector<S: Simd>: Copy;

    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Vector<S>>() / size_of::<Self>()
    }

    /// Views `values` as vectors, without the remainder.
    fn vectors<S: Simd>(values: &[Self]) -> &[Self::Vector<S>];

    fn vectors_mut<S: Simd>(values: &mut [Self]) -> &mut [Self::Vector<S>];

    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;

    /// `a` `b` + `c`, with a single rounding where the processor supports it.
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;

    fn reduce_sum<S: Simd>(simd: S, x: Self::Vector<S>) -> Self;
}

macro_rules! vectors {
    ($vector:ident, $vectors:ident, $vectors_mut:ident, $spread:ident, $both:ident, $multiplied:ident, $added:ident, $summed:ident) => {
        type Vector<S: Simd> = S::$vector;

        #[inline(always)]
        fn vectors<S: Simd>(values: &[Self]) -> &[S::$vector] {
            S::$vectors(values).0
        }

        #[inline(always)]
        fn vectors_mut<S: Simd>(values: &mut [Self]) -> &mut [S::$vector] {
            S::$vectors_mut(values).0
        }

        #[inline(always)]
        fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
            simd.$spread(x)
        }

        #[inline(always)]
        fn mul_add<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
            // WebAssembly has no fused multiply-add; pulp's substitute works on one number at a time.
            if cfg!(target_family = "wasm") { simd.$added(simd.$multiplied(a, b), c) } else { simd.$both(a, b, c) }
        }

        #[inline(always)]
        fn reduce_sum<S: Simd>(simd: S, x: S::$vector) -> Self {
            simd.$summed(x)
        }
    };
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NEG_INFINITY: Self = Self::NEG_INFINITY;

    #[inline(always)]
    fn rounded(x: f64) -> Self {
        x as Self
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn exp(self) -> Self {
        elementary::exp(self)
    }

    #[inline(always)]
    fn erf(self) -> Self {
        elementary::erf(self)
    }

    vectors!(f32s, as_simd_f32s, as_mut_simd_f32s, splat_f32s, mul_add_e_f32s, mul_f32s, add_f32s, reduce_sum_f32s);
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NEG_INFINITY: Self = Self::NEG_INFINITY;

    #[inline(always)]
    fn rounded(x: f64) -> Self {
        x
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn exp(self) -> Self {
        libm::exp(self)
    }

    #[inline(always)]
    fn erf(self) -> Self {
        libm::erf(self)
    }

    vectors!(f64s, as_simd_f64s, as_mut_simd_f64s, splat_f64s, mul_add_e_f64s, mul_f64s, add_f64s, reduce_sum_f64s);
}
