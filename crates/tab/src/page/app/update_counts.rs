//! How often each parameter was updated, beside what chance expects.

use leptos::prelude::*;
use unmask_wire::view::{GroupCountsView, UpdateCountsView};

use super::{feed::Feed, signals::part};
use crate::page::{chart::Frame, histogram::Histogram, words};

const WIDTH: f32 = 280.0;
const HEIGHT: f32 = 118.0;
const FRAME: Frame = Frame { left: 44.0, top: 8.0, width: 230.0, height: 84.0 };

/// One small chart for each parameter group; nothing before the first round under the defence in force has closed.
#[component]
pub fn UpdateCounts(feed: Feed) -> impl IntoView {
    let counts = feed.optional(|room| room.update_counts.clone());
    let keys = Memo::new(move |_| {
        let keys = |counts: &UpdateCountsView| counts.groups.iter().map(|group| group.key.clone()).collect::<Vec<_>>();
        part(counts, keys)().unwrap_or_default()
    });
    view! {
        <details class="card counts" data-testid="update-counts" open hidden=move || keys.with(Vec::is_empty)>
            <summary>
                <h2>
                    "How often each parameter was updated"
                    <span class="sub">
                        " in "
                        {part(counts, |counts| format!("M = {} rounds with N = {} updates each", counts.rounds, words::number(counts.updates)))}
                    </span>
                </h2>
            </summary>
            <p class="legend">
                <span><i class="swatch counted"></i>"share of parameters updated in f rounds"</span>
                <span><i class="swatch expected"></i>"expected: G(f)"</span>
                <span class="sub">
                    {part(counts, |counts| counts.sampled.map(|sampled| {
                        format!("counted on an evenly spaced sample of {} parameters", words::count(sampled))
                    }))}
                </span>
            </p>
            <div class="histograms">
                <For each=move || keys.get() key=Clone::clone let:key>
                    <Group counts key/>
                </For>
            </div>
            <details class="formula">
                <summary>"The formula"</summary>
                <p>
                    "G(f) = C(M, f) (1 − R" <sup>"N"</sup> ")" <sup>"f"</sup> " (R" <sup>"N"</sup> ")" <sup>"M−f"</sup>
                </p>
                <p class="sub">
                    "A round leaves a parameter unchanged if all N tabs draw a zero for it, which happens with probability R"
                    <sup>"N"</sup>
                    ". Over M rounds, the number of updates f is therefore binomial; where N changed, each round counts with its own N. "
                    "(The papers print the exponent N(1−f), which is right only for M = 1.) Under a frozen mask, all tabs draw "
                    "the same zeros in every round: a share R is never updated, and the rest always is."
                </p>
            </details>
        </details>
    }
}

#[component]
fn Group(counts: Memo<Option<UpdateCountsView>>, key: String) -> impl IntoView {
    let name = key.clone();
    let group = Memo::new(move |_| {
        let find = |counts: &UpdateCountsView| counts.groups.iter().find(|group| group.key == name).cloned();
        counts.with(|counts| counts.as_ref().and_then(find))
    });
    let summary = part(group, summary);
    let bottom = FRAME.top + FRAME.height;
    let right = FRAME.left + FRAME.width;
    view! {
        <figure
            class="histogram"
            data-testid="update-counts-group"
            data-group=key
            data-never=part(group, |group| group.never.to_string())
            data-mean=part(group, |group| group.mean.to_string())
        >
            <figcaption>
                <b>{part(group, |group| group.group.clone())}</b>
                {part(group, |group| group.rate.map(|rate| format!(" R = {}", words::number(rate))))}
            </figcaption>
            <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label=summary>
                {move || {
                    let drawn = part(group, |group| Histogram::new(&group.bins, FRAME))().unwrap_or_default();
                    let top = words::percent(drawn.top as f32).replace(".0", "");
                    let bars = drawn.bars.into_iter().map(|bar| {
                        view! { <rect class="counted" x=bar.x y=bar.y width=bar.width height=bar.height></rect> }
                    });
                    let dots = drawn.expected.iter().map(|(x, y)| view! { <circle class="expected" cx=*x cy=*y r="3.5"></circle> });
                    let ticks = drawn.ticks.into_iter().map(|tick| {
                        view! { <text class="tick" x=tick.at y=bottom + 16.0 text-anchor="middle">{tick.text}</text> }
                    });
                    let dots = dots.collect_view();
                    view! {
                        <line class="grid" x1=FRAME.left x2=right y1=FRAME.top y2=FRAME.top></line>
                        <text class="tick" x=FRAME.left - 5.0 y=FRAME.top + 5.0 text-anchor="end">{top}</text>
                        {bars.collect_view()}
                        <line class="axis" x1=FRAME.left x2=right y1=bottom y2=bottom></line>
                        {dots}
                        {ticks.collect_view()}
                    }
                }}
            </svg>
            <p class="sub">{summary}</p>
        </figure>
    }
}

fn summary(group: &GroupCountsView) -> String {
    format!("never updated {} · mean {} rounds", words::percent(group.never as f32), words::number(group.mean))
}
