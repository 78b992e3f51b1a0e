//! The class's question on the wall: how many have voted, then the votes and the answer.

use leptos::prelude::*;
use unmask_lesson::Question;
use unmask_words::say;

use super::parts::Stage;
use crate::page::logic::votes::{self, VoteBar};

/// The votes for one answer: people's, and in grey those of robots.
fn meter(VoteBar { name, people, robots }: VoteBar, highest: u32) -> impl IntoView {
    let share = move |votes: u32| format!("width:{:.1}%", f64::from(votes) * 100.0 / f64::from(highest));
    view! {
        <li data-testid="votes" data-answer=name.clone() data-count=people data-robots=robots>
            <span>{name.clone()}</span>
            <span class="meter" aria-hidden="true">
                <span class="meter-fill" style=share(people)></span>
                <span class="meter-fill of-robots" style=share(robots)></span>
            </span>
            <b>{people}</b>
        </li>
    }
}

/// The question with the number of votes; once it is closed, the votes and the answer.
#[component]
pub fn Votes(stage: Stage) -> impl IntoView {
    let poll = stage.feed.optional(|room| room.lesson.poll.clone());
    let is_closed = Memo::new(move |_| poll.with(|poll| poll.as_ref().is_some_and(|poll| !poll.is_open)));
    let voters = move || poll.with(|poll| poll.as_ref().map_or(0, |poll| poll.voters));
    let bars = move || poll.with(|poll| poll.as_ref().map(votes::vote_bars).unwrap_or_default());
    let rows = move || {
        let bars = bars();
        let highest = bars.iter().map(|bar| bar.people + bar.robots).max().unwrap_or(0).max(1);
        bars.into_iter().map(|bar| meter(bar, highest)).collect_view()
    };
    let has_robots = move || is_closed.get() && bars().iter().any(|bar| bar.robots > 0);
    view! {
        <section class="vote" data-testid="poll" data-open=move || poll.with(|poll| poll.as_ref().map(|poll| poll.is_open.to_string())) hidden=move || poll.with(Option::is_none)>
            <h2>{move || poll.with(|poll| poll.as_ref().map(|asked| unmask_words::question(asked.poll.question)))}</h2>
            <p class="vote-count" hidden=move || is_closed.get()>
                <b data-testid="voters">{voters}</b>
                " " {move || say::vote::unit(voters())}
            </p>
            <ul hidden=move || !is_closed.get()>{rows}</ul>
            <p class="vote-robots" hidden=move || !has_robots()>{say::vote::robots()}</p>
            <Told stage/>
        </section>
    }
}

/// The answer to the question, once the lesson tells it.
#[component]
fn Told(stage: Stage) -> impl IntoView {
    let told = Memo::new(move |_| {
        let poll = stage.feed.room.with(|room| room.as_ref()?.lesson.poll.clone()).filter(|poll| !poll.is_open)?;
        let told = unmask_words::told(&poll.poll, stage.place.get())?;
        let closest = || say::patience::closest(unmask_words::answer(&poll.poll, votes::closest_guess(&poll)?)).into();
        let closest: Option<String> = (poll.poll.question == Question::Seconds).then(closest).flatten();
        Some([Some(told), closest].into_iter().flatten().collect::<Vec<_>>())
    });
    view! {
        <p class="vote-truth" role="status" data-testid="told" hidden=move || told.with(Option::is_none)>
            {move || told.get().unwrap_or_default().into_iter().map(|line| view! { <span>{line}</span> " " }).collect_view()}
        </p>
    }
}

/// The question in one line, for scenes whose pictures need the width: the number of votes, then votes and answer.
#[component]
pub fn VoteLine(stage: Stage) -> impl IntoView {
    let poll = stage.feed.optional(|room| room.lesson.poll.clone());
    let question = move || poll.with(|poll| poll.as_ref().map(|asked| unmask_words::question(asked.poll.question)));
    let votes = move || {
        poll.with(|poll| {
            let poll = poll.as_ref()?;
            if poll.is_open {
                return Some(say::vote::count(poll.voters));
            }
            let bars = votes::vote_bars(poll);
            let has_people = !poll.votes.is_empty();
            let count = |bar: &VoteBar| format!("{} {}", bar.name, if has_people { bar.people } else { bar.robots });
            let counts = bars.iter().map(count).collect::<Vec<_>>().join(" · ");
            Some(if has_people || poll.robots.is_empty() {
                counts
            } else {
                format!("{counts} ({})", say::vote::only_robots())
            })
        })
    };
    view! {
        <section class="vote-line" data-testid="poll" data-open=move || poll.with(|poll| poll.as_ref().map(|poll| poll.is_open.to_string())) hidden=move || poll.with(Option::is_none)>
            <h2>{question}</h2>
            <p data-testid="vote-counts">{votes}</p>
            <Told stage/>
        </section>
    }
}
