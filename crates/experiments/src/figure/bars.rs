//! Shares as bars, with what is expected of them as dots.

use plotters::prelude::*;

use super::{FAINT, FONT, FONT_SIZE, FigureError, SeriesStyle, ink, label, svg};

/// A distribution over 0, 1, 2, ...
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// How the bars are drawn; the dots take the page's ink.
    pub series: SeriesStyle,
    /// Shares that were found.
    pub found: Vec<f64>,
    /// Shares that are expected.
    pub expected: Vec<f64>,
}

/// A share below this is not seen.
const UNSEEN: f64 = 5e-4;

/// Bars from the first one that can be seen, a dot for each where it is expected to end.
///
/// # Errors
/// The drawing library's.
pub fn bars(x: &str, y: &str, bars: &Bars) -> Result<String, FigureError> {
    let Bars { series, found, expected } = bars;
    let is_seen = |(found, expected): (&f64, &f64)| found.max(*expected) >= UNSEEN;
    let first = found.iter().zip(expected).position(is_seen).unwrap_or(0).saturating_sub(1);
    let top = 100.0 * found.iter().chain(expected).copied().fold(1e-4, f64::max) * 1.08;
    svg(280, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(64)
            .build_cartesian_2d(first as f64 - 0.5..found.len() as f64 - 0.5, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .x_labels(8)
            .y_labels(5)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .label_style(label())
            .axis_desc_style((FONT, FONT_SIZE).into_font().color(&ink()))
            .axis_style(ink())
            .bold_line_style(ink().mix(FAINT))
            .light_line_style(TRANSPARENT)
            .draw()?;
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
