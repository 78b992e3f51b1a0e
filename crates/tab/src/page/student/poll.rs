//! The class's question: the student's answer while it is open, the class's answers once it is closed.

use std::time::Duration;

use leptos::prelude::*;
use unmask_lesson::{Answers, Poll, Question as Asked};
use unmask_wire::PollState;
use unmask_words::say;

use super::{loan::Loan, trainer::Trainer};
use crate::page::logic::{
    loan,
    turn::{self, Link},
    votes::{self, Tally},
};

fn asked(trainer: Trainer) -> Memo<Option<PollState>> {
    Memo::new(move |_| trainer.lesson.with(|lesson| lesson.poll.clone()))
}

/// Asks the question of this number. The answer can be changed until the question is closed.
#[component]
pub fn Question(trainer: Trainer, number: u32) -> impl IntoView {
    let asked = asked(trainer);
    let poll = asked.get_untracked().filter(|poll| poll.number == number);
    poll.map(|PollState { poll, .. }| {
        let question = unmask_words::question(poll.question);
        let body = match poll.answers() {
            Answers::Choice { count } => {
                // A suspect can get another name, or none, while the question is open.
                let names = Memo::new(move |_| {
                    let name = |vote| asked.with(|it| it.as_ref().map(|it| unmask_words::answer(&it.poll, vote)));
                    (0..count).filter_map(name).collect::<Vec<_>>()
                });
                view! { <Choices trainer number names/> }.into_any()
            }
            Answers::Number { least, most, .. } => {
                if poll.question.is_live() {
                    view! { <OwnRate trainer number least most poll=poll.clone()/> }.into_any()
                } else {
                    view! { <Guess trainer number least most poll=poll.clone()/> }.into_any()
                }
            }
        };
        let is_loan = poll.question == Asked::WhoseUpdate;
        let can_answer = move || !is_loan || trainer.borrowed.with(|it| it.as_ref().is_some_and(|it| it.can_guess()));
        let voted = move || trainer.answered(number).map(|vote| votes::voted(&poll, vote));
        view! {
            <h2 id="question" data-testid="question">{question}</h2>
            {is_loan.then(|| view! { <Loan trainer number/> })}
            <div hidden=move || !can_answer()>{body}</div>
            <p class="sub" role="status" data-testid="voted">{voted}</p>
        }
    })
}

/// Whether an answer would be lost now.
fn is_offline(trainer: Trainer) -> bool {
    trainer.link() != Link::Online
}

#[component]
fn Choices(trainer: Trainer, number: u32, names: Memo<Vec<String>>) -> impl IntoView {
    let button = move |(place, name): (usize, String)| {
        let vote = place as u16;
        view! {
            <button
                type="button"
                class="button answer"
                data-testid="answer"
                data-answer=vote
                aria-pressed=move || (trainer.answered(number) == Some(vote)).to_string()
                disabled=move || is_offline(trainer)
                on:click=move |_| trainer.answer(number, vote)
            >
                {name}
            </button>
        }
    };
    view! {
        <div class="answers" role="group" aria-labelledby="question">
            {move || names.get().into_iter().enumerate().map(button).collect_view()}
        </div>
    }
}

/// The time between two answers of a moving thumb, so that it does not flood the room.
const PACE: Duration = Duration::from_millis(250);

/// A slider for the mask of the student's own update. The picture above follows it, and so does the wall.
#[component]
fn OwnRate(trainer: Trainer, number: u32, least: u16, most: u16, poll: Poll) -> impl IntoView {
    let chosen = move || trainer.chosen(number).unwrap_or(least);
    // Each new update shows the picture again, at the same rate.
    Effect::new(move |_| {
        trainer.sent.track();
        trainer.try_mask(u8::try_from(chosen()).unwrap_or(u8::MAX));
    });
    // The wall follows a moving thumb, a few times a second.
    let is_due = StoredValue::new(false);
    let tell = move || {
        // The question may be gone by now.
        if is_due.try_set_value(false).is_some() {
            return;
        }
        let rate = untrack(|| trainer.chosen(number).filter(|_| !is_offline(trainer)));
        if let Some(rate) = rate {
            trainer.answer(number, rate);
        }
    };
    Effect::new(move |_| {
        let rate = trainer.chosen(number);
        let is_news = rate.is_some() && untrack(|| trainer.answered(number)) != rate;
        if is_news && !is_due.get_value() {
            is_due.set_value(true);
            set_timeout(tell, PACE);
        }
    });
    view! { <div class="guess-form"><Slider trainer number least most poll first=least/></div> }
}

