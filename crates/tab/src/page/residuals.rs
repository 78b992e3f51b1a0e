//! A candidate's residual beside those of pictures like it, as geometry on a logarithmic axis.

use unmask_wire::view::MembershipView;

use super::{chart::Mark, words};

/// What is smaller is drawn as this: rounding alone leaves as much.
const LEAST: f64 = 1e-8;

/// Most ticks.
const TICKS: i32 = 5;

/// A logarithmic axis over whole decades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAxis {
    /// Exponent of ten at the left end.
    pub low: i32,
    /// Exponent of ten at the right end.
    pub high: i32,
}

impl LogAxis {
    /// The decades that hold `values` and 1, at least one of them. What is not finite is left out.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let logs = values.filter(|value| value.is_finite()).map(|value| value.max(LEAST).log10());
        let (low, high) = logs.fold((-1.0_f64, 0.0_f64), |(low, high), log| (low.min(log), high.max(log)));
        Self { low: low.floor() as i32, high: high.ceil() as i32 }
    }

    /// Where a value lies between the ends, 0 to 1.
    pub fn share(&self, value: f64) -> f32 {
        let decades = f64::from(self.high - self.low);
        ((value.max(LEAST).log10() - f64::from(self.low)) / decades).clamp(0.0, 1.0) as f32
    }

    /// Exponents of ten to write at the axis, from the right end leftwards.
    pub fn ticks(&self) -> impl Iterator<Item = i32> {
        let step = ((self.high - self.low + TICKS - 1) / TICKS).max(1);
        (self.low..=self.high).rev().step_by(step as usize)
    }
}

/// Where everything stands along the axis, in SVG units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Residuals {
    /// The candidate.
    pub candidate: Option<f32>,
    /// The ends of its interval.
    pub interval: Option<(f32, f32)>,
    /// Pictures like it.
    pub distractors: Vec<f32>,
    /// Ticks, right to left.
    pub ticks: Vec<Mark>,
}

impl Residuals {
    /// Draws what was asked of an update between `left` and `left + width`; nothing where no residual came of it.
    pub fn new(membership: &MembershipView, left: f32, width: f32) -> Self {
        let Some(residual) = membership.residual.filter(|residual| residual.is_finite()) else {
            return Self::default();
        };
        let interval = membership.interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
        let distractors = membership.distractors.iter().copied().filter(|value| value.is_finite());
        let axis =
            LogAxis::around(distractors.clone().chain(interval.into_iter().flatten()).chain(std::iter::once(residual)));
        let place = |value: f64| left + axis.share(value) * width;
        let tick = |exponent: i32| Mark { at: place(10_f64.powi(exponent)), text: words::share(10_f64.powi(exponent)) };
        Self {
            candidate: Some(place(residual)),
            interval: interval.map(|[from, to]| (place(from), place(to))),
            distractors: distractors.map(place).collect(),
            ticks: axis.ticks().map(tick).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_hold_every_value() {
        assert_eq!(LogAxis::around([0.03, 0.000_2].into_iter()), LogAxis { low: -4, high: 0 });
        assert_eq!(LogAxis::around([1.7].into_iter()), LogAxis { low: -1, high: 1 });
        assert_eq!(LogAxis::around([0.0, f64::NAN, f64::INFINITY].into_iter()), LogAxis { low: -8, high: 0 });
        assert_eq!(LogAxis::around(std::iter::empty()), LogAxis { low: -1, high: 0 });
    }

    #[test]
    fn equal_factors_are_equally_far_apart() {
        let axis = LogAxis { low: -4, high: 0 };
        assert_eq!([1e-4, 1e-2, 1.0].map(|value| axis.share(value)), [0.0, 0.5, 1.0]);
        assert_eq!((axis.share(0.0), axis.share(3.0)), (0.0, 1.0));
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [0, -1, -2, -3, -4]);
        assert_eq!(LogAxis { low: -8, high: 0 }.ticks().collect::<Vec<_>>(), [0, -2, -4, -6, -8]);
    }

    #[test]
    fn a_member_stands_left_of_pictures_like_it() {
        let membership = MembershipView {
            residual: Some(0.000_1),
            interval: Some([0.000_05, 0.000_2]),
            distractors: vec![0.02, 0.05],
            ..MembershipView::default()
        };
        let drawn = Residuals::new(&membership, 10.0, 100.0);
        let (from, to) = drawn.interval.expect("an interval");
        let candidate = drawn.candidate.expect("a candidate");
        assert!(10.0 <= from && from < candidate && candidate < to && to < drawn.distractors[0], "{drawn:?}");
        assert!(drawn.distractors[1] < 110.0);
        assert_eq!(drawn.ticks[0], Mark { at: 110.0, text: "100 %".to_owned() });
        assert_eq!(drawn.ticks.last().map(|tick| tick.text.as_str()), Some("0.001 %"));
    }

    #[test]
    fn no_residual_draws_nothing() {
        let refused = MembershipView { distractors: vec![0.5], ..MembershipView::default() };
        assert_eq!(Residuals::new(&refused, 0.0, 1.0), Residuals::default());
    }
}
