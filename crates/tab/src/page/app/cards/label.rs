//! What the update says about the labels of its pictures.

use leptos::prelude::*;
use unmask_core::TrainOn;

use crate::page::{app::feed::Feed, classes, words};

/// The classes with what each has of the evidence; not there before the first update that was read.
#[component]
pub fn LabelCard(feed: Feed) -> impl IntoView {
    let label = feed.part(|room| room.label.clone());
    let label = Memo::new(move |_| label.get().flatten());
    let names = feed.part(|room| classes::in_force(room.data.as_ref()));
    let names = Memo::new(move |_| names.get().unwrap_or_default());
    let is_shared = feed.part(|room| room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared));
    let headline = Memo::new(move |_| {
        label.with(|label| names.with(|names| label.as_ref().and_then(|label| words::labels(label, names))))
    });
    let remark = move || label.with(|label| label.as_ref().and_then(|label| label.remark.clone()));
    let bars = move || {
        label.with(|label| {
            let Some(label) = label else { return Vec::new() };
            let count = |place: usize| label.counts.get(place).copied().unwrap_or_default();
            label.shares.iter().enumerate().map(|(place, share)| (place, *share, count(place))).collect()
        })
    };
    let sub = move || {
        label.with(|label| {
            label
                .as_ref()
                .map(|label| format!("{} · round {} · {}", label.nickname, label.round, words::defence(&label.defence)))
        })
    };
    view! {
        <article
            class="card finding"
            data-testid="label"
            data-labels=move || headline.get()
            data-round=move || label.with(|label| label.as_ref().map(|label| label.round))
            hidden=move || label.with(Option::is_none)
        >
            <h3>{move || if is_shared.get() == Some(true) { "Which classes it was made from" } else { "What its owner called it" }}</h3>
            <p class="verdict-line">{move || headline.get().unwrap_or_else(|| "✓ the label does not show".to_owned())}</p>
            <ul class="bars">
                {move || {
                    bars()
                        .into_iter()
                        .map(|(place, share, count)| {
                            view! {
                                <li class:found=count.gt(&0)>
                                    <span>{names.with(|names| classes::name(names, place))}</span>
                                    <span class="meter" aria-hidden="true">
                                        <span class="meter-fill" style=format!("width:{:.1}%", (share * 100.0).clamp(0.0, 100.0))></span>
                                    </span>
                                    <span class="sub">{words::percent(share as f32)}</span>
                                </li>
                            }
                        })
                        .collect_view()
                }}
            </ul>
            <p class="remark" hidden=move || remark().is_none()>{remark}</p>
            <p class="sub">"Read from the gradient of the last layer. "{sub}</p>
        </article>
    }
}
