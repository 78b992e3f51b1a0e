//! The way into the room for whoever has no link: the PIN on the projector.

use leptos::prelude::*;

use super::session::Session;
use crate::page::pin;

/// A form for the PIN, as long as the relay does not let this page in.
#[component]
pub fn Entrance(session: Session) -> impl IntoView {
    let typed = RwSignal::new(String::new());
    let is_shut = move || session.is_settled() && session.role().is_none();
    let enter = move || match pin::read(&typed.get_untracked()) {
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
