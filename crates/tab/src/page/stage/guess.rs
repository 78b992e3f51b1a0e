//! Scenes 2 and 9: one reconstruction and the pictures that the class guesses from; at the end, the take-home messages.

use leptos::prelude::*;
use unmask_lesson::{Beat, Scene};
use unmask_words::say;

use super::{
    parts::{Attacked, Frame, Stage},
    wall::Everybody,
};
use crate::page::logic::votes::vote_bars;

#[derive(Debug, Clone, PartialEq)]
struct Suspect {
    name: String,
    picture: Option<String>,
    /// The votes of people and of robots, once the question is closed.
    votes: Option<(u32, u32)>,
    is_right: bool,
}

/// A picture of the film strip.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Moment {
    scene: Scene,
    source: String,
    nickname: String,
}

/// The reconstruction and up to four pictures beside it, with the votes at the second step and the answer at the third.
#[component]
pub fn Guess(stage: Stage) -> impl IntoView {
    let beat = Memo::new(move |_| stage.place.get().beat());
    move || match beat.get() {
        Beat::TakeHome => view! { <TakeHome stage/> }.into_any(),
        Beat::ShowEverybody => view! { <Everybody stage/> }.into_any(),
        _ => view! { <Question stage/> }.into_any(),
    }
}

#[component]
fn Question(stage: Stage) -> impl IntoView {
    let suspects = stage.feed.part(|room| {
        let asked = room.lesson.poll.as_ref();
        let coming = || room.situation().suspects();
        let suspects = asked.map_or_else(coming, |asked| asked.poll.suspects.clone());
        let bars = asked.filter(|asked| !asked.is_open).map(vote_bars);
        let shown = |(place, suspect): (usize, &unmask_lesson::Suspect)| {
            let client = room.clients.iter().find(|client| client.id == suspect.client);
            Suspect {
                name: unmask_words::suspect(place, suspect),
                picture: client.and_then(|client| client.original.clone()),
                votes: bars.as_ref().and_then(|bars| bars.get(place)).map(|bar| (bar.people, bar.robots)),
                is_right: match asked {
                    Some(asked) => asked.poll.correct.map(usize::from) == Some(place),
                    None => Some(suspect.client) == room.target,
                },
            }
        };
        suspects.iter().enumerate().map(shown).collect::<Vec<_>>()
    });
    let suspects = Memo::new(move |_| suspects.get().unwrap_or_default());
    let is_told = move || matches!(stage.place.get().beat(), Beat::TellWhose | Beat::TellMasked);
    let suspect = move |Suspect { name, picture, votes, is_right }: Suspect| {
        view! {
            <figure class="suspect" data-testid="suspect" data-right=move || is_told().then(|| is_right.to_string()) class:right=move || is_told() && is_right>
                {match picture {
                    Some(picture) => view! { <img src=picture alt=name.clone()/> }.into_any(),
                    None => view! { <p class="shot-empty">{say::empty::not_shown()}</p> }.into_any(),
                }}
                <figcaption>
                    <span class="suspect-name">{move || if is_told() && is_right { "✓ " } else { "" }} {name}</span>
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
    let voters = stage.feed.optional(|room| room.lesson.poll.as_ref().map(|poll| poll.voters));
    view! {
        <div class="guess">
            <Attacked stage attack=stage.attack(0) title=Signal::derive(|| say::shot::from_numbers().to_owned())/>
            <div class="suspects">
                {move || suspects.get().into_iter().map(suspect).collect_view()}
                <p class="suspects-note" role="status">
                    {move || match voters.get() {
                        Some(voters) => say::vote::count(voters),
                        None if suspects.with(Vec::len) < 2 => say::empty::no_suspects().to_owned(),
                        None => String::new(),
                    }}
                </p>
            </div>
        </div>
    }
}

/// Three sentences, and the clearest picture from each scene seen while this page was open, with its owner's name.
#[component]
fn TakeHome(stage: Stage) -> impl IntoView {
    let strip = Memo::new(move |_| {
        stage.reel.frames.with(|frames| {
            let ssim = |frame: &&Frame| frame.ssim.unwrap_or(f32::NEG_INFINITY);
            let of = |scene: Scene| frames.iter().filter(move |frame| frame.scene == Some(scene));
            let clearest = |scene| of(scene).max_by(|one, other| ssim(one).total_cmp(&ssim(other)));
            // The last scene's own picture is behind a mask.
            let scenes = Scene::ALL.into_iter().filter(|scene| *scene != Scene::Debrief);
            let moment = |scene| {
                let Frame { source, nickname, .. } = clearest(scene)?.clone();
                Some(Moment { scene, source, nickname })
            };
            scenes.filter_map(moment).collect::<Vec<_>>()
        })
    });
    view! {
        <div class="home">
            <ol data-testid="take-home-sentences">{unmask_words::take_home().map(|sentence| view! { <li>{sentence}</li> }).collect_view()}</ol>
            <div class="strip" data-testid="strip" hidden=move || strip.with(Vec::is_empty)>
                <For each=move || strip.get() key=Clone::clone let:moment>
                    <figure>
                        <img src=moment.source alt=say::debrief::seen(unmask_words::scene(moment.scene).title)/>
                        <figcaption>{unmask_words::scene(moment.scene).title} <span class="strip-name">{moment.nickname}</span></figcaption>
                    </figure>
                </For>
            </div>
        </div>
    }
}
