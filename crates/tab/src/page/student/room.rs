//! What a student sees after joining: one status line, their own picture with what leaks from it and who sees it, and
//! one thing to do. The rest is folded away.

use leptos::{html::H2, prelude::*};
use unmask_data::metrics::Level;
use unmask_lesson::Scene;
use unmask_words::say;

use super::{
    details::Details,
    draft::JoinDraft,
    join::Consent,
    poll::{Outcome, Question},
    trainer::Trainer,
};
use crate::{
    page::{
        logic::{
            self,
            turn::{self, Beside, Link, Turn},
        },
        widgets::{fields::PassphraseField, holds, optional, part, picture::Pixels},
    },
    protocol::{Connection, Reconstruction, SentUpdate},
};

#[component]
pub fn Room(
    draft: JoinDraft,
    trainer: Trainer,
    /// Whether this page has shown the room since joining: a change of language rebuilds it.
    has_arrived: StoredValue<bool>,
) -> impl IntoView {
    let turn = Memo::new(move |_| trainer.turn(draft.may_be_shown()));
    let thing = move || match turn.get() {
        Turn::JoinAgain => view! { <Closed draft trainer/> }.into_any(),
        Turn::Passphrase => view! { <PassphrasePrompt draft trainer/> }.into_any(),
        Turn::ComeBack => view! { <SittingOut trainer/> }.into_any(),
        Turn::Answer { poll } => view! { <Question trainer number=poll/> }.into_any(),
        Turn::Result { poll } => view! { <Outcome trainer number=poll/> }.into_any(),
        Turn::Show => view! { <Offer trainer/> }.into_any(),
        Turn::Watch(scene) => view! { <p class="watch" data-testid="watch">{turn::watch(scene)}</p> }.into_any(),
    };
    let heading = NodeRef::<H2>::new();
    // Joining leaves the student at the end of a long form, whereas a change of language does not move them.
    let is_moved = !has_arrived.get_value();
    has_arrived.set_value(true);
    Effect::new(move |_| {
        if let Some(heading) = heading.get().filter(|_| is_moved) {
            // This fails only for an element that is not on the page.
            let _ = heading.focus();
            window().scroll_to_with_x_and_y(0.0, 0.0);
        }
    });
    view! {
        <h2 class="hidden" tabindex="-1" node_ref=heading>{say::room::your_picture()}</h2>
        <p class="banner" role="status" data-testid="news" hidden=move || trainer.news.with(Option::is_none)>
            {part(trainer.news, logic::notice)}
        </p>
        <section class="card mine" aria-label=say::room::your_picture()>
            <OwnPicture draft trainer/>
            <WhoSees draft trainer/>
        </section>
        <section class="card turn" aria-label=say::room::your_turn() data-testid="turn" data-scene=move || trainer.lesson.with(|lesson| lesson.scene.to_string())>
            {thing}
        </section>
        <section class="card" aria-label=say::room::consent() hidden=move || !draft.has_own_picture()>
            <Consent draft on_change=move |may_show| trainer.consent(may_show)/>
        </section>
        <Details draft trainer/>
        <Leaving trainer/>
    }
}

/// The picture, what the current scene shows beside it, and how much of it is recognisable.
#[component]
fn OwnPicture(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let scene = Memo::new(move |_| trainer.lesson.with(|lesson| lesson.scene));
    let beside = Memo::new(move |_| Beside::of(scene.get()));
    let is_leak = move || beside.get() == Beside::Leak;
    let own_attack = move |place: usize| {
        trainer.own_attack.with(|attack| attack.as_ref().and_then(|attack| attack.reconstructions.get(place).cloned()))
    };
    // Reconstructions of public pictures do not matter here.
    let private = |result: &Reconstruction| result.comparison.as_ref().is_none_or(|comparison| comparison.is_private);
    let closest = Memo::new(move |_| is_leak().then(|| own_attack(0)).flatten().filter(private));
    // The scene that compares attackers shows two.
    let other = Memo::new(move |_| (scene.get() == Scene::Attackers).then(|| own_attack(1)).flatten().filter(private));
    let by_relay = Memo::new(move |_| {
        let closest = is_leak().then(|| trainer.closest()).flatten()?;
        trainer.attack(closest).filter(private)
    });
    let numbers = move || {
        let drawing = |sent: &SentUpdate| sent.groups.iter().find_map(|group| group.after.clone());
        (beside.get() == Beside::Numbers).then(optional(trainer.sent, drawing)).flatten()
    };
    view! {
        <div class="own-pictures">
            <figure>
                <Pixels
                    picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                    label=say::room::your_picture()
                />
                <figcaption>{say::room::your_picture()}</figcaption>
            </figure>
            <figure hidden=move || numbers().is_none()>
                <Pixels picture=Signal::derive(numbers) label=say::room::numbers() class="update"/>
                <figcaption>{say::room::numbers()}</figcaption>
            </figure>
            <Leak scene result=closest is_own_attack=true/>
            <Leak scene result=other is_own_attack=true/>
            <Leak scene result=by_relay is_own_attack=false/>
        </div>
        <Known trainer scene beside closest by_relay/>
    }
}

