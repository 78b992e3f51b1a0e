//! A scatter chart with intervals in both directions.

use plotters::prelude::*;
use unmask_core::MeanInterval;

use super::{Axes, FONT_SIZE, FigureError, LineStyle, SeriesStyle, label, svg};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanePoint {
    /// Label next to the point.
    pub name: String,
    pub x: MeanInterval,
    pub y: MeanInterval,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlaneSeries {
    pub series: SeriesStyle,
    /// Joined by a line in this order if there are several.
    pub points: Vec<PlanePoint>,
}

/// Draws labelled points with their intervals, with `x` from 0 to 1 and `y` from 0.
///
/// # Errors
/// The drawing library's.
pub fn plane(x: &str, y: &str, all: &[PlaneSeries]) -> Result<String, FigureError> {
    let top = all.iter().flat_map(|series| &series.points).map(|point| point.y.high).fold(1e-9, f64::max);
    svg(440, |area| {
        let mut chart = Axes {
            names: [x, y],
            ranges: [0.0..1.08, 0.0..top * 1.08],
            labels: [6, 6],
            room: [50, 64],
            decimals: [1, 0],
        }
        .draw(area)?;
        for PlaneSeries { series, points } in all {
            let line = points.iter().map(|point| (point.x.mean, point.y.mean));
            let style = series.rgb().stroke_width(2);
            match series.line {
                LineStyle::Solid => chart.draw_series(LineSeries::new(line, style))?,
                LineStyle::Dashed => chart.draw_series(DashedLineSeries::new(line, 9, 5, style))?,
                LineStyle::Dotted => chart.draw_series(DashedLineSeries::new(line, 2, 4, style))?,
            };
            for PlanePoint { name, x, y } in points {
                let arms = [vec![(x.low.max(0.0), y.mean), (x.high, y.mean)], vec![(x.mean, y.low), (x.mean, y.high)]];
                chart.draw_series(arms.map(|arm| PathElement::new(arm, series.rgb().mix(0.5).stroke_width(1))))?;
                chart.draw_series([Circle::new((x.mean, y.mean), 5, series.rgb().filled())])?;
                let (across, down) = chart.backend_coord(&(x.mean, y.mean));
                area.draw(&Text::new(name.clone(), (across + 8, down - FONT_SIZE - 2), label()))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_its_name() {
        let at = |x: f64, y: f64| PlanePoint {
            name: format!("R {x}"),
            x: MeanInterval::around(x, 0.1, -1.0, 1.0),
            y: MeanInterval::around(y, 4.0, 0.0, 100.0),
        };
        let masks = PlaneSeries { series: SeriesStyle::solid(1), points: vec![at(0.2, 40.0), at(0.75, 45.0)] };
        let none = PlaneSeries { series: SeriesStyle::INK, points: vec![at(1.0, 46.0)] };
        let svg = plane("SSIM", "accuracy in %", &[masks, none]).unwrap();
        for part in ["R 0.2", "R 0.75", "R 1", "SSIM", "accuracy in %", "#2A85C9", "currentColor"] {
            assert!(svg.contains(part), "{part}\n{svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
    }
}
