//! Form fields that several parts of the pages use.

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

/// A row of segments of which one is chosen.
#[component]
pub fn Segments<T: Copy + PartialEq + Send + Sync + 'static>(
    /// Name of the row, with which its segments' names for tests begin.
    row: &'static str,
    /// Each value with its name, its title and a tip.
    options: Vec<(T, &'static str, &'static str, &'static str)>,
    #[prop(into)] chosen: Signal<T>,
    #[prop(into)] on_choose: Callback<T>,
) -> impl IntoView {
    let segment = move |(value, name, title, tip)| {
        view! {
            <label class="segment" title=tip>
                <input
                    type="radio"
                    name=row
                    data-testid=format!("{row}-{name}")
                    prop:checked=move || chosen.get() == value
                    on:change=move |_| on_choose.run(value)
                />
                <span>{title}</span>
            </label>
        }
    };
    view! { <div class="segments">{options.into_iter().map(segment).collect_view()}</div> }
}

/// A password field with a switch that shows what was typed.
#[component]
pub fn PassphraseField(
    /// Id for its label, and its name for tests.
    id: &'static str,
    /// What is typed.
    value: RwSignal<String>,
) -> impl IntoView {
    let is_shown = RwSignal::new(false);
    view! {
        <div class="row">
            <input
                id=id
                type=move || if is_shown.get() { "text" } else { "password" }
                data-testid=id
                autocomplete="off"
                autocapitalize="off"
                spellcheck="false"
                bind:value=value
            />
            <button
                type="button"
                class="button"
                data-testid=format!("{id}-show")
                aria-pressed=move || is_shown.get().to_string()
                aria-controls=id
                on:click=move |_| is_shown.update(|shown| *shown = !*shown)
            >
                {move || if is_shown.get() { "Hide" } else { "Show" }}
            </button>
        </div>
    }
}

/// A list of names with a bar and a text each; `share` of a row is the filled part of its bar, 0 to 1.
#[component]
pub fn Bars(#[prop(into)] rows: Signal<Vec<Bar>>, testid: &'static str) -> impl IntoView {
    let bar = move |Bar { name, share, text, is_found }: Bar| {
        let width = format!("width:{:.1}%", (share * 100.0).clamp(0.0, 100.0));
        view! {
            <li class:found=is_found data-testid=testid data-name=name.clone() data-share=share data-text=text.clone()>
                <span>{name.clone()}</span>
                <span class="meter" aria-hidden="true">
                    <span class="meter-fill" style=width></span>
                </span>
                <span class="sub">{text.clone()}</span>
            </li>
        }
    };
    view! { <ul class="bars">{move || rows.get().into_iter().map(bar).collect_view()}</ul> }
}

/// One row of [`Bars`].
#[derive(Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    pub share: f64,
    pub text: String,
    /// Whether it is marked as what an attack found.
    pub is_found: bool,
}
