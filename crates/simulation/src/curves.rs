//! Loss and accuracy over the rounds as SVG charts.

use std::ops::Range;

use plotters::{coord::Shift, prelude::*};

use crate::Metrics;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CurveError(String);

const SIZE: (u32, u32) = (760, 430);
/// Height of the strip above the plot for title and legend.
const HEAD: i32 = 40;
const ENTRY: i32 = 150;
/// The most points of a curve. In longer runs each point is the mean of several rounds.
const MOST_POINTS: usize = 400;
const TRAINING: RGBColor = RGBColor(68, 119, 170);
const TEST: RGBColor = RGBColor(204, 51, 17);

struct Curve {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// `loss.svg`: the clients' loss, each point the mean of neighbouring rounds, and the loss on the test pictures.
pub(crate) fn loss(metrics: &[Metrics]) -> Result<String, CurveError> {
    let losses: Vec<(f64, f64)> =
        metrics.iter().filter_map(|metrics| Some((f64::from(metrics.round), f64::from(metrics.loss?)))).collect();
    let mean = |points: &[(f64, f64)], value: fn(&(f64, f64)) -> f64| {
        points.iter().map(value).sum::<f64>() / points.len().max(1) as f64
    };
    let together = losses.len().div_ceil(MOST_POINTS).max(1);
    let training = losses.chunks(together).map(|points| (mean(points, |p| p.0), mean(points, |p| p.1))).collect();
    let test = metrics.iter().filter_map(|metrics| Some((f64::from(metrics.round), metrics.test_loss?))).collect();
    let curves = [
        Curve { name: "clients' batches", colour: TRAINING, points: training },
        Curve { name: "test pictures", colour: TEST, points: test },
    ];
    chart("Loss (cross-entropy)", &curves, None, &|value| format!("{value:.2}"))
}

/// `accuracy.svg`: the share of test pictures classified correctly.
pub(crate) fn accuracy(metrics: &[Metrics]) -> Result<String, CurveError> {
    let points = metrics.iter().filter_map(|metrics| Some((f64::from(metrics.round), metrics.test_accuracy?)));
    let curves = [Curve { name: "test pictures", colour: TEST, points: points.collect() }];
    chart("Accuracy", &curves, Some(0.0..1.0), &|value| format!("{:.0} %", 100.0 * value))
}

fn chart(
    title: &str,
    curves: &[Curve],
    values: Option<Range<f64>>,
    label: &dyn Fn(&f64) -> String,
) -> Result<String, CurveError> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    draw(&area, title, curves, values, label).map_err(|error| CurveError(error.to_string()))?;
    drop(area);
    Ok(svg)
}

fn draw<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    title: &str,
    curves: &[Curve],
    values: Option<Range<f64>>,
    label: &dyn Fn(&f64) -> String,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let last = points().map(|point| point.0).fold(1.0, f64::max);
    let highest = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    area.fill(&WHITE)?;
    let (head, plot) = area.split_vertically(HEAD);
    head.draw_text(title, &("sans-serif", 20).into(), (12, 10))?;
    legend(&head, curves)?;
    let mut chart = ChartBuilder::on(&plot)
        .margin(12)
        .margin_top(0)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..last, values.unwrap_or(0.0..1.05 * highest))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .x_desc("round")
        .x_label_formatter(&|round| format!("{round:.0}"))
        .y_label_formatter(label)
        .draw()?;
    for Curve { colour, points, .. } in curves {
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
    }
    area.present()
}

/// The legend is above the plot, because a curve may end in any corner.
fn legend<'a>(
    head: &DrawingArea<SVGBackend<'a>, Shift>,
    curves: &[Curve],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let mut x = SIZE.0 as i32;
    for Curve { name, colour, .. } in curves.iter().rev() {
        x -= ENTRY;
        head.draw(&PathElement::new([(x, 20), (x + 18, 20)], colour.stroke_width(2)))?;
        head.draw_text(name, &("sans-serif", 14).into(), (x + 26, 13))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(round: u32) -> Metrics {
        let tested = round.is_multiple_of(10).then_some(0.1 + f64::from(round) / 2000.0);
        Metrics {
            round,
            epoch: 0.0,
            loss: (round > 0).then_some(2.3 / (1.0 + round as f32)),
            rate: 0.1,
            test_accuracy: tested,
            test_loss: tested,
            seconds: 0.0,
        }
    }

    #[test]
    fn long_runs_are_drawn_and_thinned() {
        let metrics: Vec<Metrics> = (0..=1000).map(metrics).collect();
        let (loss, accuracy) = (loss(&metrics).unwrap(), accuracy(&metrics).unwrap());
        assert!(loss.contains("<polyline") && loss.contains("test pictures") && loss.len() < 40_000, "{}", loss.len());
        assert!(accuracy.contains("<polyline") && accuracy.contains("100 %"));
    }

    /// Heights of all lines of width 2: those of the legend and the curves.
    fn heights(svg: &str) -> Vec<i32> {
        let lines = svg.lines().filter(|line| line.contains("stroke-width=\"2\""));
        let points =
            lines.flat_map(|line| line.split("points=\"").nth(1).unwrap().trim_end_matches(" \"/>").split(' '));
        points.map(|point| point.split_once(',').unwrap().1.parse().unwrap()).collect()
    }

    #[test]
    fn the_legend_covers_no_curve() {
        // A loss that hardly falls ends where a legend would usually be.
        let flat = |round| Metrics { loss: Some(2.3), test_loss: Some(2.31), ..metrics(round) };
        let svg = loss(&(0..=40).map(flat).collect::<Vec<_>>()).unwrap();
        let (legend, curves): (Vec<i32>, Vec<i32>) = heights(&svg).into_iter().partition(|y| *y < HEAD);
        assert!(legend.len() == 4 && curves.len() > 40, "{legend:?} {curves:?}");
    }

    #[test]
    fn nothing_and_one_point_are_drawn_too() {
        for rounds in 0..2 {
            let metrics: Vec<Metrics> = (0..rounds).map(metrics).collect();
            assert!(loss(&metrics).unwrap().starts_with("<svg") && accuracy(&metrics).unwrap().ends_with("</svg>\n"));
        }
    }
}
