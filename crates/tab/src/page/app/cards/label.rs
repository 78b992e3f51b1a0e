//! What the update says about the labels of its pictures.

use leptos::prelude::*;
use unmask_core::TrainOn;

use crate::page::{
    app::{
        feed::Feed,
        fields::{Bar, Bars},
        signals::{optional, part},
    },
    classes, words,
};

/// The classes with what each has of the evidence; not there before the first update that was read.
#[component]
pub fn LabelCard(feed: Feed) -> impl IntoView {
    let label = feed.optional(|room| room.label.clone());
    let names = feed.part(|room| classes::in_force(room.data.as_ref()));
    let names = Memo::new(move |_| names.get().unwrap_or_default());
    let is_shared = feed.part(|room| room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared));
    let headline = optional(label, move |label| names.with(|names| words::labels(label, names)));
    let remark = optional(label, |label| label.remark.clone());
    let bars = part(label, move |label| {
        let bar = |(place, share): (usize, &f64)| Bar {
            name: names.with(|names| classes::name(names, place)),
            share: *share,
            text: words::percent(*share as f32),
            is_found: label.counts.get(place).is_some_and(|count| *count > 0),
        };
        label.shares.iter().enumerate().map(bar).collect::<Vec<_>>()
    });
    view! {
        <article
            class="card finding"
            data-testid="label"
            data-labels=headline
            data-round=part(label, |label| label.round)
            hidden=move || label.with(Option::is_none)
        >
            <h3>{move || if is_shared.get() == Some(true) { "The classes of its pictures" } else { "The label of its picture" }}</h3>
            <p class="verdict-line">{move || headline().unwrap_or_else(|| "✓ the label does not show".to_owned())}</p>
            <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="label-class"/>
            <p class="remark" hidden=move || remark().is_none()>{remark}</p>
            <p class="sub">
                "Read from the gradient of the last layer. "
                {part(label, |label| format!("{} · round {} · {}", label.nickname, label.round, label.defence.phrase()))}
            </p>
        </article>
    }
}
