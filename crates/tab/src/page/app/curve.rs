//! Curves over rounds on the projector.

use leptos::prelude::*;
use unmask_core::Defence;

use super::feed::Feed;
use crate::page::chart::{Curve, Frame, Mark, Point, Scale, labels};

const HEIGHT: f32 = 210.0;
/// Width of a curve that has the column to itself, in SVG units, and of one beside another.
const WIDE: f32 = 900.0;
const NARROW: f32 = 460.0;

/// The box of the curve in a drawing of this width.
fn frame(width: f32) -> Frame {
    Frame { left: 54.0, top: 26.0, width: width - 74.0, height: 150.0 }
}

/// Mean loss of the cohort by round; a dashed line where the defence changed. It may share the column with another curve.
#[component]
pub fn LossCurve(feed: Feed, #[prop(into)] is_beside: Signal<bool>) -> impl IntoView {
    let losses = feed.part(|room| room.losses.iter().map(Point::from).collect::<Vec<_>>());
    let points = Memo::new(move |_| losses.get().unwrap_or_default());
    let last = move || points.with(|points| points.last().map(|point| point.value));
    view! {
        <section class="card curve" aria-label="Loss">
            <h2>
                "Loss "
                <b data-testid="loss" data-loss=move || last().map(|loss| loss.to_string())>
                    {move || last().map_or("–".to_owned(), |loss| format!("{loss:.3}"))}
                </b>
                <span class="sub">" mean over the cohort, by round; dashed: the defence changed"</span>
            </h2>
            <CurveChart points scale=Scale::Zero is_beside label="Loss by round"/>
        </section>
    }
}

/// A curve with its axes, and a dashed line where the defence changed.
#[component]
pub fn CurveChart(
    #[prop(into)] points: Signal<Vec<Point>>,
    scale: Scale,
    /// Whether it shares the column with another curve.
    #[prop(into)]
    is_beside: Signal<bool>,
    /// What it shows, for those who cannot see it.
    label: &'static str,
) -> impl IntoView {
    let width = Memo::new(move |_| if is_beside.get() { NARROW } else { WIDE });
    let curve = Memo::new(move |_| points.with(|points| Curve::new(points, scale, frame(width.get()))));
    let box_of = move || format!("0 0 {} {HEIGHT}", width.get());
    view! {
        <svg viewBox=box_of role="img" aria-label=label>
            {move || {
                let (width, curve) = (width.get(), curve.get());
                let frame = frame(width);
                let bottom = frame.top + frame.height;
                let right = frame.left + frame.width;
                let values = curve.values.into_iter().map(|tick| {
                    view! {
                        <line class="grid" x1=frame.left x2=right y1=tick.at y2=tick.at></line>
                        <text class="tick" x=frame.left - 8.0 y=tick.at + 4.0 text-anchor="end">{tick.text}</text>
                    }
                });
                let rounds = curve.rounds.into_iter().map(|tick| {
                    view! { <text class="tick" x=tick.at y=bottom + 20.0 text-anchor="middle">{tick.text}</text> }
                });
                let changes: Vec<f32> = curve.defences.iter().map(|(at, _)| *at).collect();
                let changes = changes.into_iter().map(|at| {
                    view! { <line class="change" x1=at x2=at y1=frame.top - 4.0 y2=bottom></line> }
                });
                let short = |(at, defence): (f32, Defence)| Mark { at, text: defence.label() };
                let marks = curve.defences.into_iter().map(short).collect();
                let defences = labels(marks, width).into_iter().map(|label| {
                    let (shift, anchor) = if label.ends_there { (-4.0, "end") } else { (4.0, "start") };
                    view! {
                        <text class="change-text" x=label.at + shift y=frame.top - 10.0 text-anchor=anchor>{label.text}</text>
                    }
                });
                view! {
                    <line class="axis" x1=frame.left x2=right y1=bottom y2=bottom></line>
                    {values.collect_view()}
                    {rounds.collect_view()}
                    {changes.collect_view()}
                    {defences.collect_view()}
                    <path class="line" d=curve.path></path>
                    {curve.end.map(|(x, y)| view! { <circle class="end" cx=x cy=y r="5"></circle> })}
                }
            }}
        </svg>
    }
}
