//! The exact privacy profile of the Gaussian mechanism (Balle and Wang, Improving the Gaussian Mechanism for Differential
//! Privacy, 2018, Theorem 8), composed over rounds (Dong, Roth and Su, Gaussian Differential Privacy, 2022,
//! Corollary 3.3).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::Mechanism;

/// The smallest epsilon that holds at `delta` after `rounds` updates, or `None` if none does or the mechanism is none
/// (no noise, NaN).
pub fn epsilon(mechanism: Mechanism, rounds: u32, delta: f64) -> Option<f64> {
    let Mechanism { clip, deviation } = mechanism;
    if !(clip >= 0.0 && deviation > 0.0 && delta > 0.0) {
        return None;
    }
    // M rounds of the same noise on updates that differ by 2 S_f each are one Gaussian mechanism on updates that differ by
    // sqrt(M) 2 S_f. That holds as well where later updates depend on earlier ones.
    let mu = f64::from(rounds).sqrt() * 2.0 * clip / deviation;
    Some(profile_inverse(mu, delta)).filter(|epsilon| epsilon.is_finite())
}

/// The epsilon at which delta(epsilon) = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2) falls to
/// `delta`, below 1, or 0 if it is never larger.
///
/// With t = epsilon / mu - mu / 2, the normal density phi and Mills' ratio m(t) = Phi(-t) / phi(t), both terms have the
/// factor phi(t): delta = phi(t) (m(t) - m(t + mu)). So nothing overflows, however small the noise.
fn profile_inverse(mu: f64, delta: f64) -> f64 {
    let profile = |t: f64| (-t * t / 2.0).exp() / (2.0 * PI).sqrt() * (mills_ratio(t) - mills_ratio(t + mu));
    let epsilon = |t: f64| mu * (t + mu / 2.0);
    // epsilon = 0 is t = -mu / 2. Beyond 37 standard deviations delta is 1 or 0 in f64.
    let (mut low, mut high) = ((-mu / 2.0).max(-37.0), 37.0);
    if profile(low) <= delta {
        return epsilon(low).max(0.0);
    }
    if profile(high) > delta {
        return f64::INFINITY;
    }
    while low < high {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if profile(middle) > delta {
            low = middle;
        } else {
            high = middle;
        }
    }
    epsilon(high)
}

