//! The student's page: enter, join, then watch what leaves this device and what the relay reconstructs from it.

mod careful;
mod classify;
mod details;
mod draft;
mod farewell;
mod join;
mod leaks;
mod loan;
mod pixels;
mod poll;
mod room;
mod saved;
mod trainer;

use js_sys::{Function, Promise, Reflect};
use leptos::prelude::*;
use unmask_words::say;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use self::{draft::JoinDraft, join::JoinForm, room::Room, trainer::Trainer};
use super::{
    logic::{
        input::{https_twin, read_pin},
        turn::{self, Link},
    },
    widgets::{InLanguage, LanguageSwitch, on_return, session::Session, watch_presence},
};
use crate::protocol::Connection;

#[component]
pub fn Student() -> impl IntoView {
    let session = Session::open();
    let trainer = Trainer::start();
    let draft = JoinDraft::new();
    let is_admitted = Memo::new(move |_| session.role().is_some());
    let is_in = Memo::new(move |_| trainer.connection.with(Option::is_some));
    let has_arrived = StoredValue::new(false);
    Effect::new(move |_| {
        if !is_in.get() {
            has_arrived.set_value(false);
        }
    });
    begin_once_admitted(session, draft, trainer);
    stay_connected(session, trainer);
    Effect::new(move |_| {
        if trainer.has_forgotten.get() {
            draft.forget();
        }
    });
    view! {
        <div class="student">
            <header class="top">
                <h1 class="brand">"un" <em>"mask"</em></h1>
                <LanguageSwitch/>
                <p class="nickname" translate="no" data-testid="room-nickname" hidden=move || !is_in.get()>
                    {move || trainer.nickname.get().unwrap_or_else(|| draft.nickname.get())}
                </p>
                <InLanguage><StatusLine trainer/></InLanguage>
            </header>
            <main><InLanguage>
                <p class="banner" role="status" data-testid="forgotten" hidden=move || !trainer.has_forgotten.get()>
                    {move || if trainer.is_still_on_disk.get() { say::join::still_on_disk() } else { say::join::forgotten() }}
                </p>
                <InsecureBanner session/>
                <p class="banner error" role="alert" data-testid="trainer-failure" hidden=move || trainer.failure.with(Option::is_none)>
                    {move || trainer.failure.get()}
                </p>
                <Entrance session/>
                <p class="banner error" role="alert" data-testid="no-socket" hidden=move || !trainer.is_refused()>
                    {turn::refused(window().location().protocol().is_ok_and(|protocol| protocol == "https:"))}
                </p>
                <Show when=move || is_in.get()>
                    <Room draft trainer has_arrived/>
                </Show>
                <Show when=move || is_admitted.get() && !is_in.get()>
                    <JoinForm draft trainer/>
                </Show>
            </InLanguage></main>
        </div>
    }
}

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

