//! Who has which of the shared pictures.

use leptos::prelude::*;
use unmask_wire::view::DataView;

use crate::page::{
    app::{feed::Feed, signals::part},
    words,
};

/// Hues of the classes; a class beyond them begins again.
const HUES: usize = 10;

/// A bar for each seat, made of its classes: how alike the clients' shares are is seen at once.
#[component]
pub fn SeatsCard(feed: Feed) -> impl IntoView {
    let data = feed.optional(|room| room.data.clone().filter(|data| !data.shards.is_empty()));
    let legend = part(data, |data| {
        let entry = |(place, name): (usize, &String)| {
            view! { <span><i class=format!("swatch hue-{}", place % HUES)></i>{name.clone()}</span> }
        };
        data.classes.iter().enumerate().map(entry).collect_view()
    });
    let seats = part(data, |data| {
        let largest = data.shards.iter().map(|shard| shard.iter().sum::<u32>()).max().unwrap_or(0).max(1);
        data.shards.iter().enumerate().map(|(seat, shard)| bar(data, seat, shard, largest)).collect_view()
    });
    view! {
        <section class="card seats" aria-label="Shared pictures" data-testid="seats" hidden=move || data.with(Option::is_none)>
            <h2>"Who has which pictures"</h2>
            <p class="sub">
                {part(data, |data| format!("{}, divided {}. One bar per seat; clients take seats in turn.", data.name, words::partition(data.partition)))}
            </p>
            <ul>{seats}</ul>
            <p class="legend">{legend}</p>
        </section>
    }
}

fn bar(data: &DataView, seat: usize, shard: &[u32], largest: u32) -> impl IntoView + use<> {
    let parts = shard.iter().enumerate().filter(|(_, count)| **count > 0).map(|(class, count)| {
        let name = data.classes.get(class).map_or("", String::as_str);
        let width = format!("width:{:.3}%", f64::from(*count) * 100.0 / f64::from(largest));
        view! { <i class=format!("hue-{}", class % HUES) style=width title=format!("{name}: {count}")></i> }
    });
    let total: u32 = shard.iter().sum();
    view! {
        <li data-testid="seat" data-pictures=total>
            <span class="seat-number">{seat + 1}</span>
            <span class="stack">{parts.collect_view()}</span>
            <span class="sub">{total}</span>
        </li>
    }
}
