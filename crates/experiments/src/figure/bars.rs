//! A bar chart of shares, with dots for the expected values.

use plotters::prelude::*;

use super::{Axes, FigureError, SeriesStyle, ink, svg};

/// A distribution over 0, 1, 2, ...
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Style of the bars; the dots have the page's text colour.
    pub series: SeriesStyle,
    pub found: Vec<f64>,
    pub expected: Vec<f64>,
}

/// A share below this is invisible.
const UNSEEN: f64 = 5e-4;

/// Draws bars from the first visible one on, each with a dot at its expected height.
///
/// # Errors
/// The drawing library's.
pub fn bars(x: &str, y: &str, bars: &Bars) -> Result<String, FigureError> {
    let Bars { series, found, expected } = bars;
    let is_seen = |(found, expected): (&f64, &f64)| found.max(*expected) >= UNSEEN;
    let first = found.iter().zip(expected).position(is_seen).unwrap_or(0).saturating_sub(1);
    let top = 100.0 * found.iter().chain(expected).copied().fold(1e-4, f64::max) * 1.08;
    svg(280, |area| {
        let mut chart = Axes {
            names: [x, y],
            ranges: [first as f64 - 0.5..found.len() as f64 - 0.5, 0.0..top],
            labels: [8, 5],
            room: [50, 64],
            decimals: [0, 0],
        }
        .draw(area)?;
        let shapes = found.iter().enumerate().skip(first).map(|(f, share)| {
            let f = f as f64;
            Rectangle::new([(f - 0.4, 0.0), (f + 0.4, 100.0 * share)], series.rgb().mix(0.75).filled())
        });
        chart.draw_series(shapes)?;
        let dots = expected.iter().enumerate().skip(first).map(|(f, share)| (f as f64, 100.0 * share));
        chart.draw_series(dots.map(|at| Circle::new(at, 4, ink().stroke_width(2))))?;
        Ok(())
    })
}
