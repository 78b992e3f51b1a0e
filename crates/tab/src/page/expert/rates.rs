//! The editor of the rates R of random zeroing: one for all parameter groups, or one for each.

use leptos::prelude::*;
use unmask_core::{GroupRates, ParamGroup, ZeroRate};

use crate::page::logic::drafts::middle;

/// The rates of the papers' main experiments.
const PRESETS: [f64; 3] = [0.2, 0.5, 0.8];

/// A slider for all groups, presets, and a panel with one slider for each group.
#[component]
pub fn RatesEditor(
    #[prop(into)] rates: Signal<GroupRates>,
    /// Called with the rates while a slider moves.
    #[prop(into)]
    on_move: Callback<GroupRates>,
    /// Called when the rates are final.
    #[prop(into)]
    on_settled: Callback<()>,
) -> impl IntoView {
    let is_open = RwSignal::new(false);
    let settle = Callback::new(move |rates: GroupRates| {
        on_move.run(rates);
        on_settled.run(());
    });
    let shown = move || rates.get().single().map_or("by group".to_owned(), |rate| rate.to_string());
    view! {
        <div class="row rates">
            <label class="slider">
                <span class="slider-value">"R = " {shown}</span>
                <input
                    type="range"
                    min="0.05"
                    max="0.95"
                    step="0.05"
                    data-testid="rate"
                    aria-label="R, the share of values dropped, for all parameter groups"
                    aria-valuetext=shown
                    prop:value=move || format!("{:.2}", middle(&rates.get()))
                    on:input=move |event| {
                        if let Ok(rate) = event_target_value(&event).parse() {
                            on_move.run(GroupRates::uniform(rate));
                        }
                    }
                    on:change=move |_| on_settled.run(())
                />
            </label>
            <Presets settle/>
            <button
                type="button"
                class="button small"
                data-testid="group-rates"
                aria-expanded=move || is_open.get().to_string()
                on:click=move |_| is_open.update(|open| *open = !*open)
            >
                "per parameter group" {move || if is_open.get() { " ▾" } else { " ▸" }}
            </button>
        </div>
        <div class="group-rates" hidden=move || !is_open.get()>
            {ParamGroup::VIT
                .into_iter()
                .map(|group| view! { <GroupSlider rates group on_move on_settled/> })
                .collect_view()}
            <SameForAll rates settle/>
        </div>
    }
}

#[component]
fn Presets(settle: Callback<GroupRates>) -> impl IntoView {
    let preset = move |preset: f64| {
        view! {
            <button
                type="button"
                class="button small"
                data-testid=format!("preset-{preset}")
                on:click=move |_| settle.run(GroupRates::uniform(ZeroRate::nearest(preset)))
            >
                {preset.to_string()}
            </button>
        }
    };
    view! {
        <div class="row presets" role="group" aria-label="Presets of R">
            {PRESETS.into_iter().map(preset).collect_view()}
            <button
                type="button"
                class="button small"
                data-testid="preset-hint"
                title="The papers’ advice: high for the embeddings, from which pictures are read, and low elsewhere"
                on:click=move |_| settle.run(GroupRates::papers_hint())
            >
                "papers’ advice: embeddings high"
            </button>
        </div>
    }
}

#[component]
fn GroupSlider(
    rates: Signal<GroupRates>,
    group: ParamGroup,
    on_move: Callback<GroupRates>,
    on_settled: Callback<()>,
) -> impl IntoView {
    let rate = move || rates.get().get(group);
    view! {
        <label class="slider">
            <span>{group.title()}</span>
            <input
                type="range"
                min="0"
                max="0.95"
                step="0.05"
                data-testid=format!("group-rate-{}", group.key())
                aria-label=format!("R of the group {}", group.title())
                prop:value=move || format!("{:.2}", rate().get())
                on:input=move |event| {
                    if let Ok(rate) = event_target_value(&event).parse() {
                        on_move.run(rates.get_untracked().with(group, rate).within(&ParamGroup::VIT));
                    }
                }
                on:change=move |_| on_settled.run(())
            />
            <output>{move || rate().to_string()}</output>
        </label>
    }
}

#[component]
fn SameForAll(rates: Signal<GroupRates>, settle: Callback<GroupRates>) -> impl IntoView {
    view! {
        <label class="switch">
            <input
                type="checkbox"
                data-testid="same-for-all"
                prop:checked=move || rates.get().single().is_some()
                on:change=move |event| {
                    // Unticking changes nothing: the sliders make the groups differ.
                    if event_target_checked(&event) {
                        settle.run(GroupRates::uniform(ZeroRate::nearest(twentieths(middle(&rates.get_untracked())))));
                    }
                }
            />
            <span>"same for all"</span>
        </label>
    }
}

/// The slider's nearest stop, so that averaging two rates gives a round number.
fn twentieths(rate: f64) -> f64 {
    (rate * 20.0).round().clamp(1.0, 19.0) / 20.0
}
