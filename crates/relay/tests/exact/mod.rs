//! The exact privacy profile of the Gaussian mechanism (Balle and Wang, Improving the Gaussian Mechanism for
//! Differential Privacy, 2018, Theorem 8), composed over rounds (Dong, Roth and Su, Gaussian Differential Privacy,
//! 2022, Corollary 3.3). No smaller epsilon holds, so it is the reference for the accountant.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Returns the mu of `rounds` rounds of noise of `deviation`. Updates clipped to `clip` differ by at most 2 clip. The
/// rounds are equivalent to one Gaussian mechanism with a difference of sqrt(rounds) 2 clip, even if later updates
/// depend on earlier ones.
pub fn mu(clip: f64, deviation: f64, rounds: u32) -> f64 {
    f64::from(rounds).sqrt() * 2.0 * clip / deviation
}

/// Returns the epsilon at which delta(epsilon) = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2)
/// falls to `delta`, which must be below 1, or 0 if it is never larger.
///
/// With t = epsilon / mu - mu / 2, the normal density phi and Mills' ratio m(t) = Phi(-t) / phi(t), both terms have the
/// factor phi(t): delta = phi(t) (m(t) - m(t + mu)). This form does not overflow even for tiny noise.
pub fn epsilon(mu: f64, delta: f64) -> f64 {
    let profile = |t: f64| (-t * t / 2.0).exp() / (2.0 * PI).sqrt() * (mills_ratio(t) - mills_ratio(t + mu));
    let epsilon = |t: f64| mu * (t + mu / 2.0);
    // epsilon = 0 means t = -mu / 2. Beyond 37 standard deviations delta is 1 or 0 in f64.
    let (mut low, mut high) = ((-mu / 2.0).max(-37.0), 37.0);
    if profile(low) <= delta {
        return epsilon(low).max(0.0);
    }
    assert!(profile(high) <= delta, "delta = {delta:e} is out of reach");
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

/// Returns delta(epsilon) of N(0, 1) against N(mu, 1) by its definition, the integral of max(0, p - e^epsilon q), with
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

#[test]
fn agrees_with_integration() {
    for mu in [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0] {
        for delta in [1e-5, 1e-6, 1e-10] {
            let integrated = integrated_delta(mu, epsilon(mu, delta));
            assert!((integrated / delta - 1.0).abs() < 1e-5, "mu {mu}, delta {delta}: {integrated}");
        }
    }
}

#[test]
fn both_forms_of_mills_ratio_agree_where_they_meet() {
    for t in [5.0, 6.0, 8.0] {
        let by_erfc = (PI / 2.0).sqrt() * (t * t / 2.0f64).exp() * libm::erfc(t * FRAC_1_SQRT_2);
        assert!((mills_ratio(t) / by_erfc - 1.0).abs() < 1e-12, "{t}");
    }
}

/// Values from the tests of Google's differential privacy library (dp_accounting, privacy_loss_mechanism_test.py):
/// sensitivity over deviation, epsilon, delta.
#[test]
fn agrees_with_published_values() {
    for (mu, published, delta) in [(1.0, 1.0, 0.126_936_74), (3.0, 1.0, 0.787_600_74), (1.0, 2.0, 0.020_923_64)] {
        let found = epsilon(mu, delta);
        assert!((found / published - 1.0).abs() < 1e-6, "mu {mu}: {found}, published {published}");
    }
}
