//! A field for a passphrase.

use leptos::prelude::*;

/// A password field with a switch that shows what was typed.
#[component]
pub fn SecretInput(
    /// Id, for its label.
    id: &'static str,
    /// Its name for tests.
    testid: &'static str,
    /// What is typed.
    value: RwSignal<String>,
) -> impl IntoView {
    let is_shown = RwSignal::new(false);
    view! {
        <div class="row">
            <input
                id=id
                type=move || if is_shown.get() { "text" } else { "password" }
                data-testid=testid
                autocomplete="off"
                autocapitalize="off"
                spellcheck="false"
                bind:value=value
            />
            <button
                type="button"
                class="button"
                data-testid=format!("{testid}-show")
                aria-pressed=move || is_shown.get().to_string()
                aria-controls=id
                on:click=move |_| is_shown.update(|shown| *shown = !*shown)
            >
                {move || if is_shown.get() { "Hide" } else { "Show" }}
            </button>
        </div>
    }
}
