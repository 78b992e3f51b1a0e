//! Form fields, bars and buttons that several parts of the pages use.

use gloo_timers::callback::Timeout;
use leptos::prelude::*;
use unmask_data::metrics::RECOGNISABLE_FROM;
use unmask_words::say;
use wasm_bindgen::JsCast;
use web_sys::{Element, Event};

use super::feed::Feed;
use crate::page::logic::{counted, decimal, verdict};

/// A number field with its label. It passes on the text, since browsers return nothing for a number they cannot parse.
#[component]
pub fn NumberField(
    /// The name beside the field.
    label: &'static str,
    /// A longer name for screen readers and the tooltip.
    title: &'static str,
    /// Its test id.
    testid: &'static str,
    /// The value in force or typed.
    #[prop(into)]
    value: Signal<String>,
    /// Called with the text when the field loses focus.
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

/// How long arrow keys must rest on a segment before it is chosen, in milliseconds, so that passing over one does not
/// choose it.
const REST: u32 = 700;

/// A row of segments, one of which is chosen.
#[component]
pub fn Segments<T: Copy + PartialEq + Send + Sync + 'static>(
    /// The name of the row and the prefix of its segments' test ids.
    row: &'static str,
    /// Each value with its name, title and tooltip.
    options: Vec<(T, &'static str, &'static str, &'static str)>,
    #[prop(into)] chosen: Signal<T>,
    #[prop(into)] on_choose: Callback<T>,
) -> impl IntoView {
    let is_by_key = StoredValue::new(false);
    let resting = StoredValue::new(None::<T>);
    // Dropping the timer cancels it.
    let timer = StoredValue::new_local(None::<Timeout>);
    let settle = move || {
        timer.set_value(None);
        if let Some(value) = resting.try_update_value(Option::take).flatten() {
            on_choose.run(value);
        }
    };
    let choose = move |value: T| {
        resting.set_value(Some(value));
        if is_by_key.get_value() {
            timer.set_value(Some(Timeout::new(REST, settle)));
        } else {
            settle();
        }
    };
    let segment = move |(value, name, title, tip)| {
        view! {
            <label class="segment" title=tip>
                <input
                    type="radio"
                    name=row
                    data-testid=format!("{row}-{name}")
                    prop:checked=move || chosen.get() == value
                    on:change=move |_| choose(value)
                />
                <span>{title}</span>
            </label>
        }
    };
    view! {
        <div
            class="segments"
            on:pointerdown=move |_| is_by_key.set_value(false)
            on:keydown=move |event| {
                is_by_key.set_value(event.key().starts_with("Arrow"));
                if event.key() == "Enter" {
                    settle();
                }
            }
            on:focusout=move |_| if !is_by_key.get_value() { settle() }
        >
            {options.into_iter().map(segment).collect_view()}
        </div>
    }
}

/// A password field with a switch that reveals its text.
#[component]
pub fn PassphraseField(
    /// The id for its label, and its test id.
    id: &'static str,
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
                {move || if is_shown.get() { say::field::hide() } else { say::field::show() }}
            </button>
        </div>
    }
}

/// Whether the `<details>` that sent an event is open.
pub fn is_open(event: &Event) -> bool {
    event.target().and_then(|target| target.dyn_into::<Element>().ok()).is_some_and(|fold| fold.has_attribute("open"))
}

/// A list of names, each with a bar and a text. A row's `share` is the filled part of its bar, 0 to 1.
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

#[derive(Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    pub share: f64,
    pub text: String,
    /// Whether it is marked as an attack's finding.
    pub is_found: bool,
}

/// A bar from 0 to 1 with a mark at [`RECOGNISABLE_FROM`], both numbers, and the verdict in one word.
#[component]
pub fn SimilarityGauge(
    #[prop(into)] ssim: Signal<Option<f32>>,
    /// In dB.
    #[prop(into)]
    psnr: Signal<Option<f32>>,
    /// The text for a picture that is not recognisable; it is about the attack shown only.
    #[prop(into)]
    below: Signal<&'static str>,
    /// The text while neither number is known.
    #[prop(into)]
    waiting: Signal<String>,
) -> impl IntoView {
    let verdict_now = move || ssim.get().map(verdict);
    let width = move || format!("width:{:.1}%", ssim.get().unwrap_or(0.0).clamp(0.0, 1.0) * 100.0);
    let line = format!("left:{}%", RECOGNISABLE_FROM * 100.0);
    view! {
        <div class="gauge" data-verdict=verdict_now>
            <div class="gauge-head">
                <p class="gauge-verdict" data-testid="verdict">
                    {move || match verdict_now() {
                        Some("recognisable") => say::details::recognisable().to_owned(),
                        Some(_) => below.get().to_owned(),
                        None => waiting.get(),
                    }}
                </p>
                <p class="gauge-numbers">
                    <span>"SSIM " <b>{move || ssim.get().map_or("–".to_owned(), |ssim| decimal(format!("{ssim:.2}")))}</b></span>
                    <span>"PSNR " <b>{move || psnr.get().map_or("–".to_owned(), |psnr| decimal(format!("{psnr:.1} dB")))}</b></span>
                </p>
            </div>
            <div class="gauge-bar" aria-hidden="true">
                <span class="gauge-fill" style=width></span>
                <span class="gauge-line" style=line></span>
            </div>
            <p class="gauge-scale" aria-hidden="true">
                <span>"0"</span>
                <span>{decimal(RECOGNISABLE_FROM.to_string())}</span>
                <span>"1"</span>
            </p>
        </div>
    }
}

/// How long the question stays before it is withdrawn, in milliseconds.
const PATIENCE: u32 = 8000;

/// A button that asks before it acts, unless there are no rounds to lose.
#[component]
pub fn DiscardButton(
    feed: Feed,
    /// Its test id. The id of the confirming answer ends in `-yes`.
    testid: &'static str,
    title: &'static str,
    #[prop(into, optional)] is_disabled: Signal<bool>,
    #[prop(into)] on_confirm: Callback<()>,
) -> impl IntoView {
    let rounds = feed.part(|room| room.round);
    let is_asking = RwSignal::new(false);
    // Dropping the timer cancels it.
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
                // In the button's place, so that a double click changes nothing.
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
                    {move || format!("Discard {}", counted(rounds.get().unwrap_or(0), "round"))}
                </button>
            </span>
        </Show>
    }
}
