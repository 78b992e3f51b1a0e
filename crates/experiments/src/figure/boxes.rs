//! Box plots with all values.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{Axes, FigureError, SeriesStyle, ink, label, svg};

/// The boxes at one position of the x axis.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxGroup {
    /// Label below the axis.
    pub name: String,
    /// Style and values of the boxes, from left to right.
    pub boxes: Vec<(SeriesStyle, Vec<f64>)>,
}

/// Box plots: quartiles, whiskers to the smallest and largest values, and a dot for each value. `line` is the height of
/// a horizontal line.
///
/// # Errors
/// The drawing library's.
pub fn boxes(y: &str, groups: &[BoxGroup], range: (f64, f64), line: f64) -> Result<String, FigureError> {
    let right = groups.len() as f64;
    svg(400, |area| {
        let mut chart = Axes {
            names: ["", y],
            ranges: [0.0..right, range.0..range.1],
            labels: [0, 6],
            room: [34, 64],
            decimals: [0, 1],
        }
        .draw(area)?;
        let across = [(0.0, line), (right, line)];
        chart.draw_series(DashedLineSeries::new(across, 6, 4, ink().stroke_width(1)))?;
        for (place, group) in groups.iter().enumerate() {
            let width = 0.8 / group.boxes.len().max(1) as f64;
            for (nth, (series, values)) in group.boxes.iter().enumerate() {
                let x = place as f64 + 0.1 + width * (nth as f64 + 0.5);
                if let Some([least, low, median, high, most]) = quartiles(values) {
                    let style = series.rgb().stroke_width(2);
                    let (left, middle, right) = (x - 0.38 * width, x - 0.13 * width, x + 0.12 * width);
                    chart.draw_series([Rectangle::new([(left, low), (right, high)], style)])?;
                    let across = |at: f64, inset: f64| vec![(left + inset * width, at), (right - inset * width, at)];
                    let lines = [
                        across(median, 0.0),
                        across(least, 0.1),
                        across(most, 0.1),
                        vec![(middle, least), (middle, low)],
                        vec![(middle, high), (middle, most)],
                    ];
                    chart.draw_series(lines.map(|line| PathElement::new(line, style)))?;
                }
                let dots = values.iter().map(|&value| (x + 0.28 * width, value));
                chart.draw_series(dots.map(|at| Circle::new(at, 2, series.rgb().mix(0.7).filled())))?;
            }
            let (middle, bottom) = chart.backend_coord(&(place as f64 + 0.5, range.0));
            let centred = label().pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(group.name.clone(), (middle, bottom + 8), centred))?;
        }
        Ok(())
    })
}

/// Smallest value, quartiles and largest value, interpolated linearly; `None` for no values.
fn quartiles(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(|share| {
        let place = share * last as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }))
}

pub fn median(values: &[f64]) -> Option<f64> {
    quartiles(values).map(|[_, _, median, _, _]| median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        assert_eq!(quartiles(&[]), None);
        assert_eq!(quartiles(&[3.0]), Some([3.0; 5]));
        assert_eq!(quartiles(&[4.0, 1.0, 2.0, 3.0]), Some([1.0, 1.75, 2.5, 3.25, 4.0]));
        assert_eq!(median(&[5.0, 1.0, 2.0]), Some(2.0));
    }
}
