//! The student's page: join, then watch what leaves this device and what the relay reconstructs from it.

use leptos::prelude::*;

use super::{dashboard::Dashboard, insecure::InsecureBanner, join::JoinForm, join_draft::JoinDraft, trainer::Trainer};
use crate::protocol::Connection;

/// The whole page.
#[component]
pub fn Student() -> impl IntoView {
    let trainer = Trainer::start();
    let draft = JoinDraft::new();
    let is_in = Memo::new(move |_| trainer.connection.with(Option::is_some));
    draft.begin(trainer);
    view! {
        <div class="student">
            <header class="top">
                <h1 class="brand">"un" <em>"mask"</em></h1>
                <ConnectionPill trainer/>
            </header>
            <InsecureBanner/>
            <p class="banner error" role="alert" data-testid="trainer-failure" hidden=move || trainer.failure.with(Option::is_none)>
                {move || trainer.failure.get()}
            </p>
            <main>
                <Show when=move || is_in.get() fallback=move || view! { <JoinForm draft trainer/> }>
                    <Dashboard draft trainer/>
                </Show>
            </main>
        </div>
    }
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
