//! What a student sees after joining: one status, one picture, and one thing to do; the rest is folded away.

use leptos::{html::H2, prelude::*};

use super::{
    details::Details,
    draft::JoinDraft,
    join::Consent,
    own::{OwnPicture, WhoSees},
    poll::{Outcome, Question},
    trainer::Trainer,
};
use crate::{
    page::{
        text::{
            self,
            student::{self, room as say},
            turn::{Link, Turn},
        },
        widgets::{fields::PassphraseField, holds, optional, part},
    },
    protocol::Connection,
};

/// The student's place in the room.
#[component]
pub fn Room(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let turn = Memo::new(move |_| trainer.turn(draft.may_be_shown()));
    let thing = move || match turn.get() {
        Turn::JoinAgain => view! { <Closed draft trainer/> }.into_any(),
        Turn::Passphrase => view! { <PassphrasePrompt draft trainer/> }.into_any(),
        Turn::ComeBack => view! { <SittingOut trainer/> }.into_any(),
        Turn::Answer { poll } => view! { <Question trainer number=poll/> }.into_any(),
        Turn::Result { poll } => view! { <Outcome trainer number=poll/> }.into_any(),
        Turn::Show => view! { <Offer trainer/> }.into_any(),
        Turn::Watch(scene) => view! { <p class="watch" data-testid="watch">{student::watch(scene)}</p> }.into_any(),
    };
    let heading = NodeRef::<H2>::new();
    // Whoever joins was at the end of a long form.
    Effect::new(move |_| {
        if let Some(heading) = heading.get() {
            // It can only fail for an element that is not on the page.
            let _ = heading.focus();
            window().scroll_to_with_x_and_y(0.0, 0.0);
        }
    });
    view! {
        <h2 class="hidden" tabindex="-1" node_ref=heading>{say::YOUR_PICTURE}</h2>
        <p class="banner" role="status" data-testid="news" hidden=move || trainer.news.with(Option::is_none)>
            {move || trainer.news.get()}
        </p>
        <section class="card mine" aria-label=say::YOUR_PICTURE>
            <OwnPicture draft trainer/>
            <WhoSees draft trainer/>
        </section>
        <section class="card turn" aria-label=say::YOUR_TURN data-testid="turn" data-scene=move || trainer.lesson.with(|lesson| lesson.scene.to_string())>
            {thing}
        </section>
        <section class="card" aria-label=say::CONSENT hidden=move || !draft.has_own_picture()>
            <Consent draft on_change=move |may_show| trainer.consent(may_show)/>
        </section>
        <Details draft trainer/>
        <Leaving trainer/>
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
        <div class="why" role="alert" data-testid="closed">
            <h2>{say::CLOSED}</h2>
            <p>{reason}</p>
        </div>
        <button type="button" class="button accent large" data-testid="join-again" on:click=move |_| draft.join_again(trainer)>
            {say::JOIN_AGAIN}
        </button>
    }
}

/// The way back into the rounds.
#[component]
fn SittingOut(trainer: Trainer) -> impl IntoView {
    view! {
        <div class="why" role="alert" data-testid="sitting-out">
            <h2>{say::SITTING_OUT}</h2>
            <p>{say::SITTING_OUT_WHY}</p>
        </div>
        <button
            type="button"
            class="button accent large"
            data-testid="come-back"
            // What is asked for without a socket would be lost.
            disabled=move || trainer.link() != Link::Online
            on:click=move |_| trainer.come_back()
        >
            {say::COME_BACK}
        </button>
    }
}

/// The offer to show the class one's own picture beside what leaks of it.
#[component]
fn Offer(trainer: Trainer) -> impl IntoView {
    view! {
        <button
            type="button"
            class="button accent large"
            data-testid="show-original"
            aria-describedby="show-hint"
            disabled=move || trainer.link() != Link::Online
            on:click=move |_| trainer.show_original()
        >
            {say::SHOW}
        </button>
        <p class="hint" id="show-hint">{say::SHOW_HINT}</p>
    }
}

/// The ways out of the room: with and without leaving something behind.
#[component]
fn Leaving(trainer: Trainer) -> impl IntoView {
    let is_forgetting = trainer.is_forgetting;
    view! {
        <section class="leaving" aria-label=say::LEAVE>
            <div class="row">
                <button type="button" class="button" data-testid="leave" on:click=move |_| trainer.leave()>
                    {say::LEAVE}
                </button>
                <button
                    type="button"
                    class="button danger"
                    data-testid="forget"
                    aria-describedby="forget-hint"
                    // The room must hear of it.
                    disabled=move || is_forgetting.get() || trainer.link() != Link::Online
                    on:click=move |_| trainer.forget()
                >
                    {move || if is_forgetting.get() { say::FORGETTING } else { say::FORGET }}
                </button>
            </div>
            <p class="hint" id="forget-hint">{say::FORGET_HINT}</p>
        </section>
    }
}

/// What the worker waits for; `draft` keeps it for the next time this tab joins.
#[component]
fn PassphrasePrompt(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let request = trainer.passphrase_request;
    let answer = RwSignal::new(String::new());
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
            <form
                class="field prompt"
                data-testid="passphrase-prompt"
                data-wrong=move || is_wrong().to_string()
                on:submit=move |event| {
                    event.prevent_default();
                    send();
                }
            >
                <h2 role="alert">
                    {move || if is_wrong() { say::WRONG_PASSPHRASE } else { say::LOCKED }}
                </h2>
                <p data-testid="passphrase-reason">{part(request, |request| text::sentence(&request.reason))}</p>
                <label for="passphrase-answer">{say::PASSPHRASE}</label>
                <PassphraseField id="passphrase-answer" value=answer/>
                <p class="hint">{say::PASSPHRASE_HINT}</p>
                <button type="submit" class="button accent" data-testid="passphrase-send" disabled=is_empty>{say::USE_PASSPHRASE}</button>
            </form>
    }
}
