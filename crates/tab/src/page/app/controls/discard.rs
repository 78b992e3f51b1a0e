//! A button that throws away what the room has learnt.

use gloo_timers::callback::Timeout;
use leptos::prelude::*;

use crate::page::{app::feed::Feed, words};

/// How long the question stands before it is withdrawn, in milliseconds.
const PATIENCE: u32 = 8000;

/// A button that asks before it acts, unless there is no round to lose.
#[component]
pub fn DiscardButton(
    feed: Feed,
    /// Its name for tests; that of the answer which acts ends in `-yes`.
    testid: &'static str,
    title: &'static str,
    #[prop(into, optional)] is_disabled: Signal<bool>,
    /// Called once it is meant.
    #[prop(into)]
    on_confirm: Callback<()>,
) -> impl IntoView {
    let rounds = feed.part(|room| room.round);
    let is_asking = RwSignal::new(false);
    // Dropped, it is cancelled.
    let timer = StoredValue::new_local(None::<Timeout>);
    let stop = move || {
        is_asking.set(false);
        timer.set_value(None);
    };
    let ask = move |_| {
        if rounds.get_untracked().unwrap_or(0) == 0 {
            on_confirm.run(());
            return;
        }
        is_asking.set(true);
        timer.set_value(Some(Timeout::new(PATIENCE, move || is_asking.set(false))));
    };
    view! {
        <Show
            when=move || is_asking.get()
            fallback=move || {
                view! {
                    <button type="button" class="button" data-testid=testid disabled=is_disabled on:click=ask>
                        {title}
                    </button>
                }
            }
        >
            <span class="row confirm" role="alert">
                // Where the button stood, so that a double click changes nothing.
                <button type="button" class="button" on:click=move |_| stop()>"Keep"</button>
                <button
                    type="button"
                    class="button danger"
                    data-testid=format!("{testid}-yes")
                    on:click=move |_| {
                        stop();
                        on_confirm.run(());
                    }
                >
                    {move || format!("Discard {}", words::counted(rounds.get().unwrap_or(0), "round"))}
                </button>
            </span>
        </Show>
    }
}
