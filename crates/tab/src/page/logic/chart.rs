//! Chart geometry: takes numbers, returns SVG paths, bars and marks.

use unmask_core::Defence;
use unmask_wire::view::{CountBinView, LossPoint, MembershipView};

use super::attacks::share;

/// The box that holds the curve, in SVG units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    pub left: f32,
    pub top: f32,
    pub width: f32,
    pub height: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub round: u32,
    /// Measured after the round.
    pub value: f32,
    /// The defence in force in this round. The chart marks each change.
    pub defence: Defence,
}

impl From<&LossPoint> for Point {
    fn from(point: &LossPoint) -> Self {
        Self { round: point.round, value: point.loss, defence: point.defence }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From 0 to just above the highest value.
    Zero,
    /// From 0 to 1, labelled in percent, so that two runs can be compared by eye.
    Share,
}

/// A line with a text: a tick of an axis or a change of defence.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Position along the axis, in SVG units.
    pub at: f32,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// The line's `d` attribute; empty without points.
    pub path: String,
    pub end: Option<(f32, f32)>,
    /// Ticks of the value axis, bottom to top.
    pub values: Vec<Mark>,
    /// Ticks of the round axis, left to right.
    pub rounds: Vec<Mark>,
    /// Where the defence changes, including the first one, in SVG units.
    pub defences: Vec<(f32, Defence)>,
}

/// The maximum number of ticks on an axis.
const TICKS: u32 = 5;

impl Curve {
    /// Draws `points` into `frame`. Values that are not finite are left out.
    pub fn new(points: &[Point], scale: Scale, frame: Frame) -> Self {
        let points: Vec<&Point> = points.iter().filter(|point| point.value.is_finite()).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Self::default();
        };
        let rounds = Axis { low: first.round as f32, high: last.round.max(first.round + 1) as f32 };
        let (step, top) = match scale {
            Scale::Zero => {
                let highest = f64::from(points.iter().fold(0.05_f32, |high, point| high.max(point.value)));
                let step = nice_step(highest / f64::from(TICKS));
                (step, (highest / step).ceil() * step)
            }
            Scale::Share => (0.25, 1.0),
        };
        let values = Axis { low: 0.0, high: top as f32 };
        let x = |round: u32| frame.left + rounds.share(round as f32) * frame.width;
        let y = |value: f32| frame.top + (1.0 - values.share(value)) * frame.height;

        let places: Vec<(f32, f32)> = points.iter().map(|point| (x(point.round), y(point.value.max(0.0)))).collect();
        let mut defences: Vec<(f32, Defence)> = Vec::new();
        for point in &points {
            if defences.last().is_none_or(|(_, defence)| *defence != point.defence) {
                defences.push((x(point.round), point.defence));
            }
        }
        let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
        let text = |value: f64| match scale {
            Scale::Zero => format!("{value:.decimals$}"),
            Scale::Share => format!("{:.0} %", value * 100.0),
        };
        let value_ticks = (0..=(top / step).round() as u32)
            .map(|tick| f64::from(tick) * step)
            .map(|value| Mark { at: y(value as f32), text: text(value) })
            .collect();
        let round_step = nice_step(f64::from((last.round - first.round).max(1)) / f64::from(TICKS)).max(1.0) as u32;
        let round_ticks = (first.round.div_ceil(round_step)..=last.round / round_step)
            .map(|tick| tick * round_step)
            .map(|round| Mark { at: x(round), text: round.to_string() })
            .collect();
        Self { path: path(&places), end: places.last().copied(), values: value_ticks, rounds: round_ticks, defences }
    }
}

/// A text beside a line, on the side that has room.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// Position of the line, in SVG units.
    pub at: f32,
    pub text: String,
    /// Whether the text ends at the line instead of beginning there.
    pub ends_there: bool,
}

/// Width of a character in a label, in SVG units; an overestimate.
const CHARACTER: f32 = 7.5;

