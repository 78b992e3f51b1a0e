//! The end of the lesson: the student's own answers, and what an attack saw at most.

use leptos::prelude::*;
use unmask_lesson::Question;
use unmask_words::say;

use super::trainer::Trainer;
use crate::page::{
    logic::remembered::Answered,
    widgets::{optional, picture::Pixels},
};

#[component]
pub fn Farewell(trainer: Trainer) -> impl IntoView {
    let remembered = trainer.remembered;
    let closest = Memo::new(move |_| remembered.with(|remembered| remembered.closest.clone()));
    let score = move || {
        let (right, judged) = remembered.with(|remembered| remembered.score());
        (judged > 0).then(|| say::farewell::score(right, judged))
    };
    let answers = Memo::new(move |_| remembered.with(|remembered| remembered.answers.clone()));
    let answer = |Answered { poll, place, own, .. }: Answered| {
        // Its answer was the lesson.
        let verdict = match poll.question {
            Question::Numbers => say::vote::said(unmask_words::answer(&poll, own)),
            _ => unmask_words::verdict(&poll, place, Some(own)),
        };
        view! { <li>{unmask_words::question(poll.question)} " " <b>{verdict}</b></li> }
    };
    view! {
        <h2 data-testid="farewell">{say::farewell::thanks()}</h2>
        <p class="verdict-line" data-testid="farewell-score" hidden=move || score().is_none()>{score}</p>
        <ol class="own-answers" data-testid="own-answers" hidden=move || answers.with(Vec::is_empty)>
            {move || answers.get().into_iter().map(answer).collect_view()}
        </ol>
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
