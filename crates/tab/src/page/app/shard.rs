//! This tab's share of the room's data set.

use leptos::prelude::*;

use super::{pixels::Pixels, trainer::Trainer};
use crate::page::words;

/// What the rounds train on, once this tab has shared pictures: some of them, and how many there are of each class.
#[component]
pub fn TrainsOn(
    /// What the worker says.
    trainer: Trainer,
) -> impl IntoView {
    let shard = trainer.shard;
    let batch = Memo::new(move |_| trainer.plan.with(|plan| plan.as_ref().and_then(|plan| plan.shared)));
    let sentence = move || {
        shard.with(|shard| shard.as_ref().map(|shard| words::shard(&shard.data, &shard.classes, &shard.counts)))
    };
    let now = move || match batch.get() {
        Some(pictures) => format!("This round takes {} of them.", pictures),
        None => "Not used in this round, which trains on your private picture.".to_owned(),
    };
    let division = move || shard.with(|shard| shard.as_ref().map(|shard| words::partition(shard.partition)));
    let bars = move || {
        shard.with(|shard| {
            let Some(shard) = shard else { return Vec::new() };
            let most = shard.counts.iter().copied().max().unwrap_or(0).max(1);
            let bar = |(name, count): (&String, &u32)| (name.clone(), *count, f64::from(*count) / f64::from(most));
            shard.classes.iter().zip(&shard.counts).map(bar).collect()
        })
    };
    view! {
        <section
            class="panel trains-on"
            data-testid="shard"
            data-pictures=move || shard.with(|shard| shard.as_ref().map(|shard| shard.counts.iter().sum::<u32>()))
            hidden=move || shard.with(Option::is_none)
        >
            <h2>
                {move || if batch.get().is_some() { "This tab trains on " } else { "This tab also has " }}
                <span data-testid="shard-sentence">{sentence}</span>
            </h2>
            <p class="panel-summary">
                {now} " Shared pictures are public: the relay handed them out, divided " {division}
                ". Only your own picture is private."
            </p>
            <div class="shard">
                <Pixels
                    picture=Signal::derive(move || shard.with(|shard| shard.as_ref().and_then(|shard| shard.sheet.clone())))
                    label="Some of the shared pictures, ordered by class"
                    class="sheet"
                />
                <ul class="bars">
                    {move || {
                        bars()
                            .into_iter()
                            .map(|(name, count, share)| {
                                view! {
                                    <li data-testid="shard-class" data-count=count>
                                        <span>{name}</span>
                                        <span class="meter" aria-hidden="true">
                                            <span class="meter-fill" style=format!("width:{:.1}%", share * 100.0)></span>
                                        </span>
                                        <span class="sub">{count}</span>
                                    </li>
                                }
                            })
                            .collect_view()
                    }}
                </ul>
            </div>
        </section>
    }
}
