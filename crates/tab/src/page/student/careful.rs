//! What this device found in the room's weights, what it does about such rounds, and the round's published list.

use leptos::prelude::*;
use unmask_words::say;

use super::trainer::Trainer;
use crate::page::{
    logic::careful,
    widgets::{holds, optional, part},
};

/// A calm line about the last round whose weights look doctored, until a round comes whose weights do not.
#[component]
pub fn Warning(trainer: Trainer) -> impl IntoView {
    let found = trainer.found;
    let is_doctored = move || trainer.lesson.with(|lesson| lesson.is_doctored);
    view! {
        <p class="banner" role="status" data-testid="doctored" hidden=move || !is_doctored()>{say::careful::doctored()}</p>
        <p
            class="banner"
            role="status"
            data-testid="doubts"
            data-round=part(found, |found| found.round)
            data-refused=part(found, |found| found.is_refused.to_string())
            hidden=move || found.with(Option::is_none)
        >
            {part(found, careful::found)}
        </p>
    }
}

/// The switch, what to do about rounds that look doctored, and the four words of the last list.
#[component]
pub fn Careful(trainer: Trainer) -> impl IntoView {
    let choice = move || trainer.choice();
    let is_asked = move || choice().is_asked;
    let is_careful = move || choice().is_careful();
    let answer = move |trains_anyway: bool, testid: &'static str, words: fn() -> &'static str| {
        view! {
            <label class="choice">
                <input
                    type="radio"
                    name="careful"
                    data-testid=testid
                    prop:checked=move || choice().trains_anyway == trains_anyway
                    on:change=move |_| trainer.train_anyway(trains_anyway)
                />
                <span>{move || words()}</span>
            </label>
        }
    };
    view! {
        <section class="card consent" aria-label=say::careful::title() data-testid="careful">
            <h2>{say::careful::title()}</h2>
            <label class="choice">
                <input
                    type="checkbox"
                    data-testid="be-careful"
                    prop:checked=is_careful
                    disabled=is_asked
                    on:change=move |event| trainer.be_careful(event_target_checked(&event))
                />
                <span>{say::careful::switch()}</span>
            </label>
            <p class="hint">{move || if is_asked() { say::careful::asked() } else { say::careful::hint() }}</p>
            <div role="radiogroup" aria-label=say::careful::what() hidden=move || !is_careful()>
                {answer(false, "refuse", say::careful::refuse)}
                {answer(true, "train-anyway", say::careful::anyway)}
            </div>
            <Listed trainer/>
        </section>
    }
}

/// The published list of the last round, which people compare with the wall and with each other.
#[component]
fn Listed(trainer: Trainer) -> impl IntoView {
    let listed = trainer.listed;
    let is_missing = holds(listed, |listed| listed.is_in == Some(false));
    view! {
        <div hidden=move || listed.with(Option::is_none)>
            <p>{part(listed, |listed| say::careful::list(listed.round, listed.updates))}</p>
            <p
                class="figure"
                lang="en"
                translate="no"
                data-testid="four-words"
                data-round=part(listed, |listed| listed.round)
                title=part(listed, |listed| listed.root.clone())
                hidden=move || optional(listed, |listed| listed.words.clone())().is_none()
            >
                {optional(listed, |listed| listed.words.clone())}
            </p>
            <p
                data-testid="own-listed"
                data-listed=optional(listed, |listed| listed.is_in.map(|is_in| is_in.to_string()))
                class:problem=is_missing
                hidden=move || optional(listed, careful::own)().is_none()
            >
                {optional(listed, careful::own)}
            </p>
            <p class="hint">{say::careful::compare()}</p>
        </div>
    }
}
