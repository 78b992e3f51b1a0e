//! Scenes 3, 4 and 5, which share their view: the original beside what attackers see of it.

use leptos::prelude::*;
use unmask_core::AttackMethod;

use super::parts::{Attacked, Original, Stage, Votes, let_go};
use crate::page::text::{
    decimal,
    lesson::{masked, uniform_rate},
    say,
};

/// Most that a mask can be made to drop on the stage, in percent.
const MOST: &str = "95";

/// APRIL on the block that it was made for; at the last step embedding inversion on an ordinary network.
#[component]
pub fn April(stage: Stage) -> impl IntoView {
    let is_ordinary = Memo::new(move |_| stage.place.get().beat >= 2);
    let attack = Signal::derive(move || if is_ordinary.get() { AttackMethod::Embedding } else { AttackMethod::April });
    let title =
        Signal::derive(move || if is_ordinary.get() { say::shot::usual() } else { say::shot::april() }.to_owned());
    view! {
        <div class="shots two">
            <Original stage/>
            <Attacked stage attack title/>
        </div>
    }
}

/// The same pair with a slider for R, and the class's verdict.
#[component]
pub fn MaskSlider(stage: Stage) -> impl IntoView {
    view! {
        <div class="masked">
            <div class="shots">
                <Original stage/>
                <Attacked
                    stage
                    attack=Signal::from(AttackMethod::Embedding)
                    title=Signal::derive(|| say::shot::zeros().to_owned())
                />
            </div>
            <Rate stage/>
            <Votes stage/>
        </div>
    }
}

/// R, which the presenter moves.
#[component]
fn Rate(stage: Stage) -> impl IntoView {
    let rate = move || uniform_rate(stage.defence()).map_or(0.0, |rate| rate.get());
    let percent = move || format!("{:.0}", rate() * 100.0);
    view! {
        <label class="stage-slider">
            <span>"R = " <b data-testid="slider-rate">{move || decimal(format!("{:.2}", rate()))}</b></span>
            <input
                type="range"
                min="0"
                max=MOST
                step="5"
                data-testid="stage-slider"
                aria-label=say::mask::slider()
                disabled=move || !stage.is_presenting.get()
                prop:value=percent
                on:pointerup=move |event| let_go(&event)
                on:change=move |event| {
                    if let Ok(percent) = event_target_value(&event).parse::<f64>() {
                        stage.choose(masked(percent / 100.0));
                    }
                }
            />
        </label>
    }
}

/// The one who takes gaps for zeros, and from the second step on the one who knows better.
#[component]
pub fn Attackers(stage: Stage) -> impl IntoView {
    let beat = Memo::new(move |_| stage.place.get().beat);
    // Without positions there is nothing to complete; what is left for equations says why it cannot.
    let better =
        Signal::derive(move || if beat.get() == 2 { AttackMethod::EmbeddingAware } else { AttackMethod::Completion });
    view! {
        <div class="shots three">
            <Original stage/>
            <Attacked
                stage
                attack=Signal::from(AttackMethod::Embedding)
                title=Signal::derive(|| say::shot::zeros().to_owned())
            />
            <Show
                when=move || { beat.get() > 0 }
                fallback=|| view! { <figure class="shot turned" aria-hidden="true"><figcaption>"\u{a0}"</figcaption><p class="shot-empty">"?"</p></figure> }
            >
                <Attacked stage attack=better title=Signal::derive(|| say::shot::aware().to_owned())/>
            </Show>
        </div>
    }
}
