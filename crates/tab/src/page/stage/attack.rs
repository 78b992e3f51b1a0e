//! Scenes 3 to 6, which share a view: the original beside what attackers reconstruct. In scene 6 a search sees more and
//! more.

use leptos::prelude::*;
use unmask_core::{AttackMethod, ClientId};
use unmask_data::metrics::Level;
use unmask_lesson::{Beat, Question, masked, uniform_rate};
use unmask_wire::view::SearchView;
use unmask_words::say;

use super::{
    anatomy::Anatomy,
    contest::Contest,
    parts::{Attacked, Frame, Original, Shot, Stage, let_go, why_empty},
    swarm::OwnRates,
    vote::{VoteLine, Votes},
};
use crate::page::logic::{count, decimal};

/// The highest rate on the stage's slider, in percent.
const MOST: &str = "95";

/// APRIL on the block made for it, with the class's vote; then embedding inversion on a standard network, and at the
/// last steps its equations.
#[component]
pub fn April(stage: Stage) -> impl IntoView {
    let is_taken_apart = Memo::new(move |_| {
        matches!(stage.place.get().beat(), Beat::FindPositions | Beat::FindPatches | Beat::SolvePatch)
    });
    view! {
        <Show when=move || is_taken_apart.get() fallback=move || view! { <AprilPair stage/> }>
            <Anatomy stage/>
        </Show>
    }
}

/// The original beside what the step's attack makes of it.
#[component]
fn AprilPair(stage: Stage) -> impl IntoView {
    let is_asking = stage.is_asking();
    let is_ordinary = Memo::new(move |_| stage.place.get().beat() == Beat::UsualBlock);
    let title =
        Signal::derive(move || if is_ordinary.get() { say::shot::usual() } else { say::shot::april() }.to_owned());
    view! {
        <div class="masked">
            <div class="shots">
                <Original stage/>
                <Attacked stage attack=stage.attack(0) title/>
            </div>
            <Show when=move || is_asking.get()>
                <Votes stage/>
            </Show>
        </div>
    }
}

/// The same pair with a slider for R and the class's verdict; at first, with the rates of the class's own masks.
#[component]
pub fn MaskSlider(stage: Stage) -> impl IntoView {
    let is_own = Memo::new(move |_| stage.place.get().beat() == Beat::MoveOwnMask);
    view! {
        <div class="masked" class:with-swarm=move || is_own.get()>
            <div class="shots">
                <Original stage/>
                <Attacked stage attack=stage.attack(0) title=Signal::derive(|| say::shot::zeros().to_owned())/>
            </div>
            <Show when=move || is_own.get() fallback=move || view! { <Rate stage/> }>
                <OwnRates stage/>
            </Show>
            <Votes stage/>
        </div>
    }
}

#[component]
fn Rate(stage: Stage) -> impl IntoView {
    let rate = move || uniform_rate(stage.defence()).map_or(0.0, |rate| rate.get());
    let percent = move || format!("{:.0}", rate() * 100.0);
    view! {
        <label class="stage-slider">
            <span>"R = " <b data-testid="slider-rate">{move || decimal(format!("{:.2}", rate()))}</b></span>
            <input
                type="range"
                min="0"
                max=MOST
                step="5"
                data-testid="stage-slider"
                aria-label=say::mask::slider()
                disabled=move || !stage.is_presenting.get()
                prop:value=percent
                on:pointerup=move |event| let_go(&event)
                on:change=move |event| {
                    if let Ok(percent) = event_target_value(&event).parse::<f64>() {
                        stage.choose(masked(percent / 100.0));
                    }
                }
            />
        </label>
    }
}

/// The attackers on the wall or, at two beats, the class's own.
#[component]
pub fn Attackers(stage: Stage) -> impl IntoView {
    let is_contest = Memo::new(move |_| stage.place.get().is_about(Question::WhoseUpdate));
    view! {
        <Show when=move || is_contest.get() fallback=move || view! { <Pair stage/> }>
            <Contest stage/>
        </Show>
    }
}

/// The attacker that reads masked entries as zeros; from the second step on, also one that knows the mask.
#[component]
fn Pair(stage: Stage) -> impl IntoView {
    let beat = Memo::new(move |_| stage.place.get().beat());
    let is_asking = stage.is_asking();
    let better = move || match beat.get() {
        Beat::FixedPosition => say::shot::pieces(),
        _ => say::shot::aware(),
    };
    view! {
        <div class="attackers">
            <div class="shots three">
                <Original stage/>
                <Attacked stage attack=stage.attack(0) title=Signal::derive(|| say::shot::zeros().to_owned())/>
                <Show
                    when=move || { beat.get() != Beat::IgnoresMask }
                    fallback=|| view! { <figure class="shot turned" aria-hidden="true"><figcaption>"\u{a0}"</figcaption><p class="shot-empty">"?"</p></figure> }
                >
                    <Attacked stage attack=stage.attack(1) title=Signal::derive(move || better().to_owned())/>
                </Show>
            </div>
            <Show when=move || is_asking.get()>
                <VoteLine stage/>
            </Show>
        </div>
    }
}

