//! What a student sees after joining.

use leptos::prelude::*;

use super::{
    details::{Classify, Reconstructions, SentUpdatePanel, SharedPictures},
    draft::JoinDraft,
    join::Consent,
    trainer::Trainer,
};
use crate::{
    page::{
        text::{self, chart::sparkline, learning, names},
        widgets::{fields::PassphraseField, holds, optional, part, picture::Pixels},
    },
    protocol::Connection,
};

const SPARK_WIDTH: f32 = 120.0;
const SPARK_HEIGHT: f32 = 32.0;

/// Status, results of attacks, and what leaves this device.
#[component]
pub fn Dashboard(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    view! {
        <Closed draft trainer/>
        <SittingOut trainer/>
        <PassphrasePrompt draft trainer/>
        <Status draft trainer/>
        <Notices trainer/>
        <SharedPictures trainer/>
        <Reconstructions trainer/>
        <Classify draft trainer/>
        <SentUpdatePanel trainer/>
        <p class="leave">
            <button type="button" class="button" data-testid="leave" on:click=move |_| trainer.leave()>
                "Leave the room"
            </button>
        </p>
    }
}

/// Why the connection was closed for good, and a way back for whoever may take it.
#[component]
fn Closed(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let reason = optional(trainer.connection, |connection| match connection {
        Connection::Closed { reason } => Some(text::sentence(reason)),
        _ => None,
    });
    view! {
        <div class="banner error" role="alert" data-testid="closed" hidden=move || reason().is_none()>
            <p>
                <strong>"The connection is closed. "</strong>
                {reason}
            </p>
            <button type="button" class="button" data-testid="join-again" on:click=move |_| draft.join_again(trainer)>
                "Join again"
            </button>
        </div>
    }
}

/// The way back into the rounds.
#[component]
fn SittingOut(trainer: Trainer) -> impl IntoView {
    // What is asked for without a socket would be lost.
    let is_offline = move || !matches!(trainer.connection.get(), Some(Connection::Online { .. }));
    view! {
        <div class="banner error" role="alert" data-testid="sitting-out" hidden=move || !trainer.is_sitting_out.get()>
            <p>
                <strong>"You sit out. "</strong>
                "You have not answered in two rounds, so the room goes on without you. Come back when this device is awake and in sight."
            </p>
            <button
                type="button"
                class="button accent"
                data-testid="come-back"
                disabled=is_offline
                on:click=move |_| trainer.come_back()
            >
                "Come back"
            </button>
        </div>
    }
}

