//! A chart with one mean and its interval per row.

use plotters::prelude::*;

use super::{Axes, FONT_SIZE, FigureError, SeriesStyle, ink, label, svg};

#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    pub name: String,
    pub series: SeriesStyle,
    pub mean: f64,
    pub half_width: f64,
}

const LINE: u32 = 30;
/// Approximate width of a letter in pixels.
const LETTER: u32 = 9;

/// Draws intervals below each other on a common axis `x`. A band marks the values within `margin` of the first mean.
///
/// # Errors
/// The drawing library's.
pub fn intervals(x: &str, rows: &[Interval], margin: Option<f64>) -> Result<String, FigureError> {
    let low = rows.iter().map(|row| row.mean - row.half_width).fold(f64::INFINITY, f64::min);
    let high = rows.iter().map(|row| row.mean + row.half_width).fold(f64::NEG_INFINITY, f64::max);
    let room = (0.05 * (high - low)).max(0.5);
    let (low, high) = ((low - room).max(0.0), high + room);
    let lines = rows.len() as f64;
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    svg(70 + LINE * rows.len() as u32, |area| {
        let mut chart = Axes {
            names: [x, ""],
            ranges: [low..high, lines..0.0],
            labels: [6, 0],
            room: [50, LETTER * longest as u32],
            decimals: [0, 0],
        }
        .draw(area)?;
        if let (Some(margin), Some(first)) = (margin, rows.first()) {
            let band = [(first.mean - margin, 0.0), (first.mean + margin, lines)];
            chart.draw_series([Rectangle::new(band, ink().mix(0.10).filled())])?;
        }
        for (line, row) in rows.iter().enumerate() {
            let y = line as f64 + 0.5;
            let style = row.series.rgb().stroke_width(3);
            let ends = [(row.mean - row.half_width, y), (row.mean + row.half_width, y)];
            chart.draw_series([PathElement::new(ends.to_vec(), style)])?;
            chart.draw_series([Circle::new((row.mean, y), 5, row.series.rgb().filled())])?;
            let (_, top) = chart.backend_coord(&(low, y));
            area.draw(&Text::new(row.name.clone(), (12, top - FONT_SIZE / 2), label()))?;
        }
        Ok(())
    })
}
