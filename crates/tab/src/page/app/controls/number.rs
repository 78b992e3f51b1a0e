//! A small field for a number.

use leptos::prelude::*;

/// A number with its label; what is typed is handed over as text, since a browser gives nothing for what it cannot read.
#[component]
pub fn NumberField(
    /// What it is, beside the field.
    label: &'static str,
    /// The same in more words, for those who cannot see the page, and as a tip.
    title: &'static str,
    /// Its name for tests.
    testid: &'static str,
    /// What is in force or typed.
    #[prop(into)]
    value: Signal<String>,
    /// Gets what was typed when the field is left.
    #[prop(into)]
    on_change: Callback<String>,
) -> impl IntoView {
    view! {
        <label class="number" title=title>
            <span>{label}</span>
            <input
                type="text"
                inputmode="decimal"
                autocomplete="off"
                aria-label=title
                data-testid=testid
                prop:value=value
                on:change=move |event| on_change.run(event_target_value(&event))
            />
        </label>
    }
}