/// Whether `attack` is the search of the scene; there is one for each kind of network.
fn is_shown(attack: AttackMethod) -> bool {
    Beat::Search.attacks().iter().any(|methods| methods.contains(&attack))
}

/// The pictures of the newest search for the target's picture. A new search discards those of the one before.
fn newest_search(frames: &[Frame], target: Option<ClientId>) -> Vec<Frame> {
    let is_one = |frame: &&Frame| is_shown(frame.attack) && Some(frame.client) == target;
    let mut kept: Vec<Frame> = Vec::new();
    for frame in frames.iter().filter(is_one) {
        if kept.last().is_some_and(|last| last.seconds > frame.seconds) {
            kept.clear();
        }
        kept.push(frame.clone());
    }
    kept
}

/// The original, the search's newest picture or the one chosen in the bar below it, and the class's guesses.
#[component]
pub fn Patience(stage: Stage) -> impl IntoView {
    let search = stage.feed.optional(|room| {
        let result =
            room.attacks.iter().find(|result| is_shown(result.attack) && Some(result.client) == room.target)?;
        Some((result.search.clone()?, result.ssim))
    });
    let begun = Memo::new(move |_| stage.place.get().beat() != Beat::VoteSeconds);
    let frames = Memo::new(move |_| {
        let target = stage.feed.room.with(|room| room.as_ref().and_then(|room| room.target));
        stage.reel.frames.with(|frames| newest_search(frames, target))
    });
    // `None` follows the search.
    let chosen = RwSignal::new(None::<usize>);
    let frame = move || {
        frames.with(|frames| {
            let place = chosen.get().unwrap_or(usize::MAX).min(frames.len().checked_sub(1)?);
            frames.get(place).cloned()
        })
    };
    let frame = Memo::new(move |_| frame());
    // Once the search has shown the picture, its newest picture keeps that verdict; scores arrive late.
    let is_found = Memo::new(move |_| search.with(|it| it.as_ref().is_some_and(|it| it.0.recognised_after.is_some())));
    let level = move || match chosen.get() {
        None if is_found.get() => Some(Level::Recognisable),
        _ => frame.with(|frame| Level::of(&[frame.as_ref()?.ssim?])),
    };
    // The original would tell what to see in the guesses.
    let is_hidden = Memo::new(move |_| stage.place.get().beat() != Beat::ShowSearch && !is_found.get());
    let why_empty =
        stage.feed.part(move |room| if room.search.is_none() { say::empty::no_search() } else { why_empty(room) });
    let state = move || {
        let steps = |search: &SearchView| say::patience::steps(count(search.iteration), count(search.iterations));
        let steps = search.with(|search| search.as_ref().map(|(search, _)| steps(search)));
        let seconds = frame
            .with(|frame| frame.as_ref().map(|frame| say::patience::seconds(frame.seconds.round().max(0.0) as u32)));
        [seconds, steps].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    };
    view! {
        <div class="patience" data-testid="patience" data-ssim=move || search.with(|search| search.as_ref()?.1.map(|ssim| ssim.to_string()))>
            <div class="shots">
                <Show
                    when=move || !is_hidden.get()
                    fallback=|| view! { <figure class="shot"><figcaption>"\u{a0}"</figcaption><p class="shot-empty">{say::patience::hidden()}</p></figure> }
                >
                    <Original stage/>
                </Show>
                <Shot
                    testid="searched"
                    title=Signal::derive(|| say::shot::guesses().to_owned())
                    picture=Signal::derive(move || if begun.get() { frame.with(|frame| Some(frame.as_ref()?.source.clone())) } else { None })
                    empty=Signal::derive(move || if begun.get() { why_empty.get().unwrap_or(say::empty::waiting()) } else { "?" }.to_owned())
                    level=Signal::derive(move || if begun.get() { level() } else { None })
                    has_level=true
                />
            </div>
            <Scrubber frames chosen begun state=Signal::derive(state)/>
            <Votes stage/>
        </div>
    }
}

/// Chooses one of the search's pictures.
#[component]
fn Scrubber(
    frames: Memo<Vec<Frame>>,
    chosen: RwSignal<Option<usize>>,
    begun: Memo<bool>,
    /// How far the search was at the chosen picture.
    state: Signal<String>,
) -> impl IntoView {
    let last = move || frames.with(|frames| frames.len().saturating_sub(1));
    view! {
        <label class="stage-slider" hidden=move || !begun.get()>
            <span data-testid="search-state">{state}</span>
            <input
                type="range"
                min="0"
                step="1"
                data-testid="scrub"
                aria-label=say::patience::scrub()
                prop:max=move || last().to_string()
                prop:value=move || chosen.get().unwrap_or_else(last).to_string()
                on:pointerup=move |event| let_go(&event)
                on:input=move |event| {
                    let place = event_target_value(&event).parse().ok();
                    chosen.set(place.filter(|place| *place < untrack(last)));
                }
            />
        </label>
    }
}
