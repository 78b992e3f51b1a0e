//! Lines over rounds.

use plotters::prelude::*;

use super::{FAINT, FONT, FONT_SIZE, FigureError, LineStyle, SeriesStyle, ink, label, svg};

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// How it is drawn.
    pub series: SeriesStyle,
    /// (x, y) from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines in one frame, y from 0.
///
/// # Errors
/// The drawing library's.
pub fn curves(x: &str, y: &str, lines: &[Curve]) -> Result<String, FigureError> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let most = |of: &dyn Fn(&(f64, f64)) -> f64| all().map(of).fold(1e-9, f64::max);
    let (right, top) = (most(&|point| point.0), most(&|point| point.1) * 1.06);
    svg(380, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .x_labels(6)
            .y_labels(6)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .label_style(label())
            .axis_desc_style((FONT, FONT_SIZE).into_font().color(&ink()))
            .axis_style(ink())
            .bold_line_style(ink().mix(FAINT))
            .light_line_style(TRANSPARENT)
            .draw()?;
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
