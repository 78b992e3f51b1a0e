//! One of several things to choose from.

use leptos::prelude::*;

/// A segment of a row of which one is chosen.
#[component]
pub fn Segment(
    /// Name of the row.
    row: &'static str,
    /// Its name for tests.
    testid: String,
    /// What it says.
    title: &'static str,
    /// What it means, as a tip.
    #[prop(optional)]
    tip: &'static str,
    /// Whether it is the one chosen.
    #[prop(into)]
    is_chosen: Signal<bool>,
    /// Called when it is chosen.
    #[prop(into)]
    on_choose: Callback<()>,
) -> impl IntoView {
    view! {
        <label class="segment" title=tip>
            <input type="radio" name=row data-testid=testid prop:checked=is_chosen on:change=move |_| on_choose.run(())/>
            <span>{title}</span>
        </label>
    }
}
