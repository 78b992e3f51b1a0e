//! The number types that the engine computes in.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::vector;

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

    /// The nearest number of this type.
    fn rounded(x: f64) -> Self;

    fn root(self) -> Self;

    /// e^x of x <= 0.
    fn exp(self) -> Self;

    fn erf(self) -> Self;
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
        vector::exp(self)
    }

    #[inline(always)]
    fn erf(self) -> Self {
        vector::erf(self)
    }
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
}