/// The labels of `marks`, left to right, that fit side by side up to `right`. If two would overlap, the later one
/// stays: the defence now in force matters more than one that was in force briefly.
pub fn labels(marks: Vec<Mark>, right: f32) -> Vec<Label> {
    let mut free = right;
    let mut kept = Vec::new();
    for mark in marks.into_iter().rev() {
        let width = (mark.text.chars().count() + 1) as f32 * CHARACTER;
        let ends_there = mark.at + width > right;
        let (start, end) = if ends_there { (mark.at - width, mark.at) } else { (mark.at, mark.at + width) };
        if end <= free {
            free = start;
            kept.push(Label { at: mark.at, text: mark.text, ends_there });
        }
    }
    kept.reverse();
    kept
}

/// A small curve without axes, scaled to its own range: its `d` attribute and its last point.
pub fn sparkline(values: &[f32], width: f32, height: f32) -> (String, Option<(f32, f32)>) {
    let values: Vec<f32> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = Axis { low, high };
    let steps = (values.len().max(2) - 1) as f32;
    let places: Vec<(f32, f32)> = values
        .iter()
        .enumerate()
        .map(|(place, value)| (place as f32 / steps * width, (1.0 - range.share(*value)) * height))
        .collect();
    (path(&places), places.last().copied())
}

struct Axis {
    low: f32,
    high: f32,
}

impl Axis {
    /// Position of a value between the ends, 0 to 1; 0.5 if the ends are equal.
    fn share(&self, value: f32) -> f32 {
        let range = self.high - self.low;
        if range > 0.0 { (value - self.low) / range } else { 0.5 }
    }
}

/// The smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

fn path(places: &[(f32, f32)]) -> String {
    let mut text = String::with_capacity(places.len() * 12);
    for (place, (x, y)) in places.iter().enumerate() {
        let command = if place == 0 { 'M' } else { 'L' };
        text.push_str(&format!("{command}{x:.1} {y:.1}"));
    }
    // A single point has no length. The round line cap draws an empty segment as a dot.
    if places.len() == 1 {
        text.push_str("h0");
    }
    text
}

/// One bar; `x` and `y` are its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub x: f32,
    pub y: f32,
    pub width: f32,
    pub height: f32,
}

/// Counted shares as bars, expected shares as dots.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// Counted shares, one bar for each bin.
    pub bars: Vec<Bar>,
    /// Centres of the dots for the expected shares, one for each bin.
    pub expected: Vec<(f32, f32)>,
    /// Ticks for the number of rounds.
    pub ticks: Vec<Mark>,
    /// The share at the upper edge of the frame.
    pub top: f64,
}

/// The share of a bin's width that its bar fills.
const FILLED: f32 = 0.8;

impl Histogram {
    /// Draws `bins` into `frame`. A bar shows its bin's share, regardless of how many rounds the bin covers.
    pub fn new(bins: &[CountBinView], frame: Frame) -> Self {
        if bins.is_empty() {
            return Self::default();
        }
        let highest = bins.iter().fold(0.0_f64, |high, bin| high.max(bin.share).max(bin.expected));
        let top =
            [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8].into_iter().find(|top| highest <= *top).unwrap_or(1.0);
        let bottom = frame.top + frame.height;
        let height = |share: f64| (share / top).clamp(0.0, 1.0) as f32 * frame.height;
        let width = frame.width / bins.len() as f32;
        let centre = |place: usize| frame.left + (place as f32 + 0.5) * width;
        let bar = |(place, bin): (usize, &CountBinView)| Bar {
            x: centre(place) - width * FILLED / 2.0,
            y: bottom - height(bin.share),
            width: width * FILLED,
            height: height(bin.share),
        };
        let step = bins.len().div_ceil(TICKS as usize);
        let tick = |(place, bin): (usize, &CountBinView)| Mark {
            at: centre(place),
            text: if bin.from == bin.to { bin.from.to_string() } else { format!("{}–{}", bin.from, bin.to) },
        };
        Self {
            bars: bins.iter().enumerate().map(bar).collect(),
            expected: bins
                .iter()
                .enumerate()
                .map(|(place, bin)| (centre(place), bottom - height(bin.expected)))
                .collect(),
            ticks: bins.iter().enumerate().step_by(step).map(tick).collect(),
            top,
        }
    }
}

/// Smaller values are drawn at this value: rounding errors are of this size.
const LEAST: f64 = 1e-8;

