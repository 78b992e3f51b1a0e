//! This tab's share of the room's data set.

use leptos::prelude::*;

use super::{
    fields::{Bar, Bars},
    pixels::Pixels,
    signals::{optional, part},
    trainer::Trainer,
};
use crate::page::words;

/// Once this tab has shared pictures: some of them, how many there are of each class, and whether they are used now.
#[component]
pub fn SharedPictures(trainer: Trainer) -> impl IntoView {
    let shard = trainer.shard;
    let used = Memo::new(move |_| optional(trainer.training, |training| training.shared)());
    let now = move || match used.get() {
        Some(pictures) => format!("This round uses {pictures} of them."),
        None => "This round trains on your private picture instead.".to_owned(),
    };
    let bars = part(shard, |shard| {
        let most = shard.counts.iter().copied().max().unwrap_or(0).max(1);
        let bar = |(name, count): (&String, &u32)| Bar {
            name: name.clone(),
            share: f64::from(*count) / f64::from(most),
            text: count.to_string(),
            is_found: false,
        };
        shard.classes.iter().zip(&shard.counts).map(bar).collect::<Vec<_>>()
    });
    view! {
        <section
            class="panel"
            data-testid="shard"
            data-pictures=part(shard, |shard| shard.counts.iter().sum::<u32>())
            hidden=move || shard.with(Option::is_none)
        >
            <h2>
                {move || if used.get().is_some() { "This tab trains on " } else { "This tab also has " }}
                {part(shard, |shard| words::shared_pictures(&shard.data, &shard.classes, &shard.counts))}
            </h2>
            <p class="panel-summary">
                {now} " Shared pictures are public: the relay handed them out, divided "
                {part(shard, |shard| words::partition(shard.partition))} ". Only your own picture is private."
            </p>
            <div class="shard">
                <Pixels
                    picture=Signal::derive(optional(shard, |shard| shard.contact_sheet.clone()))
                    label="Some of the shared pictures, ordered by class"
                    class="sheet"
                />
                <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="shard-class"/>
            </div>
        </section>
    }
}
