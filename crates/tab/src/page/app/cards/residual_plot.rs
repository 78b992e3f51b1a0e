//! The residual of the dropped photograph beside those of pictures like it.

use leptos::prelude::*;
use unmask_wire::view::MembershipView;

use crate::page::{app::signals::part, residuals::Residuals};

const WIDTH: f32 = 440.0;
const HEIGHT: f32 = 128.0;
const LEFT: f32 = 24.0;
const SPAN: f32 = WIDTH - 2.0 * LEFT;
/// Rows of the candidate, of pictures like it, and of the axis.
const ROWS: [f32; 3] = [30.0, 70.0, 94.0];

/// One row for the candidate with its interval, one for pictures that were not in the update.
#[component]
pub fn ResidualPlot(membership: Memo<Option<MembershipView>>) -> impl IntoView {
    let [own, others, axis] = ROWS;
    let drawn = part(membership, |membership| Residuals::new(membership, LEFT, SPAN));
    view! {
        <figure class="residuals">
            <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label="The share of each picture outside of what the pictures of the update span, on a logarithmic axis">
                {move || {
                    let Residuals { candidate, interval, distractors, ticks } = drawn().unwrap_or_default();
                    view! {
                        {ticks
                            .into_iter()
                            .map(|tick| {
                                view! {
                                    <line class="grid" x1=tick.at x2=tick.at y1="12" y2=axis></line>
                                    <text class="tick" x=tick.at y=axis + 18.0 text-anchor="middle">{tick.text}</text>
                                }
                            })
                            .collect_view()}
                        <line class="axis" x1=LEFT x2=LEFT + SPAN y1=axis y2=axis></line>
                        {distractors
                            .into_iter()
                            .map(|at| view! { <circle class="distractor" cx=at cy=others r="5"></circle> })
                            .collect_view()}
                        {interval.map(|(from, to)| view! { <line class="interval" x1=from x2=to y1=own y2=own></line> })}
                        {candidate.map(|at| view! { <circle class="own" cx=at cy=own r="8"></circle> })}
                    }
                }}
            </svg>
            <figcaption class="legend">
                <span><i class="swatch own"></i>"this photograph"</span>
                <span><i class="swatch distractor"></i>"altered copies of it"</span>
                <span class="long">"share of the picture's class token outside of the span of those in the update"</span>
            </figcaption>
        </figure>
    }
}
