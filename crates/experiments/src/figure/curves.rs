//! Line charts over rounds.

use plotters::prelude::*;

use super::{Axes, FigureError, LineStyle, SeriesStyle, svg};

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub series: SeriesStyle,
    pub points: Vec<(f64, f64)>,
}

/// Draws lines in one chart, with y from 0.
///
/// # Errors
/// The drawing library's.
pub fn curves(x: &str, y: &str, lines: &[Curve]) -> Result<String, FigureError> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let most = |of: &dyn Fn(&(f64, f64)) -> f64| all().map(of).fold(1e-9, f64::max);
    let (right, top) = (most(&|point| point.0), most(&|point| point.1) * 1.06);
    svg(380, |area| {
        let mut chart =
            Axes { names: [x, y], ranges: [0.0..right, 0.0..top], labels: [6, 6], room: [50, 64], decimals: [0, 0] }
                .draw(area)?;
        for Curve { series, points } in lines {
            let style = series.rgb().stroke_width(2);
            let points = points.iter().copied();
            match series.line {
                LineStyle::Solid => chart.draw_series(LineSeries::new(points, style))?,
                LineStyle::Dashed => chart.draw_series(DashedLineSeries::new(points, 9, 5, style))?,
                LineStyle::Dotted => chart.draw_series(DashedLineSeries::new(points, 2, 4, style))?,
            };
        }
        Ok(())
    })
}
