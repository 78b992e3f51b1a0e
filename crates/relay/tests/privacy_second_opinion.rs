//! Compares the accountant with the exact formula and published values.

mod exact;

use proptest::prelude::*;
use unmask_relay::privacy::{Mechanism, guarantee};

fn epsilon(clip: f64, deviation: f64, rounds: u32, delta: f64) -> Option<f64> {
    guarantee(Mechanism { clip: Some(clip), deviation }, rounds, delta).epsilon
}

#[test]
fn lies_little_above_the_exact_epsilon() {
    for mu in [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 300.0] {
        for delta in [1e-5, 1e-6, 1e-8, 1e-10] {
            for rounds in [1, 7, 50, 10_000, u32::MAX] {
                let deviation = f64::from(rounds).sqrt() / mu;
                let found = epsilon(0.5, deviation, rounds, delta).unwrap();
                let exact = exact::epsilon(exact::mu(0.5, deviation, rounds), delta);
                assert!(
                    (exact..1.15 * exact).contains(&found),
                    "mu {mu}, {rounds} rounds, delta {delta}: {found}, exactly {exact}"
                );
            }
        }
    }
}

/// In the tests of Google's differential privacy library (dp_accounting, privacy_loss_mechanism_test.py) epsilon = 16
/// takes a deviation of 0.344 at a sensitivity of 1 and delta = 1e-5.
#[test]
fn lies_little_above_a_published_value() {
    let found = epsilon(0.5, 0.344, 1, 1e-5).unwrap();
    assert!((16.0..1.15 * 16.0).contains(&found), "{found}");
}

#[test]
fn extremes_are_numbers_or_none() {
    // Almost no signal: even epsilon = 0 holds.
    assert_eq!(epsilon(0.5, 1e6, 1, 1e-5), Some(0.0));
    assert_eq!(epsilon(1e-300, 1e300, 1, 1e-5), Some(0.0));
    assert_eq!(epsilon(0.0, 1.0, 1, 1e-5), Some(0.0));
    let none = |clip, deviation, delta| assert_eq!(epsilon(clip, deviation, 1, delta), None);
    none(1.0, 0.0, 1e-5);
    none(1.0, -1.0, 1e-5);
    none(1.0, f64::NAN, 1e-5);
    none(1.0, f64::INFINITY, 1e-5);
    none(1.0, 1e-300, 1e-5);
    none(-1.0, 1.0, 1e-5);
    none(f64::NAN, 1.0, 1e-5);
    none(f64::INFINITY, 1.0, 1e-5);
    none(1e308, 1.0, 1e-5);
    // Gaussian noise never satisfies delta = 0.
    none(1.0, 1.0, 0.0);
    none(1.0, 1.0, -1e-5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn more_rounds_and_less_noise_cost_epsilon(mu in 0.01f64..100.0, factor in 1.01f64..3.0, rounds in 1u32..10_000) {
        let noise = f64::from(rounds).sqrt() / mu;
        let epsilon = |clip, deviation, rounds| epsilon(clip, deviation, rounds, 1e-5).unwrap();
        let base = epsilon(0.5, noise, rounds);
        prop_assert!(epsilon(0.5, noise, rounds + 1) > base);
        prop_assert!(epsilon(0.5, noise * factor, rounds) < base);
        // Only the ratio of clip to noise counts, and four rounds are equivalent to half the noise.
        prop_assert!((epsilon(0.5 * factor, noise * factor, rounds) / base - 1.0).abs() < 1e-9);
        prop_assert!((epsilon(0.5, 2.0 * noise, 4 * rounds) / base - 1.0).abs() < 1e-9);
    }

    #[test]
    fn any_numbers_are_accounted_for_without_panic(clip: f64, deviation: f64, rounds: u32, delta: f64) {
        let told = guarantee(Mechanism { clip: Some(clip), deviation }, rounds, delta);
        prop_assert!(told.epsilon.is_none_or(|epsilon| epsilon >= 0.0) && !told.sentence.is_empty());
    }
}
