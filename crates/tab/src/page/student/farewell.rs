//! The end of the lesson: what an attack saw at most, and how often the student was right.

use leptos::prelude::*;
use unmask_words::say;

use super::trainer::Trainer;
use crate::page::widgets::{optional, picture::Pixels};

#[component]
pub fn Farewell(trainer: Trainer) -> impl IntoView {
    let remembered = trainer.remembered;
    let closest = Memo::new(move |_| remembered.with(|remembered| remembered.closest.clone()));
    let score = move || {
        let (right, judged) = remembered.with(|remembered| (remembered.right, remembered.judged));
        (judged > 0).then(|| say::farewell::score(right, judged))
    };
    view! {
        <h2 data-testid="farewell">{say::farewell::thanks()}</h2>
        <p class="verdict-line" data-testid="farewell-score" hidden=move || score().is_none()>{score}</p>
        <figure class="farewell" hidden=move || closest.with(Option::is_none)>
            <Pixels
                picture=Signal::derive(optional(closest, |closest| closest.picture.clone()))
                label=say::farewell::closest()
                class="photo"
            />
            <figcaption>{say::farewell::closest()}</figcaption>
        </figure>
        <p>{say::watch::debrief()}</p>
    }
}