/// How much of the picture is recognisable in the closest results of this tab's attack and of the relay's.
#[component]
fn Known(
    trainer: Trainer,
    scene: Memo<Scene>,
    beside: Memo<Beside>,
    closest: Memo<Option<Reconstruction>>,
    by_relay: Memo<Option<Reconstruction>>,
) -> impl IntoView {
    let ssim =
        |result: Memo<Option<Reconstruction>>| result.with(|result| Some(result.as_ref()?.comparison.as_ref()?.ssim));
    // Single rounds vary. This tab's own attack has several rounds to take the median of.
    let level = Memo::new(move |_| {
        let own = trainer.recent.with(|recent| Level::of(recent)).filter(|_| closest.with(Option::is_some));
        let relay = ssim(by_relay).and_then(|ssim| Level::of(&[ssim]));
        own.max(relay)
    });
    let is_stuck = holds(trainer.own_attack, |attack| attack.remark.is_some());
    let is_searched = move || {
        scene.get() == Scene::Patience || by_relay.with(|it| it.as_ref().is_some_and(|it| it.attack.is_search()))
    };
    let known = move || {
        trainer.training.with(|training| turn::known(level.get(), training.as_ref(), is_stuck(), is_searched()))
    };
    view! {
        <p
            class="known"
            data-testid="known"
            data-level=move || level.get().map(Level::name)
            hidden=move || beside.get() == Beside::Nothing
        >
            {known}
        </p>
    }
}

/// The picture that an attack reconstructed.
#[component]
fn Leak(scene: Memo<Scene>, result: Memo<Option<Reconstruction>>, is_own_attack: bool) -> impl IntoView {
    let caption = move || match scene.get() {
        Scene::Attackers if is_own_attack => part(result, |result| turn::attacker(result.attack))(),
        _ => Some(turn::leaked(is_own_attack)),
    };
    let is_there = move || result.with(|result| result.as_ref().is_some_and(|result| result.picture.is_some()));
    view! {
        <figure
            data-testid="leak"
            data-by=if is_own_attack { "tab" } else { "relay" }
            data-attack=part(result, |result| result.attack.name())
            data-round=part(result, |result| result.round)
            data-ssim=optional(result, |result| Some(result.comparison.as_ref()?.ssim.to_string()))
            hidden=move || !is_there()
        >
            <Pixels
                picture=Signal::derive(optional(result, |result| result.picture.clone()))
                label=say::room::leak()
                class="photo"
            />
            <figcaption>{caption}</figcaption>
        </figure>
    }
}

/// Who sees what, and buttons to withdraw what the class sees.
#[component]
fn WhoSees(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let who = move || turn::who_sees(draft.has_own_picture(), draft.may_be_shown(), trainer.is_shown.get());
    let withdraw = move |_| {
        trainer.hide_original();
        // This also withdraws what leaks from the student's own photograph; samples are public.
        if draft.has_own_picture() {
            draft.may_show.set(false);
            trainer.consent(false);
        }
    };
    view! {
        <p data-testid="who-sees">{who}</p>
        <button
            type="button"
            class="button danger large"
            data-testid="hide-original"
            hidden=move || !trainer.is_shown.get()
            on:click=withdraw
        >
            {say::room::hide()}
        </button>
    }
}

/// Why the connection was closed for good, and a button to rejoin for those who may.
#[component]
fn Closed(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let reason = optional(trainer.connection, |connection| match connection {
        Connection::Closed { reason } => Some(logic::sentence(reason)),
        _ => None,
    });
    view! {
        <div class="why" role="alert" data-testid="closed">
            <h2>{say::room::closed()}</h2>
            <p>{reason}</p>
        </div>
        <button type="button" class="button accent large" data-testid="join-again" on:click=move |_| draft.join_again(trainer)>
            {say::room::join_again()}
        </button>
    }
}

/// The button that returns a client to the rounds.
#[component]
fn SittingOut(trainer: Trainer) -> impl IntoView {
    view! {
        <div class="why" role="alert" data-testid="sitting-out">
            <h2>{say::room::sitting_out()}</h2>
            <p>{say::room::sitting_out_why()}</p>
        </div>
        <button
            type="button"
            class="button accent large"
            data-testid="come-back"
            // Without a socket the request would be lost.
            disabled=move || trainer.link() != Link::Online
            on:click=move |_| trainer.come_back()
        >
            {say::room::come_back()}
        </button>
    }
}

/// Offers to show the class the student's own picture beside what leaks from it.
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
            {say::room::show()}
        </button>
        <p class="hint" id="show-hint">{say::room::show_hint()}</p>
    }
}

/// Ways to leave the room, with or without leaving data behind.
#[component]
fn Leaving(trainer: Trainer) -> impl IntoView {
    let is_forgetting = trainer.is_forgetting;
    view! {
        <section class="leaving" aria-label=say::room::leave()>
            <div class="row">
                <button type="button" class="button" data-testid="leave" on:click=move |_| trainer.leave()>
                    {say::room::leave()}
                </button>
                <button
                    type="button"
                    class="button danger"
                    data-testid="forget"
                    aria-describedby="forget-hint"
                    // The request must reach the room.
                    disabled=move || is_forgetting.get() || trainer.link() != Link::Online
                    on:click=move |_| trainer.forget()
                >
                    {move || if is_forgetting.get() { say::room::forgetting() } else { say::room::forget() }}
                </button>
            </div>
            <p class="hint" id="forget-hint">{say::room::forget_hint()}</p>
        </section>
    }
}

/// Asks for the passphrase that the worker waits for; `draft` keeps it for the next join.
#[component]
fn PassphrasePrompt(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let request = trainer.passphrase_request;
    let answer = trainer.typed_passphrase;
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
                <div role="alert">
                    <h2>{move || if is_wrong() { say::room::wrong_passphrase() } else { say::room::locked() }}</h2>
                </div>
                <p data-testid="passphrase-reason">{part(request, |request| logic::sentence(&request.reason))}</p>
                <label for="passphrase-answer">{say::room::passphrase()}</label>
                <PassphraseField id="passphrase-answer" value=answer/>
                <p class="hint">{say::room::passphrase_hint()}</p>
                <button type="submit" class="button accent" data-testid="passphrase-send" disabled=is_empty>{say::room::use_passphrase()}</button>
            </form>
    }
}
