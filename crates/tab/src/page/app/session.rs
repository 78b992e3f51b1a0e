//! What a student sees after joining.

use leptos::prelude::*;

use super::{
    join::Draft,
    pixels::{Pixels, Rgba},
    question::PassphrasePrompt,
    seen::Attacks,
    trainer::Trainer,
};
use crate::{
    page::{chart::sparkline, classes::CLASSES, words},
    protocol::{Connection, GroupView},
};

const SPARK_WIDTH: f32 = 120.0;
const SPARK_HEIGHT: f32 = 32.0;

/// The running session.
#[component]
pub fn Session(
    /// The picture and label that were joined with.
    draft: Draft,
    /// What the worker says.
    trainer: Trainer,
) -> impl IntoView {
    view! {
        <Closed trainer/>
        <PassphrasePrompt draft trainer/>
        <Status draft trainer/>
        <Notices trainer/>
        <Attacks trainer/>
        <Leaving trainer/>
        <p class="session-end">
            <button type="button" class="button" data-testid="leave" on:click=move |_| trainer.leave()>
                "Leave the room"
            </button>
        </p>
    }
}

/// Why the room closed the connection for good.
#[component]
fn Closed(trainer: Trainer) -> impl IntoView {
    let reason = move || match trainer.connection.get() {
        Some(Connection::Closed { reason }) => Some(reason),
        _ => None,
    };
    view! {
        <p class="banner error" role="alert" data-testid="closed" hidden=move || reason().is_none()>
            <strong>"The connection is closed. "</strong>
            {reason}
        </p>
    }
}

#[component]
fn Status(draft: Draft, trainer: Trainer) -> impl IntoView {
    let nickname = move || match trainer.connection.get() {
        Some(Connection::Online { nickname }) => nickname,
        _ => draft.nickname.get(),
    };
    let round = move || trainer.plan.get().map(|plan| plan.round);
    let doing = move || match (trainer.is_busy.get(), trainer.sent.get()) {
        _ if trainer.question.with(Option::is_some) => "waiting for the passphrase".to_owned(),
        (true, _) => "training…".to_owned(),
        (false, Some(sent)) => format!("update sent after {}", words::duration(sent.milliseconds)),
        (false, None) => "waiting for the teacher to start".to_owned(),
    };
    let device = move || trainer.device.get();
    let loss = move || trainer.losses.with(|losses| losses.last().copied());
    let room = move || match trainer.closed.get() {
        Some(closed) => match closed.loss {
            Some(loss) => format!("room: {loss:.3}, mean of {} in round {}", closed.updates, closed.round),
            None => format!("room: no update came in round {}", closed.round),
        },
        None => "room: no round closed yet".to_owned(),
    };
    let curve = move || trainer.losses.with(|losses| sparkline(losses, SPARK_WIDTH, SPARK_HEIGHT));
    let label = CLASSES.get(usize::from(draft.label.get_untracked())).copied().unwrap_or_default();
    view! {
        <section class="tiles" aria-label="This tab">
            <div class="tile own">
                <Pixels
                    picture=Signal::derive(move || draft.picture.get().map(|picture| picture.pixels))
                    label="Your private picture"
                    class="photo"
                />
                <div>
                    <h2 data-testid="room-nickname">{nickname}</h2>
                    <p class="sub">"private picture, trained as " <b>{label}</b> "; it stays here"</p>
                </div>
            </div>
            <div class="tile">
                <h3>"Round"</h3>
                <p class="figure" data-testid="round" data-round=move || round().unwrap_or(0)>
                    {move || round().map_or("–".to_owned(), |round| round.to_string())}
                </p>
                <p class="sub" data-testid="doing">{doing}</p>
            </div>
            <div class="tile">
                <h3>"Trains on"</h3>
                <p class="figure" data-testid="device" data-device=move || device().map(|(name, _)| name)>
                    {move || device().map_or("measuring…".to_owned(), |(name, _)| name)}
                </p>
                <p class="sub" data-testid="device-reason">{move || device().map(|(_, reason)| reason)}</p>
            </div>
            <div class="tile">
                <h3>"Loss on your picture"</h3>
                <p class="figure spread">
                    <span data-testid="loss" data-loss=move || loss().map(|loss| loss.to_string())>
                        {move || loss().map_or("–".to_owned(), |loss| format!("{loss:.3}"))}
                    </span>
                    <svg class="spark" viewBox=format!("-4 -4 {} {}", SPARK_WIDTH + 8.0, SPARK_HEIGHT + 8.0) aria-hidden="true">
                        <path d=move || curve().0></path>
                        {move || curve().1.map(|(x, y)| view! { <circle cx=x cy=y r="3"></circle> })}
                    </svg>
                </p>
                <p class="sub" data-testid="room-loss">{room}</p>
            </div>
            <div class="tile">
                <h3>"Sent"</h3>
                <p
                    class="figure"
                    data-testid="bytes"
                    data-bytes=move || trainer.bytes.get().0
                    data-plain-bytes=move || trainer.bytes.get().1
                >
                    {move || words::bytes(trainer.bytes.get().0)}
                </p>
                <p class="sub">{move || format!("{} if nothing were protected", words::bytes(trainer.bytes.get().1))}</p>
            </div>
            <div class="tile wide">
                <h3>"Model, rule and defence"</h3>
                <p class="figure small" data-testid="model">
                    {move || trainer.plan.get().map_or("–".to_owned(), |plan| plan.model)}
                </p>
                <p class="sub" data-testid="rule" data-rule=move || trainer.plan.get().map(|plan| plan.rule)>
                    {move || trainer.plan.get().map(|plan| words::rule(&plan.rule))}
                </p>
                <p class="sub" data-testid="defence" data-defence=move || trainer.plan.get().map(|plan| plan.defence)>
                    {move || trainer.plan.get().map(|plan| words::defence(&plan.defence))}
                </p>
            </div>
        </section>
    }
}

#[component]
fn Notices(trainer: Trainer) -> impl IntoView {
    view! {
        <ul class="notices" aria-live="polite" data-testid="notices">
            <For each=move || trainer.notices.get() key=|(number, _)| *number let:notice>
                <li data-testid="notice">{notice.1}</li>
            </For>
        </ul>
    }
}

/// The panel *What leaves this device*.
#[component]
fn Leaving(trainer: Trainer) -> impl IntoView {
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
            words::made(&sent.rule, sent.samples),
            words::bytes(sent.bytes),
            words::bytes(sent.plain_bytes),
            words::pictured(&sent.rule)
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
