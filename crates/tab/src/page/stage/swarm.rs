//! Scene 4: the rates at which the class holds its masks, as they move.

use leptos::prelude::*;
use unmask_lesson::Question;
use unmask_words::say;

use super::parts::Stage;
use crate::page::logic::swarm::{Swarm, SwarmDot};

const WIDTH: f32 = 840.0;
const HEIGHT: f32 = 150.0;
/// Where dots lie: beside the ends of the axis, above its labels.
const LEFT: f32 = 40.0;
const BOTTOM: f32 = 108.0;

/// A dot for each phone, from R = 0 on the left to R = 0.95 on the right. Robots are grey.
#[component]
pub fn OwnRates(stage: Stage) -> impl IntoView {
    let swarm = stage.feed.optional(|room| {
        let asked = room.lesson.poll.as_ref().filter(|asked| asked.poll.question == Question::OwnRate)?;
        Some(Swarm::new(&asked.votes, &asked.robots, asked.poll.answers(), WIDTH - 2.0 * LEFT, BOTTOM - 10.0))
    });
    let dot = |SwarmDot { x, y, is_robots }: SwarmDot| {
        let class = if is_robots { "swarm-dot of-robots" } else { "swarm-dot" };
        view! { <circle class=class data-testid="swarm-dot" cx=LEFT + x cy=BOTTOM - y r="9"></circle> }
    };
    let mark = |(x, text): (f32, String)| view! { <text x=LEFT + x y=HEIGHT - 8.0 text-anchor="middle">{text}</text> };
    view! {
        <svg class="swarm" viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label=say::mask::swarm()>
            <line class="axis" x1=LEFT x2=WIDTH - LEFT y1=BOTTOM + 12.0 y2=BOTTOM + 12.0></line>
            {move || swarm.get().map(|Swarm { dots, marks }| view! {
                {dots.into_iter().map(dot).collect_view()}
                {marks.into_iter().map(mark).collect_view()}
            })}
        </svg>
    }
}
