//! The expert view: everything about the room, and all controls for the teacher.

mod attack_result;
mod cards;
mod controls;
mod editors;
mod erase;
mod learning;
mod network;
mod rates;
mod roster;

use gloo_timers::callback::Timeout;
use leptos::prelude::*;
use unmask_core::TrainOn;
use unmask_wire::view::{FederationLink, Phase};
use unmask_words::{Language, say};

use self::{
    cards::Cards,
    controls::Controls,
    learning::{Learning, UpdateCounts},
    roster::Roster,
};
pub use self::{
    controls::OwnControls,
    erase::EraseEverything,
    network::CheckNetwork,
    roster::{ClientMenu, Door, Menu},
};
use super::{
    logic::{self, input::grouped_pin},
    widgets::{
        LanguageSwitch, Tongue,
        feed::{Feed, Link},
        holds, optional, part,
        session::Teacher,
    },
};

/// A pause between rounds is shown only if it lasts at least this long, in milliseconds.
const MOMENT: u32 = 2500;

/// The whole view: read-only on the projector, with controls for the teacher.
#[component]
pub fn Expert(
    feed: Feed,
    teacher: Teacher,
    #[prop(into)] on_stage: Callback<()>,
    /// What the teacher does at the door of a live room and in it, and what ends it.
    door: ViewFn,
    menu: Option<Menu>,
    controls: ViewFn,
    end: ViewFn,
) -> impl IntoView {
    let tongue = Tongue::spoken();
    view! {
        // The technical terms are English.
        <div class="projector" lang="en">
            <p
                class="sub"
                data-testid="expert-language"
                lang=move || tongue.now().tag()
                hidden=move || tongue.now() == Language::English
            >
                {move || tongue.now().speaking(say::page::expert_in_english)}
            </p>
            <Headline feed on_stage/>
            <div class="columns">
                <aside class="side">
                    <Invitation feed/>
                    <Roster feed teacher door menu/>
                </aside>
                <main class="centre">
                    <Controls feed teacher own=controls/>
                    <Cards feed teacher/>
                    <Learning feed/>
                    <UpdateCounts feed/>
                </main>
            </div>
            <Log feed teacher end/>
        </div>
    }
}

#[component]
fn Headline(feed: Feed, on_stage: Callback<()>) -> impl IntoView {
    let phase = feed.part(|room| room.phase);
    let round = feed.part(|room| room.round);
    let said = held(phase);
    let phase_text = move || match (said.get(), feed.countdown()) {
        (Some(Phase::Training), Some(seconds)) => format!("Training, {seconds} s left"),
        (Some(phase), _) => logic::phase(phase).to_owned(),
        (None, _) => "Asking the relay…".to_owned(),
    };
    let link = move || match feed.link.get() {
        Link::Opening => ("opening", "◌ connecting"),
        Link::Live => ("online", "● live"),
        Link::Polling => ("retrying", "▲ reconnecting"),
        Link::Lost => ("failed", "✕ relay does not answer"),
        Link::Recorded => ("recorded", "▶ recorded"),
    };
    view! {
        <header class="top">
            <h1 class="brand">"un" <em>"mask"</em></h1>
            <p class="headline">
                <span class="round">
                    "Round "
                    <b data-testid="round" data-round=move || round.get().unwrap_or(0)>{move || round.get().unwrap_or(0)}</b>
                </span>
                <span
                    class="phase"
                    data-testid="phase"
                    data-phase=move || phase.get().map_or("unknown".to_owned(), logic::key)
                    role="status"
                >
                    {phase_text}
                </span>
            </p>
            <Facts feed/>
            <button type="button" class="button small" data-testid="to-stage" title="Back to the stage (E)" aria-keyshortcuts="E" on:click=move |_| on_stage.run(())>
                "Stage"
            </button>
            <LanguageSwitch/>
            <p class="pill" data-testid="link" data-state=move || link().0>{move || link().1}</p>
        </header>
    }
}

