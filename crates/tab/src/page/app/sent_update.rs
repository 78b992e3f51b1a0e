//! The panel *What leaves this device*.

use leptos::prelude::*;

use super::{
    pixels::Pixels,
    signals::{holds, optional, part},
    trainer::Trainer,
};
use crate::{
    page::words,
    protocol::{GroupView, SentUpdate},
};

/// The last update, group by group, as computed and as sent.
#[component]
pub fn SentUpdatePanel(trainer: Trainer) -> impl IntoView {
    let sent = trainer.sent;
    let titles = Memo::new(move |_| {
        let titles = |sent: &SentUpdate| sent.groups.iter().map(|group| group.title.clone()).collect::<Vec<_>>();
        part(sent, titles)().unwrap_or_default()
    });
    let summary = part(sent, |sent| {
        format!(
            "Round {}: {}. {} sent, {} without a defence.{}",
            sent.round,
            words::update_content(sent.rule, sent.samples),
            words::bytes(sent.bytes),
            words::bytes(sent.plain_bytes),
            words::drawing_note(sent.rule)
        )
    });
    let has_ciphertext = holds(sent, |sent| sent.groups.iter().any(|group| group.ciphertext));
    view! {
        <section class="panel" data-testid="leaving">
            <h2>"What leaves this device"</h2>
            <p class="panel-summary">
                {move || summary().unwrap_or_else(|| "Nothing so far. After the first round you see here what did.".to_owned())}
            </p>
            <p class="legend">
                <span><i class="swatch minus"></i>"below zero"</span>
                <span><i class="swatch zero"></i>"zero"</span>
                <span><i class="swatch plus"></i>"above zero"</span>
                <span><i class="swatch masked"></i>"removed by the defence"</span>
                <span class="long" hidden=move || !has_ciphertext()><b class="tag">"ciphertext"</b>" encrypted; the other groups leave as computed"</span>
            </p>
            <div class="groups">
                <For each=move || titles.get() key=Clone::clone let:title>
                    <Group sent title/>
                </For>
            </div>
        </section>
    }
}

/// One parameter group of the last update.
#[component]
fn Group(sent: RwSignal<Option<SentUpdate>>, title: String) -> impl IntoView {
    let name = title.clone();
    let group = Memo::new_with_compare(
        move |_| {
            let find = |sent: &SentUpdate| sent.groups.iter().find(|group| group.title == name).cloned();
            sent.with(|sent| sent.as_ref().and_then(find))
        },
        // Every update is new; comparing its pictures would cost more than drawing them.
        |_, _| true,
    );
    let number = move |of: fn(&GroupView) -> f32| part(group, of)().unwrap_or_default();
    let noise = optional(group, |group| group.noise);
    let is_ciphertext = holds(group, |group| group.ciphertext);
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
                    <Pixels
                        picture=Signal::derive(optional(group, |group| group.before.clone()))
                        label=format!("{title}: the update as computed")
                        class="update"
                    />
                    <figcaption>"as computed"</figcaption>
                </figure>
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(group, |group| group.after.clone()))
                        label=format!("{title}: what leaves")
                        class="update"
                    />
                    <figcaption>"as sent"</figcaption>
                </figure>
            </div>
            <dl>
                <div><dt>"zeros"</dt><dd>{move || words::percent(number(|group| group.zeros))}</dd></div>
                <div><dt>"values"</dt><dd>{part(group, |group| words::count(group.values))}</dd></div>
                <div>
                    <dt>"norm"</dt>
                    <dd>{part(group, |group| format!("{:.3} → {:.3}", group.norm_before, group.norm_after))}</dd>
                </div>
                <div hidden=move || noise().is_none()>
                    <dt>"noise to signal"</dt>
                    <dd>{move || noise().map(words::ratio)}</dd>
                </div>
            </dl>
        </article>
    }
}
