//! What a student sees after joining: one status line, their own picture with what leaks from it and who sees it, and
//! one thing to do. The rest is folded away.

use leptos::{html::H2, prelude::*};
use unmask_data::metrics::Level;
use unmask_lesson::{Beat, Place, Scene};
use unmask_words::say;

use super::{
    careful::{Careful, Warning},
    details::Details,
    draft::JoinDraft,
    farewell::Farewell,
    join::Consent,
    leaks::Leaked,
    poll::{Outcome, Question},
    trainer::Trainer,
};
use crate::{
    page::{
        logic::{
            self, names,
            turn::{self, Beside, Evidence, Link, Turn},
        },
        widgets::{fields::PassphraseField, holds, optional, part, picture::Pixels},
    },
    protocol::{Connection, SentUpdate},
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
        Turn::Farewell => view! { <Farewell trainer/> }.into_any(),
        Turn::Show => view! { <Offer trainer/> }.into_any(),
        Turn::Watch(_) => {
            let watch = move || trainer.lesson.with(|lesson| turn::watch(turn::place(lesson)));
            view! { <p class="watch" data-testid="watch">{watch}</p> }.into_any()
        }
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
        <Warning trainer/>
        <section class="card mine" aria-label=say::room::your_picture()>
            <OwnPicture draft trainer/>
            <WhoSees draft trainer/>
        </section>
        <section class="card turn" aria-label=say::room::your_turn() data-testid="turn" data-scene=move || trainer.lesson.with(|lesson| lesson.scene.to_string())>
            {thing}
        </section>
        <section class="card" aria-label=say::room::consent() hidden=move || !draft.has_own_picture()>
            <Consent draft on_change=move |(may_show, may_lend)| trainer.consent(may_show, may_lend)/>
        </section>
        <Careful trainer/>
        <Details draft trainer/>
        <Leaving trainer/>
    }
}

/// The picture, what the current beat shows beside it, and how much of it is recognisable.
#[component]
fn OwnPicture(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let place = Memo::new(move |_| trainer.lesson.with(turn::place));
    let beside = Memo::new(move |_| Beside::of(place.get()));
    let numbers = move || {
        let drawing = |sent: &SentUpdate| sent.groups.iter().find_map(|group| group.after.clone());
        (beside.get() == Beside::Numbers).then(optional(trainer.sent, drawing)).flatten()
    };
    let is_shared = holds(trainer.training, |training| training.shared.is_some());
    let learns = move || say::room::learns(draft.classes.with(|all| names::class_name(all, draft.label.get().into())));
    // At most two, so that both fit a phone.
    let leaks = [0, 1].map(|picture| {
        Memo::new(move |_| {
            let beat = place.get().beat();
            let methods = beat.attacks().get(picture).filter(|_| beside.get() == Beside::Leak)?;
            if beat == Beat::MoveOwnMask { trainer.tried() } else { trainer.leak(methods) }
        })
    });
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
            {leaks.map(|leak| view! { <Leak place leak/> })}
        </div>
        <p class="sub" data-testid="learns" hidden=move || beside.get() != Beside::Numbers || is_shared()>{learns}</p>
        <Known trainer place leaks/>
    }
}

/// How much of the picture is recognisable in what the current beat shows.
#[component]
fn Known(trainer: Trainer, place: Memo<Place>, leaks: [Memo<Option<Leaked>>; 2]) -> impl IntoView {
    let level = Memo::new(move |_| {
        leaks.iter().filter_map(|leak| leak.with(|leak| leak.as_ref().and_then(|leak| leak.level))).max()
    });
    let is_stuck = holds(trainer.own_attack, |attack| attack.remark.is_some());
    let is_search = |leak: &Memo<Option<Leaked>>| {
        leak.with(|leak| leak.as_ref().is_some_and(|leak| leak.result.attack.is_search()))
    };
    let known = Memo::new(move |_| {
        let evidence = Evidence {
            level: level.get(),
            has_sent: trainer.sent.with(Option::is_some),
            is_unused: trainer.training.with(|training| training.as_ref().is_some_and(|it| it.shared.is_some())),
            is_shown: trainer.is_shown.get(),
            is_stuck: is_stuck(),
            is_searched: place.get().scene == Scene::Patience || leaks.iter().any(is_search),
        };
        turn::known(place.get(), evidence)
    });
    view! {
        <p
            class="known"
            data-testid="known"
            data-level=move || level.get().map(Level::name)
            hidden=move || known.get().is_empty()
        >
            {known}
        </p>
    }
}

/// The picture that an attack reconstructed.
#[component]
fn Leak(place: Memo<Place>, leak: Memo<Option<Leaked>>) -> impl IntoView {
    let result = Memo::new(move |_| leak.with(|leak| leak.as_ref().map(|leak| leak.result.clone())));
    let caption = move || result.with(|result| result.as_ref().map(|it| turn::leaked(it.attack, place.get().beat())));
    let is_there = move || result.with(|result| result.as_ref().is_some_and(|result| result.picture.is_some()));
    view! {
        <figure
            data-testid="leak"
            data-by=move || leak.with(|leak| leak.as_ref().map(|leak| if leak.is_by_tab { "tab" } else { "relay" }))
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
    let who = move || turn::who_sees(draft.has_own_picture(), draft.may_be_shown(), trainer.given());
    let is_exposed = holds(trainer.training, |training| training.is_exposed);
    let is_summed = holds(trainer.training, |training| training.is_summed);
    let withdraw = move |_| {
        trainer.hide_original();
        // This also withdraws what leaks from the student's own photograph; samples are public.
        if draft.has_own_picture() {
            draft.agree(false, false);
            trainer.consent(false, false);
        }
    };
    view! {
        <p data-testid="who-sees">{who}</p>
        <p data-testid="summed" hidden=move || !is_summed()>{say::room::summed()}</p>
        <p data-testid="exposed" hidden=move || !is_exposed()>{say::room::exposed()}</p>
        <button
            type="button"
            class="button danger large"
            data-testid="hide-original"
            hidden=move || !trainer.is_given()
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
        Connection::Closed { reason } => Some(turn::closed(reason)),
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
                    <h2>{move || if is_wrong() { say::room::wrong_passphrase() } else { say::room::needs_passphrase() }}</h2>
                </div>
                <p data-testid="passphrase-reason">{part(request, |request| logic::sentence(&request.reason))}</p>
                <label for="passphrase-answer">{say::room::passphrase()}</label>
                <PassphraseField id="passphrase-answer" value=answer/>
                <p class="hint">{say::room::passphrase_hint()}</p>
                <button type="submit" class="button accent" data-testid="passphrase-send" disabled=is_empty>{say::room::use_passphrase()}</button>
            </form>
    }
}
