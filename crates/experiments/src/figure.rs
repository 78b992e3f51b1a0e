//! Figures as inline SVG. They use the page's text colour, so they are readable on light and dark backgrounds.

mod bars;
mod boxes;
mod curves;
mod intervals;
mod plane;

use std::ops::Range;

use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
};
use serde::{Deserialize, Serialize};

pub use self::{
    bars::{Bars, bars},
    boxes::{BoxGroup, boxes, median},
    curves::{Curve, curves},
    intervals::{Interval, intervals},
    plane::{PlanePoint, PlaneSeries, plane},
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a figure could not be drawn: {0}")]
pub struct FigureError(String);

/// How a line is drawn. Dashes show the kind of defence and colour its strength, because not everybody can tell colours
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineStyle {
    Solid,
    Dashed,
    Dotted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesStyle {
    /// Index into `COLOURS`; 0 is the page's text colour.
    pub colour: usize,
    pub line: LineStyle,
}

/// Colours with a contrast of at least 3 on both the white and the dark page. The first is a placeholder for the page's
/// text colour.
pub const COLOURS: [(u8, u8, u8); 6] =
    [INK, (0x2a, 0x85, 0xc9), (0x1b, 0x93, 0x6c), (0xc9, 0x74, 0x12), (0xd6, 0x4a, 0x55), (0x8f, 0x6a, 0xc8)];

/// Replaced by `currentColor` after drawing.
const INK: (u8, u8, u8) = (1, 2, 3);
/// Opacity of grid lines in that colour.
const FAINT: f64 = 0.18;
const FONT: &str = "sans-serif";
const FONT_SIZE: i32 = 17;
const WIDTH: u32 = 640;

impl SeriesStyle {
    pub const INK: Self = Self { colour: 0, line: LineStyle::Solid };

    pub fn solid(colour: usize) -> Self {
        Self { colour, line: LineStyle::Solid }
    }

    pub fn css(self) -> String {
        match COLOURS[self.colour % COLOURS.len()] {
            INK => "currentColor".to_owned(),
            (r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        }
    }

    fn rgb(self) -> RGBColor {
        let (r, g, b) = COLOURS[self.colour % COLOURS.len()];
        RGBColor(r, g, b)
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on an area of [`WIDTH`] x `height` and returns the SVG element.
fn svg(
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<String, FigureError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&area)
            .and_then(|()| area.present().map_err(Into::into))
            .map_err(|error| FigureError(error.to_string()))?;
    }
    let (r, g, b) = INK;
    let text = text.replace(&format!("#{r:02X}{g:02X}{b:02X}"), "currentColor");
    // Remove the size in pixels, so that the element scales with the page.
    Ok(text.replacen(&format!("width=\"{WIDTH}\" height=\"{height}\" "), "", 1).trim().to_owned())
}

type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

struct Axes<'a> {
    /// Labels of the x and the y axis; an empty one is not drawn.
    names: [&'a str; 2],
    ranges: [Range<f64>; 2],
    /// Approximate number of tick labels.
    labels: [usize; 2],
    /// Space for tick labels and axis labels, in pixels.
    room: [u32; 2],
    decimals: [usize; 2],
}

impl Axes<'_> {
    fn draw<'a, 'b>(self, area: &'b Area<'a>) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>>
    where
        'a: 'b,
    {
        let Self { names, ranges: [x, y], labels, room, decimals } = self;
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(room[0])
            .y_label_area_size(room[1])
            .build_cartesian_2d(x, y)?;
        let [across, up] = decimals.map(|places| move |value: &f64| format!("{value:.places$}"));
        let mut mesh = chart.configure_mesh();
        if !names[0].is_empty() {
            mesh.x_desc(names[0]);
        }
        if !names[1].is_empty() {
            mesh.y_desc(names[1]);
        }
        mesh.x_labels(labels[0])
            .y_labels(labels[1])
            .x_label_formatter(&across)
            .y_label_formatter(&up)
            .label_style(label())
            .axis_desc_style((FONT, FONT_SIZE).into_font().color(&ink()))
            .axis_style(ink())
            .bold_line_style(ink().mix(FAINT))
            .light_line_style(TRANSPARENT)
            .draw()?;
        drop(mesh);
        Ok(chart)
    }
}

fn ink() -> RGBColor {
    RGBColor(INK.0, INK.1, INK.2)
}

fn label() -> TextStyle<'static> {
    (FONT, FONT_SIZE).into_font().color(&ink())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_takes_the_ink_of_its_page() {
        let curve = Curve { series: SeriesStyle::INK, points: vec![(0.0, 10.0), (10.0, 40.0)] };
        let other = Curve {
            series: SeriesStyle { colour: 1, line: LineStyle::Dashed },
            points: vec![(0.0, 10.0), (10.0, 20.0)],
        };
        let svg = curves("rounds", "accuracy in %", &[curve, other]).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
        assert!(svg.contains("viewBox") && !svg[..svg.find('>').unwrap()].contains(" width="), "{svg}");
        assert!(svg.contains("currentColor") && svg.contains("#2A85C9") && !svg.contains("#010203"), "{svg}");
    }

    /// Contrast ratio (WCAG 2) of every colour on both backgrounds.
    #[test]
    fn colours_are_seen_on_both_grounds() {
        let luminance = |(r, g, b): (u8, u8, u8)| {
            let linear = |c: u8| (f64::from(c) / 255.0).powf(2.2);
            0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
        };
        for colour in &COLOURS[1..] {
            for ground in [(0xff, 0xff, 0xff), (0x1d, 0x21, 0x26)] {
                let (a, b) = (luminance(*colour) + 0.05, luminance(ground) + 0.05);
                assert!(a.max(b) / a.min(b) >= 3.0, "{colour:?} on {ground:?}: {}", a.max(b) / a.min(b));
            }
        }
    }
}
