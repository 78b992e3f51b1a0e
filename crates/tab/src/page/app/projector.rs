//! The page that the room watches, and from which the teacher drives it.

use leptos::prelude::*;
use unmask_core::TrainOn;
use unmask_wire::view::{Control, Phase};
use wasm_bindgen_futures::spawn_local;

use super::{
    api,
    cards::Cards,
    controls::Controls,
    counts::UpdateCounts,
    feed::{Feed, Link},
    learning::Learning,
    roster::Roster,
};
use crate::page::words;

/// The teacher's hand on the room: the token, if this page has it, and what came of the last control.
#[derive(Clone, Copy)]
pub struct Teacher {
    token: RwSignal<Option<String>>,
    /// Why the last control failed.
    pub problem: RwSignal<Option<String>>,
    /// The control that the relay refused last, until one succeeds.
    pub refused: RwSignal<Option<Control>>,
}

impl Teacher {
    fn new() -> Self {
        let teacher = Self {
            token: RwSignal::new(api::take_token()),
            problem: RwSignal::new(None),
            refused: RwSignal::new(None),
        };
        // The teacher link pasted into this very tab changes the fragment only and loads nothing.
        let handle = window_event_listener(leptos::ev::hashchange, move |_| {
            if let Some(token) = api::take_token() {
                teacher.token.set(Some(token));
                teacher.problem.set(None);
            }
        });
        on_cleanup(move || handle.remove());
        teacher
    }

    /// Whether this page may use the controls.
    pub fn may_drive(self) -> bool {
        self.token.with(Option::is_some)
    }

    /// The token, for what is no control.
    pub fn token(self) -> Option<String> {
        self.token.get_untracked()
    }

    /// Calls `undo` whenever a control has failed: what the page shows then must be the room's state again.
    pub fn on_failure(self, undo: impl Fn() + 'static) {
        Effect::new(move |_| {
            if self.problem.with(Option::is_some) {
                undo();
            }
        });
    }

    /// Sends a control whose failure is told where it was asked for, in `problem`. Nothing of the control is kept.
    pub fn ask(self, control: Control, problem: RwSignal<Option<String>>) {
        let Some(token) = self.token() else { return };
        spawn_local(async move { problem.set(api::control(&token, &control).await.err()) });
    }

    /// Sends a control; what goes wrong is shown above the controls.
    pub fn send(self, control: Control) {
        self.send_all(vec![control]);
    }

    /// Sends controls one after the other, up to the first that fails.
    pub fn send_all(self, controls: Vec<Control>) {
        let Some(token) = self.token() else { return };
        spawn_local(async move {
            for control in controls {
                if let Err(problem) = api::control(&token, &control).await {
                    self.refused.set(Some(control));
                    self.problem.set(Some(problem));
                    return;
                }
            }
            self.refused.set(None);
            self.problem.set(None);
        });
    }
}

/// Why what was asked for beside it failed.
#[component]
pub fn Problem(
    /// The sentence, if something went wrong.
    problem: RwSignal<Option<String>>,
) -> impl IntoView {
    view! {
        <p class="problem" role="alert" data-testid="problem" hidden=move || problem.with(Option::is_none)>
            {move || problem.get()}
        </p>
    }
}

/// The whole page.
#[component]
pub fn Projector() -> impl IntoView {
    let feed = Feed::open();
    let teacher = Teacher::new();
    view! {
        <div class="projector">
            <Headline feed/>
            <div class="stage">
                <aside class="side">
                    <Invitation feed/>
                    <Roster feed teacher/>
                </aside>
                <main class="centre">
                    <Controls feed teacher/>
                    <Cards feed teacher/>
                    <Learning feed/>
                    <UpdateCounts feed/>
                </main>
            </div>
            <Log feed/>
        </div>
    }
}

#[component]
fn Headline(feed: Feed) -> impl IntoView {
    let phase = feed.part(|room| room.phase);
    let round = feed.part(|room| room.round);
    let model = feed.part(|room| {
        let block = if room.architecture.april_block() { ", April block" } else { "" };
        format!("{}{block} · {} parameters", room.architecture, words::count(room.parameters))
    });
    let rule = feed.part(|room| {
        let train_on = room.data.as_ref().map_or(TrainOn::Private, |data| data.train_on);
        words::training(room.rule, room.optimiser, room.batch, train_on)
    });
    let rule_form = feed.part(|room| room.rule.to_string());
    let phase_text = move || match (phase.get(), feed.countdown()) {
        (Some(Phase::Training), Some(seconds)) => format!("Training, {seconds} s left"),
        (Some(phase), _) => words::phase(phase).to_owned(),
        (None, _) => "Asking the relay…".to_owned(),
    };
    let link = move || match feed.link.get() {
        Link::Opening => ("opening", "◌ connecting"),
        Link::Live => ("online", "● live"),
        Link::Polling => ("retrying", "▲ reconnecting"),
        Link::Lost => ("failed", "✕ relay does not answer"),
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
                    data-phase=move || phase.get().map_or("unknown", words::phase_key)
                    role="status"
                >
                    {phase_text}
                </span>
            </p>
            <p class="facts">
                <span data-testid="model">{move || model.get()}</span>
                <span data-testid="rule" data-rule=move || rule_form.get()>{move || rule.get()}</span>
            </p>
            <p class="pill" data-testid="link" data-state=move || link().0>{move || link().1}</p>
        </header>
    }
}

/// How to get in: QR code and addresses.
#[component]
fn Invitation(feed: Feed) -> impl IntoView {
    let https = feed.part(|room| room.https_address.clone());
    let http = feed.part(|room| room.http_address.clone());
    let code = feed.part(|room| room.qr_svg.clone());
    let source = move || {
        code.get().filter(|svg| !svg.is_empty()).map(|svg| {
            // As an image the document can run nothing in this page.
            let encoded: String = js_sys::encode_uri_component(&svg).into();
            format!("data:image/svg+xml;charset=utf-8,{encoded}")
        })
    };
    view! {
        <section class="card invitation" aria-label="Join">
            <div class="qr" data-testid="qr">
                {move || source().map(|source| view! { <img src=source alt="QR code of the address below"/> })}
            </div>
            <p class="address" data-testid="https-address">{move || https.get()}</p>
            <p class="sub">"accept the browser’s warning once, or, without GPU:"</p>
            <p class="address lesser" data-testid="http-address">{move || http.get()}</p>
        </section>
    }
}

/// The last things that happened, newest first.
#[component]
fn Log(feed: Feed) -> impl IntoView {
    let lines = Memo::new(move |_| {
        feed.room.with(|room| {
            let lines = room.as_ref().map_or(&[][..], |room| &room.log);
            lines.iter().rev().take(30).cloned().collect::<Vec<_>>()
        })
    });
    view! {
        <section class="card log" aria-label="What happened">
            <ol aria-live="polite" data-testid="log">
                <For each=move || lines.get() key=|line| line.number let:line>
                    <li data-testid="log-line"><span class="log-round">{line.round}</span>{line.text.clone()}</li>
                </For>
            </ol>
        </section>
    }
}
