//! Update counts as geometry: shares in, bars and dots out.

use unmask_wire::view::CountBinView;

use super::chart::{Frame, Mark};

/// One bar, from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub x: f32,
    pub y: f32,
    pub width: f32,
    pub height: f32,
}

/// Bars of what was counted, dots of what is expected.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// What was counted, by bin.
    pub bars: Vec<Bar>,
    /// What is expected, by bin, as centres of dots.
    pub expected: Vec<(f32, f32)>,
    /// Ticks of the number of rounds.
    pub ticks: Vec<Mark>,
    /// The share at the frame's upper edge.
    pub top: f64,
}

/// Most ticks.
const TICKS: usize = 5;

/// Share of a bin's width that its bar fills.
const FILLED: f32 = 0.8;

impl Histogram {
    /// Draws `bins` into `frame`; shares are those of the bins, whatever their width in rounds.
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
        let step = bins.len().div_ceil(TICKS);
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

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { left: 20.0, top: 10.0, width: 100.0, height: 50.0 };

    fn bin(from: u32, to: u32, share: f64, expected: f64) -> CountBinView {
        CountBinView { from, to, share, expected }
    }

    #[test]
    fn no_bins_draw_nothing() {
        assert_eq!(Histogram::new(&[], FRAME), Histogram::default());
    }

    #[test]
    fn bars_stand_on_the_ground_and_dots_over_their_middle() {
        let drawn = Histogram::new(&[bin(0, 0, 0.2, 0.4), bin(1, 1, 0.8, 0.6)], FRAME);
        assert_eq!(drawn.top, 0.8);
        assert_eq!(drawn.bars[0], Bar { x: 25.0, y: 47.5, width: 40.0, height: 12.5 });
        assert_eq!(drawn.bars[1], Bar { x: 75.0, y: 10.0, width: 40.0, height: 50.0 });
        assert_eq!(drawn.expected, [(45.0, 35.0), (95.0, 22.5)]);
        let texts: Vec<&str> = drawn.ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(texts, ["0", "1"]);
    }

    #[test]
    fn certainty_fills_the_frame() {
        let drawn = Histogram::new(&[bin(0, 0, 0.0, 0.0), bin(1, 1, 1.0, 1.0)], FRAME);
        assert_eq!((drawn.top, drawn.bars[0].height, drawn.bars[1].height), (1.0, 0.0, 50.0));
    }

    #[test]
    fn many_bins_keep_few_ticks() {
        let bins: Vec<CountBinView> =
            (0..24).map(|place| bin(place * 4, place * 4 + 3, 1.0 / 24.0, 1.0 / 24.0)).collect();
        let drawn = Histogram::new(&bins, FRAME);
        assert!((2..=TICKS).contains(&drawn.ticks.len()), "{:?}", drawn.ticks);
        assert_eq!(drawn.ticks[0].text, "0–3");
    }
}
