//! Another student's masked numbers, which this student attacks.

use leptos::prelude::*;
use unmask_words::say;

use super::trainer::Trainer;
use crate::{
    page::{
        logic::{loan::Borrowed, turn::Link},
        widgets::{optional, picture::Pixels},
    },
    protocol::Rgba,
};

/// The pictures that the attacks made, and a button for the gaps while the student may still guess.
#[component]
pub fn Loan(trainer: Trainer, number: u32) -> impl IntoView {
    let of_question = move |borrowed: &Borrowed| borrowed.poll == number;
    let borrowed = Memo::new(move |_| trainer.borrowed.get().filter(of_question));
    let blind = Memo::new(move |_| borrowed.with(|it| it.as_ref()?.blind().cloned()));
    let aware = Memo::new(move |_| borrowed.with(|it| it.as_ref()?.aware().cloned()));
    let is_open = move || trainer.lesson.with(|lesson| lesson.poll.as_ref().is_some_and(|poll| poll.is_open));
    let nothing = move || if is_open() { say::contest::waiting() } else { say::contest::nothing_lent() };
    let note = move || borrowed.with(|it| it.as_ref().map_or_else(|| nothing().to_owned(), Borrowed::note));
    let is_offered = move || borrowed.with(|it| it.as_ref().is_some_and(Borrowed::may_ask));
    let figure = move |picture: Memo<Option<Rgba>>, testid, caption: fn() -> &'static str| {
        view! {
            <figure data-testid=testid hidden=move || picture.with(Option::is_none)>
                <Pixels picture=Signal::derive(optional(picture, |it| Some(it.clone()))) label=say::contest::leak() class="photo"/>
                <figcaption>{caption()}</figcaption>
            </figure>
        }
    };
    view! {
        <div class="own-pictures loan" data-testid="loan">
            {figure(blind, "loan-blind", say::leak::zeros)}
            {figure(aware, "loan-aware", say::leak::aware)}
        </div>
        <p class="sub" role="status" data-testid="loan-note" hidden=move || note().is_empty()>{note}</p>
        <div hidden=move || !is_offered()>
            <p class="hint">{say::contest::points_hint()}</p>
            <button
                type="button"
                class="button large"
                data-testid="know-gaps"
                disabled=move || trainer.link() != Link::Online
                on:click=move |_| trainer.know_gaps(number)
            >
                {say::contest::know_gaps()}
            </button>
        </div>
    }
}