/// Reconnects a tab that was hidden, asleep, cut off or forgotten by the relay.
fn stay_connected(session: Session, trainer: Trainer) {
    let is_seen = RwSignal::new(false);
    watch_presence(move |now| {
        is_seen.set(now);
        trainer.seen(now);
    });
    on_return(move || trainer.check());
    let lost = window_event_listener(leptos::ev::offline, move |_| trainer.check());
    on_cleanup(move || lost.remove());
    keep_screen_on(Memo::new(move |_| is_seen.get() && trainer.is_in_room()));
    // A refused socket gives no reason: the relay may no longer know this page, or the browser may accept the relay's own
    // certificate for pages only.
    Effect::new(move |_| {
        if matches!(trainer.connection.get(), Some(Connection::Retrying { .. })) {
            spawn_local(async move {
                trainer.was_refused(session.is_known().await);
            });
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

/// The state of the socket, or of the worker before there is a socket, and this tab's work in the round.
#[component]
fn StatusLine(trainer: Trainer) -> impl IntoView {
    let link = Memo::new(move |_| trainer.link());
    let is_first = move || trainer.nickname.with(Option::is_none);
    let can_be_hurried = move || link.get().can_be_hurried() && !(is_first() && link.get() == Link::Connecting);
    view! {
        <div class="status" data-testid="connection" data-state=move || link.get().key()>
            <p>{move || turn::status(link.get(), trainer.work())}</p>
            <button
                type="button"
                class="button"
                data-testid="try-now"
                hidden=move || !can_be_hurried()
                on:click=move |_| trainer.check()
            >
                {say::room::try_now()}
            </button>
        </div>
        <p class="hidden" role="status">{move || turn::connection(link.get())}</p>
    }
}

/// The PIN form, shown as long as the relay does not admit this page.
#[component]
pub fn Entrance(session: Session) -> impl IntoView {
    let typed = session.typed_pin;
    let asks = move || session.is_settled() && !session.has_no_cookie.get();
    let is_shut = move || asks() && session.role().is_none();
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
                <div role="alert"><h2>
                    {move || if session.is_lost.get() { say::entrance::lost() } else { say::entrance::heading() }}
                </h2></div>
                <p hidden=move || !session.is_lost.get() data-testid="session-lost">
                    {say::entrance::lost_remedy()}
                </p>
                <p>{say::entrance::hint()}</p>
                <label for="pin">{say::entrance::pin()}</label>
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
                        {say::entrance::enter()}
                    </button>
                </div>
                <p class="problem" role="alert" data-testid="pin-problem">{move || session.problem.get()}</p>
            </form>
        </Show>
        // Before the relay has answered, and where no PIN helps, the form would only be in the way.
        <p class="banner error" role="alert" data-testid="no-relay" hidden=move || asks() || session.problem.with(Option::is_none)>
            {move || session.problem.get()}
        </p>
    }
}

/// Says what plain HTTP costs and links to this page under HTTPS. Empty in a secure context.
#[component]
pub fn InsecureBanner(session: Session) -> impl IntoView {
    if window().is_secure_context() {
        return ().into_any();
    }
    // The relay reveals the HTTPS address only to those it admits.
    let link = move || {
        let room = session.admitted()?.https_address?;
        let location = window().location();
        let here = location.hostname().unwrap_or_default();
        let path = location.pathname().unwrap_or_default() + &location.search().unwrap_or_default();
        https_twin(&here, &room, &path)
    };
    view! {
        <aside class="banner" data-testid="insecure-banner" role="note">
            <strong>{say::insecure::heading()}</strong> " " {say::insecure::why()} " "
            {move || match link() {
                Some(address) => {
                    view! {
                        {say::insecure::open()} " "
                        <a href=address.clone() data-testid="secure-link">{address.clone()}</a>
                    }
                        .into_any()
                }
                None => say::insecure::no_address().into_any(),
            }}
        </aside>
    }
    .into_any()
}

/// Keeps the screen on while `is_wanted` is true. The browser drops the lock whenever the page is hidden, so
/// `is_wanted` must change when the page becomes visible again.
pub fn keep_screen_on(is_wanted: Memo<bool>) {
    let lock = StoredValue::new_local(None::<JsValue>);
    let replace = move |new: Option<JsValue>| {
        if let Some(old) = lock.try_update_value(|lock| std::mem::replace(lock, new)).flatten() {
            // Releasing a lock that the browser has already dropped does no harm.
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
            // The page may have been hidden while the browser decided.
            if !is_wanted.get_untracked() {
                replace(None);
            }
        });
    });
}

/// Requests a lock. `None` if the browser has no wake lock, offers none over plain HTTP, or refuses because the battery
/// is low. The student can do nothing about it here, and training continues until the screen turns off.
async fn request() -> Option<JsValue> {
    // By name, since web-sys offers it only with the flag for unstable interfaces.
    let locks = Reflect::get(&window().navigator(), &"wakeLock".into()).ok().filter(JsValue::is_object)?;
    let promise: Promise = method(&locks, "request")?.call1(&locks, &"screen".into()).ok()?.dyn_into().ok()?;
    JsFuture::from(promise).await.ok()
}

fn method(object: &JsValue, name: &str) -> Option<Function> {
    Reflect::get(object, &name.into()).ok()?.dyn_into().ok()
}