/// Phi(-t) / phi(t) for t of at least -37.
fn mills_ratio(t: f64) -> f64 {
    if t < 5.0 {
        return (PI / 2.0).sqrt() * (t * t / 2.0).exp() * libm::erfc(t * FRAC_1_SQRT_2);
    }
    // Laplace's continued fraction 1 / (t + 1 / (t + 2 / (t + 3 / ...))).
    (1..=60).rev().fold(t, |rest, k| t + f64::from(k) / rest).recip()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Clip 0.5, so that the sensitivity is 1 and mu the inverse of the deviation.
    fn at(mu: f64, delta: f64) -> f64 {
        epsilon(Mechanism { clip: 0.5, deviation: 1.0 / mu }, 1, delta).unwrap()
    }

    /// delta(epsilon) of N(0, 1) against N(mu, 1) by its definition, the integral of max(0, p - e^epsilon q), with
    /// Simpson's rule.
    fn integrated_delta(mu: f64, epsilon: f64) -> f64 {
        // log(p / q) exceeds epsilon where x < mu / 2 - epsilon / mu.
        let edge = mu / 2.0 - epsilon / mu;
        let (from, steps) = (edge.min(0.0) - 12.0, 20_000);
        let width = (edge - from) / f64::from(steps);
        let excess = |x: f64| {
            let log_p = -x * x / 2.0;
            let log_q = -(x - mu) * (x - mu) / 2.0;
            (log_p.exp() - (epsilon + log_q).exp()) / (2.0 * PI).sqrt()
        };
        let weight = |i: i32| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
        (0..=steps).map(|i| weight(i) * excess(from + width * f64::from(i))).sum::<f64>() * width / 3.0
    }

    /// Values in the tests of Google's differential privacy library (dp_accounting, privacy_loss_mechanism_test.py):
    /// sensitivity, deviation, epsilon, delta.
    #[test]
    fn agrees_with_published_values() {
        for (sensitivity, deviation, epsilon, delta) in
            [(1.0, 1.0, 1.0, 0.126_936_74), (3.0, 1.0, 1.0, 0.787_600_74), (1.0, 1.0, 2.0, 0.020_923_64)]
        {
            let mu: f64 = sensitivity / deviation;
            let found = at(mu, delta);
            assert!((found / epsilon - 1.0).abs() < 1e-6, "mu {mu}: {found}, published {epsilon}");
        }
        // There the deviation 0.344 is what epsilon = 16 takes at delta = 1e-5, in three digits.
        assert!((at(1.0 / 0.3445, 1e-5)..at(1.0 / 0.3435, 1e-5)).contains(&16.0));
    }

    #[test]
    fn agrees_with_integration() {
        for mu in [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0] {
            for delta in [1e-5, 1e-6, 1e-10] {
                let integrated = integrated_delta(mu, at(mu, delta));
                assert!((integrated / delta - 1.0).abs() < 1e-5, "mu {mu}, delta {delta}: {integrated}");
            }
        }
    }

    /// OpenDP 0.16 accounts by zero-concentrated differential privacy, which bounds epsilon from above: these are
    /// `make_zCDP_to_approxDP(make_gaussian(.., 1.0, ..)).map(mu).epsilon(delta)`. The exact value lies below, but not
    /// far.
    #[test]
    fn lies_little_below_opendps_bound() {
        for (mu, delta, bound) in [
            (0.1, 1e-5, 0.375_261_235_699_023_25),
            (0.5, 1e-5, 2.165_715_545_175_475_7),
            (1.0, 1e-5, 4.728_386_984_943_315),
            (2.0, 1e-5, 10.724_824_112_939_174),
            (5.0, 1e-5, 35.067_340_967_400_746),
            (20.0, 1e-5, 293.427_528_258_049_85),
            (0.5, 1e-10, 3.243_613_144_880_097),
            (5.0, 1e-10, 45.240_949_779_548_906),
        ] {
            let exact = at(mu, delta);
            assert!((0.9 * bound..bound).contains(&exact), "mu {mu}, delta {delta}: {exact}, bound {bound}");
        }
    }

    #[test]
    fn both_forms_of_mills_ratio_agree_where_they_meet() {
        for t in [5.0, 6.0, 8.0] {
            let by_erfc = (PI / 2.0).sqrt() * (t * t / 2.0f64).exp() * libm::erfc(t * FRAC_1_SQRT_2);
            assert!((mills_ratio(t) / by_erfc - 1.0).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn extremes_are_numbers_or_none() {
        // All but no noise: epsilon approaches mu^2 / 2.
        assert!((at(1e8, 1e-5) / 5e15 - 1.0).abs() < 1e-6);
        // All but no signal: even epsilon = 0 holds.
        assert_eq!(at(1e-6, 1e-5), 0.0);
        let none = |clip, deviation, delta| assert_eq!(epsilon(Mechanism { clip, deviation }, 1, delta), None);
        none(1.0, 0.0, 1e-5);
        none(1.0, -1.0, 1e-5);
        none(1.0, f64::NAN, 1e-5);
        none(1.0, 1e-300, 1e-5);
        none(f64::NAN, 1.0, 1e-5);
        none(f64::INFINITY, 1.0, 1e-5);
        // Normal noise alone never satisfies delta = 0.
        none(1.0, 1.0, 0.0);
        none(1.0, 1.0, 1e-320);
    }

    proptest! {
        #[test]
        fn more_rounds_and_less_noise_cost_epsilon(noise in 0.01f64..1000.0, factor in 1.01f64..3.0, rounds in 1u32..100_000) {
            let epsilon = |clip, deviation, rounds| epsilon(Mechanism { clip, deviation }, rounds, 1e-5).unwrap();
            let base = epsilon(0.5, noise, rounds);
            prop_assert!(epsilon(0.5, noise, rounds + 1) > base);
            prop_assert!(epsilon(0.5, noise * factor, rounds) < base);
            // Only the ratio of clip and noise counts, and four rounds are half the noise.
            prop_assert!((epsilon(0.5 * factor, noise * factor, rounds) / base - 1.0).abs() < 1e-9);
            prop_assert!((epsilon(0.5, 2.0 * noise, 4 * rounds) / base - 1.0).abs() < 1e-9);
        }
    }
}
