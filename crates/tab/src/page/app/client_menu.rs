//! What the teacher can do with one client.

use leptos::prelude::*;
use unmask_core::ClientId;
use unmask_wire::view::Control;

use super::teacher::{Problem, Teacher};
use crate::page::nicknames::NICKNAME_LENGTH;

/// Another nickname, out, or out for good; folded until it is asked for.
#[component]
pub fn ClientMenu(
    teacher: Teacher,
    id: ClientId,
    /// As the room shows it.
    #[prop(into)]
    nickname: Signal<String>,
) -> impl IntoView {
    let typed = RwSignal::new(String::new());
    let problem = RwSignal::new(None);
    let rename = move || {
        let nickname = typed.get_untracked().trim().to_owned();
        if !nickname.is_empty() {
            teacher.ask(Control::Rename { client: id, nickname }, problem);
        }
    };
    view! {
        <details class="client-menu" on:toggle=move |_| typed.set(nickname.get_untracked())>
            <summary data-testid="client-menu" aria-label=move || format!("Manage {}", nickname.get())>"Manage"</summary>
            <form
                class="row"
                on:submit=move |event| {
                    event.prevent_default();
                    rename();
                }
            >
                <input
                    class="client-name-field"
                    aria-label="New nickname"
                    data-testid="client-new-name"
                    autocomplete="off"
                    maxlength=NICKNAME_LENGTH.to_string()
                    bind:value=typed
                />
                <button type="submit" class="button small" data-testid="client-rename">"Rename"</button>
            </form>
            <div class="row">
                <button
                    type="button"
                    class="button small"
                    data-testid="client-remove"
                    title="Disconnect; it may come again as somebody new"
                    on:click=move |_| teacher.ask(Control::Remove { client: id }, problem)
                >
                    "Remove"
                </button>
                <button
                    type="button"
                    class="button small danger"
                    data-testid="client-ban"
                    title="Disconnect, and turn away until the bans are lifted"
                    on:click=move |_| teacher.ask(Control::Ban { client: id }, problem)
                >
                    "Ban"
                </button>
            </div>
            <Problem problem/>
        </details>
    }
}
