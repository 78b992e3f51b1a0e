//! OpenDP as the accountant: the Gaussian mechanism in zero-concentrated differential privacy (Bun and Steinke 2016),
//! composed over rounds, as approximate differential privacy (Canonne, Kamath and Steinke 2020). Each step is rounded
//! towards less privacy.

use std::sync::{Mutex, PoisonError};

use opendp::{
    combinators::{Adaptivity, CompositionMeasure, ConcentratedMeasure},
    domains::{AtomDomain, VectorDomain},
    error::Fallible,
    measurements::make_gaussian,
    measures::ZeroConcentratedDivergence,
    metrics::L2Distance,
};

use super::Mechanism;

/// OpenDP replaces the process's panic hook around its arithmetic. Two threads at the same time could leave the wrong
/// hook behind, and later panics would go unreported.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A smaller rho is raised to this one, because OpenDP divides by it. Its epsilon is close to 0.
const SMALLEST_RHO: f64 = 1e-30;

/// Returns an epsilon that holds at `delta` after `rounds` updates. Returns `None` if the mechanism is not valid (no
/// noise, no clipping, NaN) or OpenDP finds no epsilon within f64.
pub fn epsilon(mechanism: Mechanism, rounds: u32, delta: f64) -> Option<f64> {
    let Mechanism { clip, deviation } = mechanism;
    let sensitivity = 2.0 * clip?;
    let in_range = sensitivity >= 0.0 && sensitivity.is_finite() && deviation > 0.0 && deviation.is_finite();
    if !(in_range && delta > 0.0 && delta < 1.0) {
        return None;
    }
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let epsilon = one_round(sensitivity, deviation)
        .and_then(|rho| over_rounds(rho, rounds))
        .and_then(|rho| at_delta(rho.max(SMALLEST_RHO), delta));
    epsilon.ok().filter(|epsilon| epsilon.is_finite())
}

/// The rho of one noised update.
fn one_round(sensitivity: f64, deviation: f64) -> Fallible<f64> {
    make_gaussian::<_, _, ZeroConcentratedDivergence>(
        VectorDomain::new(AtomDomain::<f64>::new_non_nan()),
        L2Distance::<f64>::default(),
        deviation,
        None,
    )?
    .map(&sensitivity)
}

/// The rho of `rounds` updates of `rho` each, where later ones may depend on earlier ones.
fn over_rounds(rho: f64, rounds: u32) -> Fallible<f64> {
    let measure = ZeroConcentratedDivergence;
    measure.composability(Adaptivity::Adaptive)?;
    // A composition can itself be composed, so the list need not be as long as the training.
    (0..u32::BITS).rev().try_fold(0.0, |half, bit| {
        let one = if rounds >> bit & 1 == 1 { rho } else { 0.0 };
        measure.compose(vec![half, half, one])
    })
}

/// The epsilon at which the privacy profile of `rho` falls to `delta`.
fn at_delta(rho: f64, delta: f64) -> Fallible<f64> {
    let profile = ZeroConcentratedDivergence::convert(rho)?;
    // Bisection would look for the smallest positive number first.
    if profile.delta(0.0)? <= delta { Ok(0.0) } else { profile.epsilon(delta) }
}
