//! The masks that a presenter chooses with keys.

use unmask_core::{Defence, GroupRates, ZeroRate};

/// The rate that the papers test, and with which a masked scene begins.
pub(crate) const HALF: f64 = 0.5;

/// The rates that the keys step through.
const RATES: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// A random mask with this share of zeros; no defence at 0.
pub fn masked(rate: f64) -> Defence {
    if rate <= 0.0 {
        return Defence::None;
    }
    Defence::RandomBinary { rates: GroupRates::uniform(ZeroRate::nearest(rate)) }
}

/// The rate of a random mask that has one rate for all groups: 0 without a defence, `None` under any other defence.
pub fn uniform_rate(defence: Defence) -> Option<ZeroRate> {
    match defence {
        Defence::None => Some(ZeroRate::default()),
        Defence::RandomBinary { rates } => rates.single(),
        _ => None,
    }
}

/// The mask one step up or down from `defence`; `None` at the ends, and where `defence` has no single rate.
pub fn stepped(defence: Defence, is_up: bool) -> Option<Defence> {
    let now = uniform_rate(defence)?.get();
    // A rate between two steps goes to the nearer end of its interval, not past it.
    let next = if is_up {
        RATES.into_iter().find(|rate| *rate > now + 1e-3)
    } else {
        RATES.into_iter().rev().find(|rate| *rate < now - 1e-3)
    };
    next.map(masked)
}

/// Turns the mask on or off: any defence becomes none, and none becomes the papers' mask.
pub fn flipped(defence: Defence) -> Defence {
    if defence == Defence::None { masked(HALF) } else { Defence::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_step_between_nothing_and_almost_everything() {
        assert_eq!(stepped(Defence::None, true), Some(masked(0.1)));
        assert_eq!(stepped(Defence::None, false), None);
        assert_eq!(stepped(masked(0.1), false), Some(Defence::None));
        assert_eq!(stepped(masked(0.45), true), Some(masked(0.5)));
        assert_eq!((stepped(masked(0.9), true), stepped(masked(0.95), true)), (Some(masked(0.95)), None));
        assert_eq!(stepped(Defence::FixedPosition, true), None);
        assert_eq!((flipped(Defence::None), flipped(masked(0.2))), (masked(0.5), Defence::None));
    }
}
