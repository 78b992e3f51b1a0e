//! A recorded lesson: the projector's page driven by a clock instead of a relay.

use std::time::Duration;

use gloo_file::{File, futures::read_as_bytes};
use leptos::prelude::*;
use unmask_recording::{NAME, Player, Read, Recording};
use unmask_words::say;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::spawn_local;
use web_sys::{Element, HtmlInputElement, KeyboardEvent};

use super::{
    logic::{
        address::Address,
        clock::{Clock, Focused, minutes},
        decimal, sentence,
    },
    stage::{Room, hash},
    widgets::{
        InLanguage, LanguageSwitch, api,
        feed::{Feed, milliseconds},
        session::{Session, Teacher},
    },
};

/// How often the clock advances.
const TICK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
struct Playing {
    feed: Feed,
    player: StoredValue<Option<Player>, LocalStorage>,
    clock: RwSignal<Option<Clock>>,
    /// Why there is nothing to play, or only part of the recording.
    problem: RwSignal<Option<String>>,
}

/// The whole page. It contacts no relay.
#[component]
pub fn Replay() -> impl IntoView {
    let teacher = Teacher::new(Session::of_watcher());
    let playing = Playing {
        feed: Feed::recorded(),
        player: StoredValue::new_local(None),
        clock: RwSignal::new(None),
        problem: RwSignal::new(None),
    };
    spawn_local(async move {
        match api::bytes(NAME).await {
            Ok(bytes) => playing.load(&bytes),
            Err(reason) => playing.problem.set(Some(reason)),
        }
    });
    let last = StoredValue::new(milliseconds());
    set_interval(
        move || {
            let now = milliseconds();
            playing.change(|clock| clock.pass(now - last.get_value()));
            last.set_value(now);
        },
        TICK,
    );
    let handle = window_event_listener(leptos::ev::keydown, move |event| {
        let is_shortcut = event.ctrl_key() || event.alt_key() || event.meta_key();
        if !is_shortcut && playing.press(&event.key(), focused(&event)) {
            event.prevent_default();
        }
    });
    on_cleanup(move || handle.remove());
    // A recorded lesson cannot be controlled.
    let address = Address { is_audience: true, ..Address::read(&hash()) };
    let is_loaded = Memo::new(move |_| playing.clock.with(Option::is_some));
    view! {
        <Show when=move || is_loaded.get() fallback=move || view! { <Opening playing/> }>
            <div class="replay">
                <Room feed=playing.feed teacher address/>
                <InLanguage><Bar playing/></InLanguage>
            </div>
        </Show>
    }
}

impl Playing {
    fn load(self, file: &[u8]) {
        let outcome = Recording::read(file).map_err(|error| error.to_string()).and_then(|read| {
            let Read { recording, torn } = read;
            let player = Player::new(recording);
            if player.states() == 0 {
                return Err(torn.unwrap_or_else(|| say::replay::nothing().to_owned()));
            }
            Ok((player, torn))
        });
        match outcome {
            Ok((player, torn)) => {
                self.clock.set(Some(Clock::new(player.length())));
                self.player.set_value(Some(player));
                let torn = torn.map(say::replay::part);
                self.problem.set(torn);
                self.show(0);
            }
            Err(reason) => self.problem.set(Some(sentence(&reason))),
        }
    }

    /// Changes the clock and shows the room as it was at the new time.
    fn change(self, change: impl FnOnce(&mut Clock)) {
        let before = self.clock.get_untracked();
        let Some(mut clock) = before else { return };
        change(&mut clock);
        if before != Some(clock) {
            self.clock.set(Some(clock));
            self.show(clock.at());
        }
    }

    fn press(self, key: &str, focused: Focused) -> bool {
        let mut is_for_the_clock = false;
        self.change(|clock| is_for_the_clock = clock.press(key, focused));
        is_for_the_clock
    }

    fn show(self, at: u64) {
        let room = self.player.try_update_value(|player| {
            let player = player.as_mut()?;
            (player.seek(at) || at == 0).then(|| player.room())
        });
        match room.flatten() {
            Some(Ok(room)) => self.feed.show(room),
            Some(Err(reason)) => self.problem.set(Some(sentence(&reason))),
            None => {}
        }
    }

