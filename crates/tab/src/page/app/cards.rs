//! One large card for each attack on the client under attack.

use leptos::prelude::*;
use unmask_wire::view::AttackView;

use super::{feed::Feed, gauge::Gauge};
use crate::page::words;

/// The cards, in the relay's order.
#[component]
pub fn Cards(
    /// The room.
    feed: Feed,
) -> impl IntoView {
    let names = Memo::new(move |_| {
        feed.room.with(|room| {
            room.iter().flat_map(|room| &room.attacks).map(|attack| attack.attack.clone()).collect::<Vec<_>>()
        })
    });
    let target = Memo::new(move |_| {
        feed.room.with(|room| {
            let room = room.as_ref()?;
            let target = room.target?;
            room.clients.iter().find(|client| client.id == target).map(|client| client.nickname.clone())
        })
    });
    view! {
        <section class="attacks" aria-label="Attacks">
            <h2 class="attacks-title">
                "What the relay sees"
                <span hidden=move || target.with(Option::is_none)>" of " <b data-testid="target">{move || target.get()}</b></span>
            </h2>
            <div class="cards">
                <For each=move || names.get() key=Clone::clone let:name>
                    <Card feed name/>
                </For>
                <p class="card empty" hidden=move || !names.with(Vec::is_empty)>
                    "As soon as a round ends, the relay tries to rebuild the picture of the client under attack from its update. What it finds appears here."
                </p>
            </div>
        </section>
    }
}

#[component]
fn Card(feed: Feed, name: String) -> impl IntoView {
    let key = name.clone();
    let result = Memo::new(move |_| {
        feed.room.with(|room| room.iter().flat_map(|room| &room.attacks).find(|attack| attack.attack == key).cloned())
    });
    let text = move |of: fn(&AttackView) -> String| move || result.with(|result| result.as_ref().map(of));
    let ssim = Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| result.ssim)));
    let psnr = Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| result.psnr)));
    let picture = Memo::new(move |_| result.with(|result| result.as_ref().and_then(|result| result.picture.clone())));
    let remark = Memo::new(move |_| result.with(|result| result.as_ref().and_then(|result| result.remark.clone())));
    let is_defended =
        Signal::derive(move || result.with(|result| result.as_ref().is_some_and(|result| result.defence != "none")));
    let waiting = Signal::derive(move || match picture.get() {
        Some(_) => "waiting for the attacked tab to compare".to_owned(),
        None => "✓ nothing recovered".to_owned(),
    });
    view! {
        <article
            class="card attack"
            data-testid="card"
            data-attack=name
            data-round=text(|result| result.round.to_string())
            data-defence=text(|result| result.defence.clone())
            data-client=text(|result| result.client.to_string())
            data-ssim=move || ssim.get().map(|ssim| ssim.to_string())
            data-psnr=move || psnr.get().map(|psnr| psnr.to_string())
        >
            <div class="attack-picture">
                {move || match picture.get() {
                    Some(address) => {
                        view! { <img src=address alt="What the relay reconstructed" data-testid="reconstruction"/> }.into_any()
                    }
                    None => view! { <p class="nothing">"no picture"</p> }.into_any(),
                }}
            </div>
            <div class="attack-text">
                <h3>{text(|result| result.title.clone())}</h3>
                <p class="sentence">{text(|result| result.sentence.clone())}</p>
            </div>
            <div class="attack-end">
                <p class="remark" data-testid="remark" hidden=move || remark.with(Option::is_none)>
                    {move || remark.get()}
                </p>
                <Gauge ssim psnr is_defended waiting/>
                <p class="sub">
                    {text(|result| {
                        format!(
                            "{} · round {} · {} · {}",
                            result.nickname,
                            result.round,
                            words::defence(&result.defence),
                            words::duration(result.seconds * 1000.0),
                        )
                    })}
                </p>
            </div>
        </article>
    }
}
