//! The second scene and the last: one reconstruction and the pictures that the class guesses from; at the end, the take-home messages.

use leptos::prelude::*;
use unmask_lesson::{Beat, Scene};
use unmask_words::say;

use super::{
    parts::{Attacked, Frame, Stage, clearest},
    suspects::{Suspects, suspects},
    wall::Everybody,
};

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
    let suspects = stage.feed.part(|room| suspects(room, |room| room.situation().suspects()));
    let suspects = Memo::new(move |_| suspects.get().unwrap_or_default());
    let is_told = Signal::derive(move || matches!(stage.place.get().beat(), Beat::TellWhose | Beat::TellMasked));
    view! {
        <div class="guess">
            <Attacked stage attack=stage.attack(0) title=Signal::derive(|| say::shot::from_numbers().to_owned())/>
            <Suspects stage suspects is_told voted=say::vote::count too_few=say::empty::no_suspects/>
        </div>
    }
}

/// Three sentences, and the clearest picture from each scene seen while this page was open, with its owner's name.
#[component]
fn TakeHome(stage: Stage) -> impl IntoView {
    let strip = Memo::new(move |_| {
        stage.reel.frames.with(|frames| {
            // The last scene's own picture is behind a mask.
            let scenes = Scene::ALL.into_iter().filter(|scene| *scene != Scene::Debrief);
            let moment = |scene| {
                let Frame { source, nickname, .. } = clearest(frames, scene)?.clone();
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
