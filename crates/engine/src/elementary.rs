//! e^x and the error function of `f32` without branches, so that the compiler vectorises loops that call them.

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
}
