//! The student's page: come in, join, then watch what leaves this device and what the relay reconstructs from it.

mod dashboard;
mod details;
mod draft;
mod join;
mod trainer;

use js_sys::{Function, Promise, Reflect};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use self::{dashboard::Dashboard, draft::JoinDraft, join::JoinForm, trainer::Trainer};
use super::{
    text::input::{https_twin, read_pin},
    widgets::{on_return, session::Session, watch_presence},
};
use crate::protocol::Connection;

/// The whole page.
#[component]
pub fn Student() -> impl IntoView {
    let session = Session::open();
    let trainer = Trainer::start();
    let draft = JoinDraft::new();
    let is_admitted = Memo::new(move |_| session.role().is_some());
    let is_in = Memo::new(move |_| trainer.connection.with(Option::is_some));
    begin_once_admitted(session, draft, trainer);
    stay_connected(session, trainer);
    view! {
        <div class="student">
            <header class="top">
                <h1 class="brand">"un" <em>"mask"</em></h1>
                <ConnectionPill trainer/>
            </header>
            <InsecureBanner session/>
            <p class="banner error" role="alert" data-testid="trainer-failure" hidden=move || trainer.failure.with(Option::is_none)>
                {move || trainer.failure.get()}
            </p>
            <main>
                <Entrance session/>
                <Show when=move || is_in.get()>
                    <Dashboard draft trainer/>
                </Show>
                <Show when=move || is_admitted.get() && !is_in.get()>
                    <JoinForm draft trainer/>
                </Show>
            </main>
        </div>
    }
}

/// Fills the form in when the relay has let this page in for the first time.
fn begin_once_admitted(session: Session, draft: JoinDraft, trainer: Trainer) {
    Effect::new(move |has_begun: Option<bool>| {
        if has_begun == Some(true) {
            return true;
        }
        let Some(admitted) = session.admitted() else { return false };
        draft.begin(&admitted, trainer);
        true
    });
}

/// Whatever brings a tab back that was hidden, asleep, cut off or forgotten.
fn stay_connected(session: Session, trainer: Trainer) {
    let is_seen = RwSignal::new(false);
    watch_presence(move |now| {
        is_seen.set(now);
        trainer.seen(now);
    });
    on_return(move || trainer.check());
    keep_screen_on(Memo::new(move |_| is_seen.get() && trainer.is_in_room()));
    // A socket that is refused says not why; it may be that the relay does not know this page any more.
    Effect::new(move |_| {
        if matches!(trainer.connection.get(), Some(Connection::Retrying { .. })) {
            session.check();
        }
    });
    Effect::new(move |was_admitted: Option<bool>| {
        let is_admitted = session.role().is_some();
        if is_admitted && was_admitted == Some(false) {
            trainer.check();
        }
        is_admitted
    });
}

/// The state of the socket, or of the worker before there is one.
#[component]
fn ConnectionPill(trainer: Trainer) -> impl IntoView {
    let state = Memo::new(move |_| match trainer.connection.get() {
        _ if trainer.failure.with(Option::is_some) => ("failed", "✕ trainer stopped".to_owned()),
        _ if !trainer.is_ready.get() => ("loading", "◌ loading the trainer…".to_owned()),
        None => ("ready", "○ trainer ready".to_owned()),
        Some(Connection::Connecting) => ("connecting", "◌ connecting…".to_owned()),
        Some(Connection::Online { .. }) => ("online", "● online".to_owned()),
        Some(Connection::Retrying { seconds }) => ("retrying", format!("▲ connection lost, retrying in {seconds} s")),
        Some(Connection::Closed { .. }) => ("closed", "✕ closed".to_owned()),
    });
    view! {
        <p class="pill" role="status" data-testid="connection" data-state=move || state.get().0>
            {move || state.get().1}
        </p>
    }
}

