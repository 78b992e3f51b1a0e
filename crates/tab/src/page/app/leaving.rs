//! The panel *What leaves this device*.

use leptos::prelude::*;

use super::{
    pixels::{Pixels, Rgba},
    trainer::Trainer,
};
use crate::{page::words, protocol::GroupView};

/// The last update, group by group, as computed and as sent.
#[component]
pub fn Leaving(
    /// What the worker says.
    trainer: Trainer,
) -> impl IntoView {
    let titles = Memo::new(move |_| {
        trainer.sent.with(|sent| {
            let groups = sent.as_ref().map_or(&[][..], |sent| &sent.groups);
            groups.iter().map(|group| group.title.clone()).collect::<Vec<_>>()
        })
    });
    let summary = move || match trainer.sent.get() {
        Some(sent) => format!(
            "Round {}: {}, {} sent; unprotected it would have been {}.{}",
            sent.round,
            words::made(sent.rule, sent.samples),
            words::bytes(sent.bytes),
            words::bytes(sent.plain_bytes),
            words::pictured(sent.rule)
        ),
        None => "Nothing has left yet. After the first round you see here what did.".to_owned(),
    };
    let has_ciphertext = move || {
        trainer.sent.with(|sent| sent.as_ref().is_some_and(|sent| sent.groups.iter().any(|group| group.ciphertext)))
    };
    view! {
        <section class="panel" data-testid="leaving">
            <h2>"What leaves this device"</h2>
            <p class="panel-summary">{summary}</p>
            <p class="legend">
                <span><i class="swatch minus"></i>"below zero"</span>
                <span><i class="swatch zero"></i>"zero"</span>
                <span><i class="swatch plus"></i>"above zero"</span>
                <span><i class="swatch masked"></i>"removed by the defence"</span>
                <span class="long" hidden=move || !has_ciphertext()><b class="tag">"ciphertext"</b>" encrypted; the other groups leave as computed"</span>
            </p>
            <div class="groups">
                <For each=move || titles.get() key=Clone::clone let:title>
                    <Group trainer title/>
                </For>
            </div>
        </section>
    }
}

/// One parameter group of the last update.
#[component]
fn Group(trainer: Trainer, title: String) -> impl IntoView {
    let name = title.clone();
    let group = Memo::new_with_compare(
        move |_| {
            trainer.sent.with(|sent| {
                sent.as_ref().and_then(|sent| sent.groups.iter().find(|group| group.title == name).cloned())
            })
        },
        // Every update is new; comparing its pictures would cost more than drawing them.
        |_, _| true,
    );
    let picture = move |side: fn(&GroupView) -> &[u8]| {
        Signal::derive(move || {
            group.with(|group| group.as_ref().and_then(|group| Rgba::new(group.width, group.height, side(group))))
        })
    };
    let number = move |of: fn(&GroupView) -> f32| group.with(|group| group.as_ref().map_or(0.0, of));
    let noise = move || group.with(|group| group.as_ref().and_then(|group| group.noise));
    let is_ciphertext = move || group.with(|group| group.as_ref().is_some_and(|group| group.ciphertext));
    view! {
        <article
            class="group"
            data-testid="group"
            data-group=title.clone()
            data-zeros=move || number(|group| group.zeros)
            data-noise=move || noise().map(|noise| noise.to_string())
            data-ciphertext=move || is_ciphertext().to_string()
        >
            <h3>{title.clone()} <b class="tag" hidden=move || !is_ciphertext()>"ciphertext"</b></h3>
            <div class="pair">
                <figure>
                    <Pixels picture=picture(|group| &group.before) label=format!("{title}: the update as computed") class="update"/>
                    <figcaption>"as computed"</figcaption>
                </figure>
                <figure>
                    <Pixels picture=picture(|group| &group.after) label=format!("{title}: what leaves") class="update"/>
                    <figcaption>"as sent"</figcaption>
                </figure>
            </div>
            <dl>
                <div><dt>"zeros"</dt><dd>{move || words::percent(number(|group| group.zeros))}</dd></div>
                <div><dt>"values"</dt><dd>{move || group.with(|group| words::count(group.as_ref().map_or(0, |group| group.values)))}</dd></div>
                <div>
                    <dt>"norm"</dt>
                    <dd>{move || format!("{:.3} → {:.3}", number(|group| group.norm_before), number(|group| group.norm_after))}</dd>
                </div>
                <div hidden=move || noise().is_none()>
                    <dt>"noise to signal"</dt>
                    <dd>{move || noise().map(words::ratio)}</dd>
                </div>
            </dl>
        </article>
    }
}
