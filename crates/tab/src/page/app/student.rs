//! The student's page: come in, join, then watch what leaves this device and what the relay reconstructs from it.

use leptos::prelude::*;

use super::{
    dashboard::Dashboard, entrance::Entrance, insecure::InsecureBanner, join::JoinForm, join_draft::JoinDraft,
    presence, session::Session, trainer::Trainer, wake_lock::keep_screen_on,
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
    presence::watch(move |now| {
        is_seen.set(now);
        trainer.seen(now);
    });
    presence::on_return(move || trainer.check());
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