/// A slider and a button that sends the choice.
#[component]
fn Guess(trainer: Trainer, number: u32, least: u16, most: u16, poll: Poll) -> impl IntoView {
    let middle = least + most.saturating_sub(least) / 2;
    let guess = move || trainer.chosen(number).unwrap_or(middle);
    view! {
        <div class="guess-form">
            <Slider trainer number least most poll first=middle/>
            <button
                type="button"
                class="button accent large"
                data-testid="guess-send"
                disabled=move || is_offline(trainer)
                on:click=move |_| trainer.answer(number, untrack(guess))
            >
                {say::room::send()}
            </button>
        </div>
    }
}

/// A slider with buttons for one more and one less, and the number it stands at.
#[component]
fn Slider(
    trainer: Trainer,
    number: u32,
    least: u16,
    most: u16,
    poll: Poll,
    /// Where it stands before the student moves it.
    first: u16,
) -> impl IntoView {
    let guess = move || trainer.chosen(number).unwrap_or(first);
    let step = move |by: i32| {
        let next = (i32::from(untrack(guess)) + by).clamp(least.into(), most.into());
        trainer.choose(number, u16::try_from(next).unwrap_or(least));
    };
    let words = Signal::derive(move || unmask_words::answer(&poll, guess()));
    view! {
            <output class="verdict-line" for="guess" data-testid="guess">{words}</output>
            <div class="guess-row">
                <button type="button" class="button" aria-label=say::room::less() data-testid="guess-less" on:click=move |_| step(-1)>
                    "−"
                </button>
                <input
                    id="guess"
                    type="range"
                    min=least
                    max=most
                    step="1"
                    aria-labelledby="question"
                    aria-valuetext=words
                    data-testid="guess-slider"
                    prop:value=move || guess().to_string()
                    on:input=move |event| {
                        if let Ok(chosen) = event_target_value(&event).parse() {
                            trainer.choose(number, chosen);
                        }
                    }
                />
                <button type="button" class="button" aria-label=say::room::more() data-testid="guess-more" on:click=move |_| step(1)>
                    "+"
                </button>
            </div>
    }
}

/// The result of this question: the student's answer, the correct one, and the votes for each.
#[component]
pub fn Outcome(trainer: Trainer, number: u32) -> impl IntoView {
    let poll = asked(trainer);
    let own = move || trainer.answered(number);
    let of = move |words: fn(&PollState, Option<u16>) -> String| {
        poll.with(|poll| poll.as_ref().map(|poll| words(poll, own())))
    };
    let place = move || trainer.lesson.with(turn::place);
    let is_loan = move || poll.with(|it| it.as_ref().is_some_and(|it| it.poll.question == Asked::WhoseUpdate));
    let verdict = move || {
        let score = trainer.borrowed.with(|borrowed| borrowed.as_ref().and_then(|it| it.score));
        poll.with(|poll| {
            let poll = &poll.as_ref()?.poll;
            let scored = score.map(|score| loan::verdict(poll, own(), score));
            Some(scored.unwrap_or_else(|| unmask_words::verdict(poll, place(), own())))
        })
    };
    let row = |tally: Tally| {
        let width = format!("width:{:.1}%", tally.share * 100.0);
        view! {
            <li
                class:right=tally.is_right
                class:own=tally.is_own
                data-testid="tally"
                data-votes=tally.votes
                data-own=tally.is_own.to_string()
                data-right=tally.is_right.to_string()
            >
                <span>
                    {tally.is_right.then_some("✓ ")} {tally.name}
                    {tally.is_own.then(|| view! { <b class="tag">{say::room::your_answer()}</b> })}
                </span>
                <span class="sub">{say::vote::count(tally.votes)}</span>
                <span class="meter" aria-hidden="true"><span class="meter-fill" style=width></span></span>
            </li>
        }
    };
    let rows = move || poll.with(|poll| poll.as_ref().map(|poll| votes::tallies(poll, own()))).unwrap_or_default();
    view! {
        <h2 data-testid="question">{move || of(|asked, _| unmask_words::question(asked.poll.question).to_owned())}</h2>
        <p class="verdict-line" role="status" data-testid="judged">{verdict}</p>
        <Show when=is_loan>
            <Loan trainer number/>
        </Show>
        // Each phone had another answer.
        <ul class="tallies" hidden=is_loan>{move || rows().into_iter().map(row).collect_view()}</ul>
    }
}
