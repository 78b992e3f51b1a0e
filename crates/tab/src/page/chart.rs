//! The loss curve as geometry: points in, SVG paths and marks out.

use unmask_wire::view::LossPoint;

/// The box that the curve is drawn into, in SVG units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Left edge of the plot.
    pub left: f32,
    /// Top edge of the plot.
    pub top: f32,
    /// Width of the plot.
    pub width: f32,
    /// Height of the plot.
    pub height: f32,
}

/// A line with a text: an axis' tick, or a change of defence.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Its place along its axis, in SVG units.
    pub at: f32,
    /// What it says.
    pub text: String,
}

/// The curve of one room.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// The line's `d` attribute; empty without points.
    pub path: String,
    /// The last point.
    pub end: Option<(f32, f32)>,
    /// Ticks of the loss, bottom to top.
    pub losses: Vec<Mark>,
    /// Ticks of the round, left to right.
    pub rounds: Vec<Mark>,
    /// Where the defence changed, the first one included; the text is the string form.
    pub defences: Vec<Mark>,
}

/// Most ticks on either axis.
const TICKS: u32 = 5;

impl Curve {
    /// Draws `points` into `frame`. Losses that are not finite are left out.
    pub fn new(points: &[LossPoint], frame: Frame) -> Self {
        let points: Vec<&LossPoint> = points.iter().filter(|point| point.loss.is_finite()).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Self::default();
        };
        let rounds = Axis { low: first.round as f32, high: (last.round.max(first.round + 1)) as f32 };
        let highest = points.iter().fold(0.0_f32, |high, point| high.max(point.loss));
        let step = nice_step(f64::from(highest.max(0.05)) / f64::from(TICKS));
        let top = (f64::from(highest.max(0.05)) / step).ceil() * step;
        let losses = Axis { low: 0.0, high: top as f32 };
        let x = |round: u32| frame.left + rounds.share(round as f32) * frame.width;
        let y = |loss: f32| frame.top + (1.0 - losses.share(loss)) * frame.height;

        let places: Vec<(f32, f32)> = points.iter().map(|point| (x(point.round), y(point.loss.max(0.0)))).collect();
        let mut defences: Vec<Mark> = Vec::new();
        for point in &points {
            if defences.last().is_none_or(|mark| mark.text != point.defence) {
                defences.push(Mark { at: x(point.round), text: point.defence.clone() });
            }
        }
        let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
        let loss_ticks = (0..=(top / step).round() as u32)
            .map(|tick| f64::from(tick) * step)
            .map(|loss| Mark { at: y(loss as f32), text: format!("{loss:.decimals$}") })
            .collect();
        let round_step = nice_step(f64::from((last.round - first.round).max(1)) / f64::from(TICKS)).max(1.0) as u32;
        let round_ticks = (first.round.div_ceil(round_step)..=last.round / round_step)
            .map(|tick| tick * round_step)
            .map(|round| Mark { at: x(round), text: round.to_string() })
            .collect();
        Self { path: path(&places), end: places.last().copied(), losses: loss_ticks, rounds: round_ticks, defences }
    }
}

/// A text beside a line, on the side where there is room.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The line's place, in SVG units.
    pub at: f32,
    /// What it says.
    pub text: String,
    /// Whether the text ends at the line instead of beginning there.
    pub ends_there: bool,
}

/// Width of a character of a label, in SVG units, rather too much than too little.
const CHARACTER: f32 = 7.5;

/// The labels of `marks`, left to right, that fit beside each other up to `right`. Of two that would overlap the later one
/// stays: what is in force matters more than what was for a moment.
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
    /// Where a value lies between the ends, 0 to 1; the middle if the ends are one.
    fn share(&self, value: f32) -> f32 {
        let range = self.high - self.low;
        if range > 0.0 { (value - self.low) / range } else { 0.5 }
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
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
    // A single point has no length; a round cap makes a dot of an empty segment.
    if places.len() == 1 {
        text.push_str("h0");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { left: 40.0, top: 10.0, width: 100.0, height: 50.0 };

    fn point(round: u32, loss: f32, defence: &str) -> LossPoint {
        LossPoint { round, loss, updates: 3, defence: defence.to_owned() }
    }

    #[test]
    fn no_points_draw_nothing() {
        assert_eq!(Curve::new(&[], FRAME), Curve::default());
        assert_eq!(Curve::new(&[point(1, f32::NAN, "none")], FRAME), Curve::default());
    }

    #[test]
    fn ends_lie_on_the_frame() {
        let curve = Curve::new(&[point(1, 2.0, "none"), point(3, 1.0, "none"), point(5, 0.0, "none")], FRAME);
        assert_eq!(curve.path, "M40.0 10.0L90.0 35.0L140.0 60.0");
        assert_eq!(curve.end, Some((140.0, 60.0)));
        assert_eq!(curve.losses.first(), Some(&Mark { at: 60.0, text: "0.0".to_owned() }));
        assert_eq!(curve.losses.last(), Some(&Mark { at: 10.0, text: "2.0".to_owned() }));
        let rounds: Vec<&str> = curve.rounds.iter().map(|mark| mark.text.as_str()).collect();
        assert_eq!(rounds, ["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn every_change_of_defence_is_marked_once() {
        let curve = Curve::new(
            &[point(1, 2.0, "none"), point(2, 2.0, "none"), point(3, 1.9, "random-binary:0.5"), point(4, 1.8, "none")],
            FRAME,
        );
        let marks: Vec<&str> = curve.defences.iter().map(|mark| mark.text.as_str()).collect();
        assert_eq!(marks, ["none", "random-binary:0.5", "none"]);
        assert!(curve.defences.windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn a_long_run_keeps_few_ticks() {
        let points: Vec<LossPoint> = (1..=1234).map(|round| point(round, 2.31, "none")).collect();
        let curve = Curve::new(&points, FRAME);
        assert!((2..=6).contains(&curve.rounds.len()), "{:?}", curve.rounds);
        assert!((2..=7).contains(&curve.losses.len()), "{:?}", curve.losses);
        let last = curve.losses.last().map(|mark| mark.at);
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
}