/// A logarithmic axis over whole decades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAxis {
    /// Exponent of ten at the left end.
    pub low: i32,
    /// Exponent of ten at the right end.
    pub high: i32,
}

impl LogAxis {
    /// The axis that covers 1 and all finite `values`, at least one decade long.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let logs = values.filter(|value| value.is_finite()).map(|value| value.max(LEAST).log10());
        let (low, high) = logs.fold((-1.0_f64, 0.0_f64), |(low, high), log| (low.min(log), high.max(log)));
        Self { low: low.floor() as i32, high: high.ceil() as i32 }
    }

    /// Position of a value between the ends, 0 to 1.
    pub fn share(&self, value: f64) -> f32 {
        let decades = f64::from(self.high - self.low);
        ((value.max(LEAST).log10() - f64::from(self.low)) / decades).clamp(0.0, 1.0) as f32
    }

    /// Exponents of ten to label, from right to left.
    pub fn ticks(&self) -> impl Iterator<Item = i32> {
        let step = ((self.high - self.low + TICKS as i32 - 1) / TICKS as i32).max(1);
        (self.low..=self.high).rev().step_by(step as usize)
    }
}

/// The axis of residuals: the same for every photograph, so that two can be compared.
const RESIDUALS: LogAxis = LogAxis { low: -8, high: 0 };

/// Positions along the residual axis, in SVG units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Residuals {
    pub candidate: Option<f32>,
    /// The ends of the candidate's interval.
    pub interval: Option<(f32, f32)>,
    /// Pictures similar to the candidate.
    pub distractors: Vec<f32>,
    /// Ticks, right to left.
    pub ticks: Vec<Mark>,
}

