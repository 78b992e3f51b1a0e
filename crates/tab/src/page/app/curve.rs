//! The loss curve on the projector.

use leptos::prelude::*;

use super::feed::Feed;
use crate::page::{
    chart::{Curve, Frame, Mark, labels},
    words,
};

const WIDTH: f32 = 900.0;
const HEIGHT: f32 = 210.0;
const FRAME: Frame = Frame { left: 44.0, top: 26.0, width: 836.0, height: 150.0 };

/// Mean loss of the cohort by round; a dashed line where the defence changed.
#[component]
pub fn LossCurve(
    /// The room.
    feed: Feed,
) -> impl IntoView {
    let losses = feed.part(|room| room.losses.clone());
    let curve = Memo::new(move |_| losses.with(|losses| Curve::new(losses.as_deref().unwrap_or_default(), FRAME)));
    let last = move || losses.with(|losses| losses.as_ref().and_then(|losses| losses.last()).map(|point| point.loss));
    let bottom = FRAME.top + FRAME.height;
    let right = FRAME.left + FRAME.width;
    view! {
        <section class="card curve" aria-label="Loss">
            <h2>
                "Loss "
                <b data-testid="loss" data-loss=move || last().map(|loss| loss.to_string())>
                    {move || last().map_or("–".to_owned(), |loss| format!("{loss:.3}"))}
                </b>
                <span class="sub">" mean over the cohort, by round; dashed: the defence changed"</span>
            </h2>
            <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label="Loss by round">
                <line class="axis" x1=FRAME.left x2=right y1=bottom y2=bottom></line>
                {move || {
                    let curve = curve.get();
                    let losses = curve.losses.into_iter().map(|tick| {
                        view! {
                            <line class="grid" x1=FRAME.left x2=right y1=tick.at y2=tick.at></line>
                            <text class="tick" x=FRAME.left - 8.0 y=tick.at + 4.0 text-anchor="end">{tick.text}</text>
                        }
                    });
                    let rounds = curve.rounds.into_iter().map(|tick| {
                        view! { <text class="tick" x=tick.at y=bottom + 20.0 text-anchor="middle">{tick.text}</text> }
                    });
                    let changes: Vec<f32> = curve.defences.iter().map(|mark| mark.at).collect();
                    let changes = changes.into_iter().map(|at| {
                        view! { <line class="change" x1=at x2=at y1=FRAME.top - 4.0 y2=bottom></line> }
                    });
                    let short = |mark: Mark| Mark { text: words::defence_short(&mark.text), ..mark };
                    let marks = curve.defences.into_iter().map(short).collect();
                    let defences = labels(marks, WIDTH).into_iter().map(|label| {
                        let (shift, anchor) = if label.ends_there { (-4.0, "end") } else { (4.0, "start") };
                        view! {
                            <text class="change-text" x=label.at + shift y=FRAME.top - 10.0 text-anchor=anchor>{label.text}</text>
                        }
                    });
                    view! {
                        {losses.collect_view()}
                        {rounds.collect_view()}
                        {changes.collect_view()}
                        {defences.collect_view()}
                        <path class="line" d=curve.path></path>
                        {curve.end.map(|(x, y)| view! { <circle class="end" cx=x cy=y r="5"></circle> })}
                    }
                }}
            </svg>
        </section>
    }
}
