//! The pictures that the class chooses from.

use leptos::prelude::*;
use unmask_lesson::Question;
use unmask_wire::view::{PollView, RoomView};
use unmask_words::say;

use super::parts::Stage;
use crate::page::logic::votes::vote_bars;

#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    name: String,
    picture: Option<String>,
    /// The votes of people and of robots, once the question is closed.
    votes: Option<(u32, u32)>,
    is_right: bool,
}

/// The class's question about pictures, if it was asked. A scene may have another question before it.
pub fn asked(room: &RoomView) -> Option<&PollView> {
    room.lesson.poll.as_ref().filter(|asked| asked.poll.question.asks_whose())
}

/// The suspects of the class's question, or those that it would have now.
pub fn suspects(room: &RoomView, coming: impl Fn(&RoomView) -> Vec<unmask_lesson::Suspect>) -> Vec<Suspect> {
    let asked = asked(room);
    let suspects = asked.map_or_else(|| coming(room), |asked| asked.poll.suspects.clone());
    // Where each phone has its own answer, the votes for one say nothing.
    let is_counted = |asked: &&PollView| !asked.is_open && asked.poll.question != Question::WhoseUpdate;
    let bars = asked.filter(is_counted).map(vote_bars);
    let shown = |(place, suspect): (usize, &unmask_lesson::Suspect)| {
        let client = room.clients.iter().find(|client| client.id == suspect.client);
        Suspect {
            name: unmask_words::suspect(place, suspect),
            picture: client.and_then(|client| client.original.clone()).map(String::from),
            votes: bars.as_ref().and_then(|bars| bars.get(place)).map(|bar| (bar.people, bar.robots)),
            is_right: match asked {
                Some(asked) => asked.poll.correct.map(usize::from) == Some(place),
                None => Some(suspect.client) == room.target,
            },
        }
    };
    suspects.iter().enumerate().map(shown).collect()
}

/// Their pictures with letters and names, the votes, and a note below.
#[component]
pub fn Suspects(
    stage: Stage,
    suspects: Memo<Vec<Suspect>>,
    /// Whether the wall says which one is right.
    #[prop(into)]
    is_told: Signal<bool>,
    /// How many have voted, in words.
    voted: fn(u32) -> String,
    /// Why there is nothing to vote on.
    too_few: fn() -> &'static str,
) -> impl IntoView {
    let suspect = move |Suspect { name, picture, votes, is_right }: Suspect| {
        view! {
            <figure class="suspect" data-testid="suspect" data-right=move || is_told.get().then(|| is_right.to_string()) class:right=move || is_told.get() && is_right>
                {match picture {
                    Some(picture) => view! { <img src=picture alt=name.clone()/> }.into_any(),
                    None => view! { <p class="shot-empty">{say::empty::not_shown()}</p> }.into_any(),
                }}
                <figcaption>
                    <span class="suspect-name">{move || if is_told.get() && is_right { "✓ " } else { "" }} {name}</span>
                    {votes.map(|(people, robots)| view! {
                        <span class="suspect-counts">
                            {(robots > 0).then(|| view! { <span class="suspect-votes of-robots" title=say::vote::robots() data-testid="robot-votes">{robots}</span> })}
                            <b class="suspect-votes" data-testid="suspect-votes">{people}</b>
                        </span>
                    })}
                </figcaption>
            </figure>
        }
    };
    let voters = stage.feed.optional(|room| asked(room).map(|poll| poll.voters));
    view! {
        <div class="suspects">
            {move || suspects.get().into_iter().map(suspect).collect_view()}
            <p class="suspects-note" role="status">
                {move || match voters.get() {
                    Some(voters) => voted(voters),
                    None if suspects.with(Vec::len) < 2 => too_few().to_owned(),
                    None => String::new(),
                }}
            </p>
        </div>
    }
}