impl Residuals {
    /// Draws a membership result between `left` and `left + width`. Without a finite residual it draws nothing.
    pub fn new(membership: &MembershipView, left: f32, width: f32) -> Self {
        let Some(residual) = membership.residual.filter(|residual| residual.is_finite()) else {
            return Self::default();
        };
        let interval = membership.interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
        let distractors = membership.distractors.iter().copied().filter(|value| value.is_finite());
        let axis = RESIDUALS;
        let place = |value: f64| left + axis.share(value) * width;
        let tick = |exponent: i32| Mark { at: place(10_f64.powi(exponent)), text: share(10_f64.powi(exponent)) };
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

    const FRAME: Frame = Frame { left: 40.0, top: 10.0, width: 100.0, height: 50.0 };

    fn point(round: u32, value: f32, defence: &str) -> Point {
        Point { round, value, defence: defence.parse().expect("a defence") }
    }

    fn curve(points: &[Point]) -> Curve {
        Curve::new(points, Scale::Zero, FRAME)
    }

    #[test]
    fn no_points_draw_nothing() {
        assert_eq!(curve(&[]), Curve::default());
        assert_eq!(curve(&[point(1, f32::NAN, "none")]), Curve::default());
    }

    #[test]
    fn ends_lie_on_the_frame() {
        let curve = curve(&[point(1, 2.0, "none"), point(3, 1.0, "none"), point(5, 0.0, "none")]);
        assert_eq!(curve.path, "M40.0 10.0L90.0 35.0L140.0 60.0");
        assert_eq!(curve.end, Some((140.0, 60.0)));
        assert_eq!(curve.values.first(), Some(&Mark { at: 60.0, text: "0.0".to_owned() }));
        assert_eq!(curve.values.last(), Some(&Mark { at: 10.0, text: "2.0".to_owned() }));
        let rounds: Vec<&str> = curve.rounds.iter().map(|mark| mark.text.as_str()).collect();
        assert_eq!(rounds, ["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn shares_have_the_whole_range_whatever_they_are() {
        let curve = Curve::new(&[point(1, 0.1, "none"), point(2, 0.2, "none")], Scale::Share, FRAME);
        let ticks: Vec<&str> = curve.values.iter().map(|mark| mark.text.as_str()).collect();
        assert_eq!(ticks, ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        assert_eq!(curve.end, Some((140.0, 50.0)));
    }

    #[test]
    fn every_change_of_defence_is_marked_once() {
        let curve = curve(&[
            point(1, 2.0, "none"),
            point(2, 2.0, "none"),
            point(3, 1.9, "random-binary:0.5"),
            point(4, 1.8, "none"),
        ]);
        let marks: Vec<String> = curve.defences.iter().map(|(_, defence)| defence.to_string()).collect();
        assert_eq!(marks, ["none", "random-binary:0.5", "none"]);
        assert!(curve.defences.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn a_long_run_keeps_few_ticks() {
        let points: Vec<Point> = (1..=1234).map(|round| point(round, 2.31, "none")).collect();
        let curve = curve(&points);
        assert!((2..=6).contains(&curve.rounds.len()), "{:?}", curve.rounds);
        assert!((2..=7).contains(&curve.values.len()), "{:?}", curve.values);
        let last = curve.values.last().map(|mark| mark.at);
        assert_eq!(last, Some(FRAME.top));
    }

    #[test]
    fn labels_that_would_overlap_give_way_to_the_later_one() {
        let mark = |at, text: &str| Mark { at, text: text.to_owned() };
        let kept = labels(
            vec![mark(0.0, "none"), mark(100.0, "R 0.5"), mark(110.0, "R by group"), mark(395.0, "none")],
            400.0,
        );
        let texts: Vec<&str> = kept.iter().map(|label| label.text.as_str()).collect();
        assert_eq!(texts, ["none", "R by group", "none"]);
        assert_eq!(kept.iter().map(|label| label.ends_there).collect::<Vec<_>>(), [false, false, true]);
        assert!(labels(Vec::new(), 400.0).is_empty());
    }

    #[test]
    fn sparkline_spans_its_box() {
        assert_eq!(sparkline(&[], 10.0, 4.0), (String::new(), None));
        assert_eq!(sparkline(&[1.0], 10.0, 4.0).0, "M0.0 2.0h0");
        assert_eq!(sparkline(&[3.0, 1.0, 2.0], 10.0, 4.0).0, "M0.0 0.0L5.0 4.0L10.0 2.0");
    }

    const BOX: Frame = Frame { left: 20.0, top: 10.0, width: 100.0, height: 50.0 };

    fn bin(from: u32, to: u32, share: f64, expected: f64) -> CountBinView {
        CountBinView { from, to, share, expected }
    }

    #[test]
    fn no_bins_draw_nothing() {
        assert_eq!(Histogram::new(&[], BOX), Histogram::default());
    }

    #[test]
    fn bars_stand_on_the_ground_and_dots_over_their_middle() {
        let drawn = Histogram::new(&[bin(0, 0, 0.2, 0.4), bin(1, 1, 0.8, 0.6)], BOX);
        assert_eq!(drawn.top, 0.8);
        assert_eq!(drawn.bars[0], Bar { x: 25.0, y: 47.5, width: 40.0, height: 12.5 });
        assert_eq!(drawn.bars[1], Bar { x: 75.0, y: 10.0, width: 40.0, height: 50.0 });
        assert_eq!(drawn.expected, [(45.0, 35.0), (95.0, 22.5)]);
        let texts: Vec<&str> = drawn.ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(texts, ["0", "1"]);
    }

    #[test]
    fn certainty_fills_the_frame() {
        let drawn = Histogram::new(&[bin(0, 0, 0.0, 0.0), bin(1, 1, 1.0, 1.0)], BOX);
        assert_eq!((drawn.top, drawn.bars[0].height, drawn.bars[1].height), (1.0, 0.0, 50.0));
    }

    #[test]
    fn many_bins_keep_few_ticks() {
        let bins: Vec<CountBinView> =
            (0..24).map(|place| bin(place * 4, place * 4 + 3, 1.0 / 24.0, 1.0 / 24.0)).collect();
        let drawn = Histogram::new(&bins, BOX);
        assert!((2..=TICKS as usize).contains(&drawn.ticks.len()), "{:?}", drawn.ticks);
        assert_eq!(drawn.ticks[0].text, "0–3");
    }

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
        assert_eq!(drawn.ticks.last().map(|tick| tick.text.as_str()), Some("1e-6 %"));
    }

    #[test]
    fn no_residual_draws_nothing() {
        let refused = MembershipView { distractors: vec![0.5], ..MembershipView::default() };
        assert_eq!(Residuals::new(&refused, 0.0, 1.0), Residuals::default());
    }
}