#[component]
fn Status(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let nickname = move || trainer.nickname.get().unwrap_or_else(|| draft.nickname.get());
    let round = part(trainer.training, |training| training.round);
    let status = move || match (trainer.is_busy.get(), trainer.sent.get()) {
        _ if trainer.passphrase_request.with(Option::is_some) => "waiting for the passphrase".to_owned(),
        (true, _) => "training…".to_owned(),
        (false, Some(sent)) => format!("update sent; the step took {}", text::duration(sent.milliseconds)),
        (false, None) => "waiting for the teacher to start".to_owned(),
    };
    let device = part(trainer.device, |device| device.name.clone());
    let loss = move || trainer.losses.with(|losses| losses.last().copied());
    let room = part(trainer.closed, |closed| match closed.loss {
        Some(loss) => format!("room: {loss:.3}, mean of {} in round {}", closed.updates, closed.round),
        None => format!("room: no update came in round {}", closed.round),
    });
    let curve = move || trainer.losses.with(|losses| sparkline(losses, SPARK_WIDTH, SPARK_HEIGHT));
    let label = move || draft.classes.with(|all| names::class_name(all, draft.label.get().into()));
    let shared = Memo::new(move |_| optional(trainer.training, |training| training.shared)());
    view! {
        <section class="tiles" aria-label="This tab">
            <div class="tile own">
                <Pixels
                    picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                    label="Your private picture"
                    class="photo"
                />
                <div>
                    <h2 data-testid="room-nickname">{nickname}</h2>
                    <p class="sub" data-testid="trains-on" data-shared=move || shared.get().unwrap_or(0)>
                        {move || if shared.get().is_some() {
                            "Your private picture stays here and is not used now.".to_owned()
                        } else {
                            format!("Your private picture stays here. Its label: {}.", label())
                        }}
                    </p>
                    <Consent draft on_change=move |may_show| trainer.consent(may_show)/>
                </div>
            </div>
            <div class="tile">
                <h3>"Round"</h3>
                <p class="figure" data-testid="round" data-round=move || round().unwrap_or(0)>
                    {move || round().map_or("–".to_owned(), |round| round.to_string())}
                </p>
                <p class="sub">{status}</p>
            </div>
            <div class="tile">
                <h3>"Device"</h3>
                <p class="figure" data-testid="device" data-device=device>
                    {move || device().unwrap_or_else(|| "choosing…".to_owned())}
                </p>
                <p class="sub" data-testid="device-reason">{part(trainer.device, |device| device.reason.clone())}</p>
            </div>
            <div class="tile">
                <h3>{move || learning::loss_heading(shared.get().is_some())}</h3>
                <p class="figure spread">
                    <span data-testid="loss" data-loss=move || loss().map(|loss| loss.to_string())>
                        {move || loss().map_or("–".to_owned(), |loss| format!("{loss:.3}"))}
                    </span>
                    <svg class="spark" viewBox=format!("-4 -4 {} {}", SPARK_WIDTH + 8.0, SPARK_HEIGHT + 8.0) aria-hidden="true">
                        <path d=move || curve().0></path>
                        {move || curve().1.map(|(x, y)| view! { <circle cx=x cy=y r="3"></circle> })}
                    </svg>
                </p>
                <p class="sub">{move || room().unwrap_or_else(|| "room: no round has closed yet".to_owned())}</p>
            </div>
            <div class="tile">
                <h3>"Sent"</h3>
                <p
                    class="figure"
                    data-testid="bytes"
                    data-bytes=move || trainer.bytes.get().0
                    data-plain-bytes=move || trainer.bytes.get().1
                >
                    {move || text::bytes(trainer.bytes.get().0)}
                </p>
                <p class="sub">{move || format!("{} without a defence", text::bytes(trainer.bytes.get().1))}</p>
            </div>
            <div class="tile wide">
                <h3>"Model, rule and defence"</h3>
                <p class="figure small" data-testid="model">
                    {move || part(trainer.training, |training| training.model.clone())().unwrap_or("–".to_owned())}
                </p>
                <p class="sub" data-testid="rule" data-rule=part(trainer.training, |training| training.rule.to_string())>
                    {part(trainer.training, |training| text::rule(training.rule))}
                </p>
                <p class="sub" data-testid="defence" data-defence=part(trainer.training, |training| training.defence.to_string())>
                    {part(trainer.training, |training| training.defence.phrase())}
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

/// A card that is there for as long as the worker waits for a passphrase; `draft` keeps it for the next time this tab joins.
#[component]
pub fn PassphrasePrompt(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let request = trainer.passphrase_request;
    let answer = RwSignal::new(String::new());
    let is_asked = Memo::new(move |_| request.with(Option::is_some));
    let is_wrong = holds(request, |request| request.is_wrong);
    let is_empty = move || answer.with(|answer| answer.trim().is_empty());
    let send = move || {
        if !is_empty() {
            let passphrase = std::mem::take(&mut *answer.write());
            draft.passphrase.set(passphrase.clone());
            trainer.give_passphrase(passphrase);
        }
    };
    view! {
        <Show when=move || is_asked.get()>
            <form
                class="card field prompt"
                data-testid="passphrase-prompt"
                data-wrong=move || is_wrong().to_string()
                on:submit=move |event| {
                    event.prevent_default();
                    send();
                }
            >
                <h2 role="alert">
                    {move || if is_wrong() { "✕ This passphrase does not unlock the room’s model" } else { "The room’s model is encrypted" }}
                </h2>
                <p data-testid="passphrase-reason">{part(request, |request| text::sentence(&request.reason))}</p>
                <label for="passphrase-answer">"Passphrase"</label>
                <PassphraseField id="passphrase-answer" value=answer/>
                <p class="hint">"Ask the teacher for it. It never leaves this tab. Until it is right, no update is sent."</p>
                <button type="submit" class="button accent" data-testid="passphrase-send" disabled=is_empty>"Use this passphrase"</button>
            </form>
        </Show>
    }
}