/// The model, the training, the journal and the federation.
#[component]
fn Facts(feed: Feed) -> impl IntoView {
    let model = feed.part(|room| {
        let block = if room.architecture.april_block() { ", April block" } else { "" };
        format!("{}{block} · {} parameters", room.architecture, logic::count(room.parameters))
    });
    let rule = feed.part(|room| {
        let train_on = room.data.as_ref().map_or(TrainOn::Private, |data| data.train_on);
        logic::learning::training(room.rule, room.optimiser, room.batch, train_on)
    });
    let rule_form = feed.part(|room| room.rule.to_string());
    let journal = feed.optional(|room| room.journal.clone());
    let federation = feed.optional(|room| room.federation.clone());
    view! {
        <p class="facts">
            <span data-testid="model">{move || model.get()}</span>
            <span data-testid="rule" data-rule=move || rule_form.get()>{move || rule.get()}</span>
            <span
                class="journal"
                class:failed=holds(journal, |journal| journal.failure.is_some())
                data-testid="journal"
                data-round=part(journal, |journal| journal.round)
                hidden=move || journal.with(Option::is_none)
            >
                {part(journal, logic::journal)}
            </span>
            <span
                class="federation"
                class:failed=holds(federation, |federation| federation.link == FederationLink::Lost)
                data-testid="federation"
                data-link=part(federation, |federation| logic::key(federation.link))
                data-round=optional(federation, |federation| federation.round)
                hidden=move || federation.with(Option::is_none)
            >
                {part(federation, logic::federation)}
            </span>
        </p>
    }
}

/// The phase to show. A short pause between rounds is skipped, since nobody could read it.
fn held(phase: Memo<Option<Phase>>) -> RwSignal<Option<Phase>> {
    let said = RwSignal::new(None);
    // Dropping the timer cancels it.
    let timer = StoredValue::new_local(None::<Timeout>);
    Effect::new(move |_| {
        let now = phase.get();
        timer.set_value(None);
        if now == Some(Phase::Between) && said.get_untracked() == Some(Phase::Training) {
            timer.set_value(Some(Timeout::new(MOMENT, move || said.set(now))));
        } else {
            said.set(now);
        }
    });
    said
}

/// How to join: QR code, PIN and addresses, or a note that the room is locked.
#[component]
fn Invitation(feed: Feed) -> impl IntoView {
    let https = feed.part(|room| room.https_address.clone());
    let http = feed.part(|room| room.http_address.clone());
    let code = feed.optional(|room| {
        // As an image, the document cannot run scripts in this page.
        let encoded = String::from(js_sys::encode_uri_component(&room.qr_svg));
        (!encoded.is_empty()).then(|| format!("data:image/svg+xml;charset=utf-8,{encoded}"))
    });
    let pin = feed.part(|room| room.pin.clone());
    let is_locked = feed.part(|room| room.is_locked);
    let is_locked = move || is_locked.get() == Some(true);
    view! {
        // Nobody can join a recorded lesson.
        <section
            class="card invitation"
            class:locked=is_locked
            aria-label="Join"
            hidden=move || https.with(|address| address.as_ref().is_some_and(String::is_empty))
        >
            <div class="qr" data-testid="qr">
                {move || code.get().map(|code| view! { <img src=code alt="QR code of the address below"/> })}
            </div>
            <p class="pin" hidden=move || pin.with(|pin| pin.as_ref().is_none_or(String::is_empty))>
                "PIN "
                <b data-testid="pin" data-pin=move || pin.get()>{move || pin.get().map(|pin| grouped_pin(&pin))}</b>
            </p>
            <p class="locked-note" role="status" data-testid="locked" hidden=move || !is_locked()>
                "⊘ The room is locked: nobody new can join."
            </p>
            <p class="address" data-testid="https-address">{move || https.get()}</p>
            <p class="sub">"Accept the browser’s warning once. Without the GPU:"</p>
            <p class="address lesser" data-testid="http-address">{move || http.get()}</p>
        </section>
    }
}

/// The last events, newest first.
#[component]
fn Log(feed: Feed, teacher: Teacher, end: ViewFn) -> impl IntoView {
    let lines = feed.part(|room| room.log.iter().rev().take(30).cloned().collect::<Vec<_>>());
    // A room in this browser has no address, writes no files and keeps nothing.
    let is_on_a_relay = feed.part(|room| !room.https_address.is_empty());
    view! {
        <section class="card log" aria-label="What happened">
            <ol aria-live="polite" data-testid="log" tabindex="0" aria-label="What happened, newest first">
                <For each=move || lines.get().unwrap_or_default() key=|line| line.number let:line>
                    <li data-testid="log-line"><span class="log-round">{line.round}</span>{line.text.clone()}</li>
                </For>
            </ol>
            <Show when=move || teacher.is_here() && is_on_a_relay.get() == Some(true)>
                <p class="row">
                    <a class="button" href="/api/session.zip" download data-testid="take-home">"Take the lesson home"</a>
                    <a class="button" href="/api/lesson.unmask" download data-testid="take-recording">"Take the recording"</a>
                </p>
                {end.run()}
            </Show>
        </section>
    }
}