    fn at(self) -> u64 {
        self.clock.get().map_or(0, Clock::at)
    }

    fn length(self) -> u64 {
        self.clock.get().map_or(0, Clock::length)
    }

    fn is_playing(self) -> bool {
        self.clock.get().is_some_and(Clock::is_playing)
    }
}

/// The element that may need the key itself.
fn focused(event: &KeyboardEvent) -> Focused {
    let Some(target) = event.target().and_then(|target| target.dyn_into::<Element>().ok()) else {
        return Focused::Nothing;
    };
    match target.tag_name().as_str() {
        "INPUT" if target.get_attribute("type").as_deref() == Some("range") => Focused::Slider,
        "SELECT" => Focused::Choice,
        "A" | "BUTTON" | "INPUT" | "SUMMARY" => Focused::Button,
        _ => Focused::Nothing,
    }
}

/// Shown until there is something to play: the sources of a recording.
#[component]
fn Opening(playing: Playing) -> impl IntoView {
    let take = move |event: leptos::ev::Event| {
        let input: HtmlInputElement = event_target(&event);
        let Some(file) = input.files().and_then(|files| files.get(0)) else { return };
        spawn_local(async move {
            match read_as_bytes(&File::from(file)).await {
                Ok(bytes) => playing.load(&bytes),
                Err(error) => playing.problem.set(Some(say::replay::unreadable(error))),
            }
        });
    };
    view! {
        <div class="projector">
            <header class="top"><h1 class="brand">"un" <em>"mask"</em></h1><LanguageSwitch/></header>
            <main><InLanguage>
            <section class="card not-shown" role="status" data-testid="replay-opening">
                <h2>{move || if playing.problem.with(Option::is_none) { say::replay::opening() } else { say::replay::open() }}</h2>
                <p class="problem" role="alert" data-testid="problem">{move || playing.problem.get()}</p>
                <p hidden=move || playing.problem.with(Option::is_none)>
                    <label for="recording">{say::replay::file()}</label> " "
                    <input id="recording" type="file" accept=".unmask" data-testid="recording-file" on:change=take/>
                </p>
            </section>
            </InLanguage></main>
        </div>
    }
}

/// Play and pause, speed, and position in the lesson.
#[component]
fn Bar(playing: Playing) -> impl IntoView {
    let title = move || if playing.is_playing() { say::replay::pause() } else { say::replay::play() };
    let speed = move || playing.clock.get().map_or(1.0, Clock::speed);
    let time = move || say::replay::time(minutes(playing.at()), minutes(playing.length()));
    view! {
        <section class="player" aria-label=say::replay::player()>
            <p class="hint" role="status" data-testid="torn" hidden=move || playing.problem.with(Option::is_none)>
                {move || playing.problem.get()}
            </p>
            <div class="row">
                <button
                    type="button"
                    class="button accent"
                    data-testid="play"
                    data-playing=move || playing.is_playing().to_string()
                    title="Space"
                    on:click=move |_| playing.change(Clock::toggle)
                >
                    {title}
                </button>
                <input
                    type="range"
                    class="scrub"
                    data-testid="scrub"
                    aria-label=say::replay::place()
                    aria-valuetext=time
                    min="0"
                    max=move || playing.length()
                    step="1000"
                    prop:value=move || playing.at().to_string()
                    on:input=move |event| {
                        if let Ok(at) = event_target_value(&event).parse() {
                            playing.change(|clock| clock.go_to(at));
                        }
                    }
                />
                <span class="player-time" data-testid="time" data-at=move || playing.at()>{time}</span>
                <button
                    type="button"
                    class="button small"
                    data-testid="slower"
                    aria-label=say::replay::slower()
                    title="-"
                    on:click=move |_| playing.change(Clock::go_slower)
                >
                    "−"
                </button>
                <span class="player-time" data-testid="speed" data-speed=move || speed().to_string()>
                    {move || format!("{} ×", decimal(speed().to_string()))}
                </span>
                <button
                    type="button"
                    class="button small"
                    data-testid="faster"
                    aria-label=say::replay::faster()
                    title="+"
                    on:click=move |_| playing.change(Clock::go_faster)
                >
                    "+"
                </button>
            </div>
        </section>
    }
}