/// A form for the PIN, as long as the relay does not let this page in.
#[component]
pub fn Entrance(session: Session) -> impl IntoView {
    let typed = RwSignal::new(String::new());
    let is_shut = move || session.is_settled() && session.role().is_none();
    let enter = move || match read_pin(&typed.get_untracked()) {
        Ok(pin) => session.try_pin(pin),
        Err(problem) => session.problem.set(Some(problem)),
    };
    view! {
        <Show when=is_shut>
            <form
                class="card field entrance"
                on:submit=move |event| {
                    event.prevent_default();
                    enter();
                }
            >
                <h2 role="alert">
                    {move || if session.is_lost.get() { "The relay does not know this tab any more" } else { "Come in" }}
                </h2>
                <p hidden=move || !session.is_lost.get() data-testid="session-lost">
                    "It has probably begun another lesson. Nothing in this tab is lost: enter the PIN that the projector shows now."
                </p>
                <p>"Scan the code on the projector, or type the six digits beside it."</p>
                <label for="pin">"PIN"</label>
                <div class="row">
                    <input
                        id="pin"
                        data-testid="pin"
                        class="digits"
                        type="text"
                        inputmode="numeric"
                        autocomplete="one-time-code"
                        maxlength="11"
                        placeholder="123 456"
                        bind:value=typed
                    />
                    <button
                        type="submit"
                        class="button accent large"
                        data-testid="pin-enter"
                        disabled=move || session.is_trying.get()
                    >
                        "Enter"
                    </button>
                </div>
                <p class="problem" role="alert" data-testid="pin-problem">{move || session.problem.get()}</p>
            </form>
        </Show>
        // Before there is an answer a form would only be in the way.
        <p class="banner error" role="alert" data-testid="no-relay" hidden=move || session.is_settled() || session.problem.with(Option::is_none)>
            {move || session.problem.get()}
        </p>
    }
}

/// Says what plain HTTP costs and links to this very page under HTTPS; nothing where the context is secure.
#[component]
pub fn InsecureBanner(session: Session) -> impl IntoView {
    if window().is_secure_context() {
        return ().into_any();
    }
    // The relay says where that is to whom it lets in.
    let link = move || {
        let room = session.admitted()?.https_address?;
        let location = window().location();
        let here = location.hostname().unwrap_or_default();
        let path = location.pathname().unwrap_or_default() + &location.search().unwrap_or_default();
        https_twin(&here, &room, &path)
    };
    view! {
        <aside class="banner" data-testid="insecure-banner" role="note">
            <strong>"Slower, and open to listeners. "</strong>
            "Browsers allow WebGPU only over HTTPS, so this tab trains on the CPU. Whoever listens on this network sees what the relay sees. "
            {move || match link() {
                Some(address) => {
                    view! {
                        "To use the GPU and to keep listeners out, open "
                        <a href=address.clone() data-testid="secure-link">{address.clone()}</a>
                        " and accept the warning about the relay’s own certificate."
                    }
                        .into_any()
                }
                None => "The relay’s HTTPS address is on the projector.".into_any(),
            }}
        </aside>
    }
    .into_any()
}

/// Keeps the screen on for as long as `is_wanted` holds. The browser lets it go whenever the page is out of sight, so what is
/// wanted must say when it is seen again.
pub fn keep_screen_on(is_wanted: Memo<bool>) {
    let lock = StoredValue::new_local(None::<JsValue>);
    let replace = move |new: Option<JsValue>| {
        if let Some(old) = lock.try_update_value(|lock| std::mem::replace(lock, new)).flatten() {
            // A lock that the browser has taken back already is none the worse for it.
            let _ = method(&old, "release").and_then(|release| release.call0(&old).ok());
        }
    };
    Effect::new(move |_| {
        if !is_wanted.get() {
            return replace(None);
        }
        spawn_local(async move {
            let taken = request().await;
            replace(taken);
            // The page may have gone out of sight while the browser thought about it.
            if !is_wanted.get_untracked() {
                replace(None);
            }
        });
    });
}

/// `None` where the browser has no such lock, shows it no page over plain HTTP, or refuses for want of battery. There is
/// nothing that the student could do about it here, and training goes on for as long as the screen does.
async fn request() -> Option<JsValue> {
    // By name, since web-sys has it behind its flag for unstable interfaces alone.
    let locks = Reflect::get(&window().navigator(), &"wakeLock".into()).ok().filter(JsValue::is_object)?;
    let promise: Promise = method(&locks, "request")?.call1(&locks, &"screen".into()).ok()?.dyn_into().ok()?;
    JsFuture::from(promise).await.ok()
}

fn method(object: &JsValue, name: &str) -> Option<Function> {
    Reflect::get(object, &name.into()).ok()?.dyn_into().ok()
}
