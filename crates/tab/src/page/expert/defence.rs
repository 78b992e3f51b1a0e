//! The choice of a defence and its parameters.

use leptos::prelude::*;
use unmask_core::{Defence, DefenceKind, EncryptionStart, GaussianNoise, GroupRates, ParamGroup, ZeroRate};
use unmask_wire::view::Control;

use crate::page::{
    text::{
        self,
        drafts::{DefenceDraft, middle, read_noise},
    },
    widgets::{
        feed::Feed,
        fields::{NumberField, Segments},
        session::Teacher,
    },
};

/// FLRSP's Table 1: epsilon of each row; delta and S_f are 0.5 in all of them.
const TABLE: [(&str, &str); 3] = [("1", "eps-1"), ("2", "eps-2"), ("4", "eps-4")];

/// One segment for each defence, and the parameters of the one chosen.
#[component]
pub fn DefenceEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(DefenceDraft::default());
    let wanted = feed.part(|room| room.next.as_ref().and_then(|next| next.defence).unwrap_or(room.defence));
    // Another teacher's page, or the relay's own start options, may have chosen.
    teacher.follow(wanted, move |defence| draft.update(|draft| draft.follow(defence)));
    let send = move || teacher.send(Control::Defence { defence: draft.get_untracked().defence() });
    let choice = Memo::new(move |_| draft.get().choice);
    let is_encrypted = feed.part(|room| room.defence.is_encrypted());
    view! {
        <fieldset class="defence">
            <legend class="hidden">"Defence"</legend>
            <Segments
                row="defence"
                options=DefenceKind::ALL.map(|kind| (kind, kind.name(), kind.title(), kind.sentence())).to_vec()
                chosen=choice
                on_choose=move |kind| {
                    draft.update(|draft| draft.choice = kind);
                    send();
                }
            />
            <p class="hint">
                {move || choice.get().sentence()}
                <b data-testid="encrypted-reset" hidden=move || is_encrypted.get() != Some(true)>
                    " Leaving Encrypted, or changing its start, resets the model: the relay cannot decrypt the weights."
                </b>
            </p>
            {move || {
                let chosen = Defence::from(choice.get());
                if chosen.rates().is_some() {
                    view! {
                        <RatesEditor
                            rates=Signal::derive(move || draft.get().rates())
                            on_move=move |rates| draft.update(|draft| draft.change(chosen.with_rates(rates)))
                            on_settled=move |()| send()
                        />
                    }
                        .into_any()
                } else if chosen.noise().is_some() {
                    view! { <Noise draft teacher/> }.into_any()
                } else if chosen.is_encrypted() {
                    view! { <Starts draft on_change=move |()| send()/> }.into_any()
                } else {
                    ().into_any()
                }
            }}
        </fieldset>
    }
}

/// Epsilon, delta and S_f.
#[component]
fn Noise(draft: RwSignal<DefenceDraft>, teacher: Teacher) -> impl IntoView {
    let noise = move || draft.get().noise();
    let parts = |noise: GaussianNoise| [noise.epsilon(), noise.delta(), noise.clip()];
    let take = move |parts: [&str; 3]| {
        let [epsilon, delta, clip] = parts;
        match read_noise(epsilon, delta, clip) {
            Ok(noise) => {
                draft.update(|draft| draft.change(Defence::Gaussian(noise)));
                teacher.send(Control::Defence { defence: Defence::Gaussian(noise) });
            }
            Err(error) => teacher.problem.set(Some(error.to_string())),
        }
    };
    let fields = [
        ("ε", "epsilon asked of one round", "eps"),
        ("δ", "delta asked of one round", "delta"),
        ("clip S_f", "S_f, the norm to which an update is clipped", "clip"),
    ];
    let field = move |(place, (label, title, testid))| {
        let on_change = move |text: String| {
            let mut typed = parts(draft.get_untracked().noise()).map(|part| part.to_string());
            typed[place] = text;
            take(typed.each_ref().map(String::as_str));
        };
        view! { <NumberField label title testid value=Signal::derive(move || text::number(parts(noise())[place])) on_change/> }
    };
    view! {
        <div class="row">
            {fields.into_iter().enumerate().map(field).collect_view()}
            <div class="row presets" role="group" aria-label="Rows of FLRSP’s Table 1">
                <span class="sub">"FLRSP Table 1, no guarantee:"</span>
                {TABLE
                    .into_iter()
                    .map(|(epsilon, name)| {
                        view! {
                            <button
                                type="button"
                                class="button small"
                                data-testid=format!("preset-{name}")
                                title="δ = 0.5 and S_f = 0.5: a mechanism that publishes every second picture would satisfy them"
                                on:click=move |_| take([epsilon, "0.5", "0.5"])
                            >
                                {format!("ε = {epsilon}")}
                            </button>
                        }
                    })
                    .collect_view()}
            </div>
        </div>
        <p class="hint" data-testid="deviation" data-deviation=move || noise().deviation().to_string()>
            {move || text::deviation(&noise())}
        </p>
    }
}

/// How the encrypted model begins.
#[component]
fn Starts(draft: RwSignal<DefenceDraft>, #[prop(into)] on_change: Callback<()>) -> impl IntoView {
    let starts = [
        (
            EncryptionStart::Plain,
            "Plain start",
            "a tab encrypts the model that the relay made, so the relay knows the original",
        ),
        (
            EncryptionStart::Keyed,
            "Keyed start",
            "a tab draws new weights that the relay never sees unencrypted; resets the model",
        ),
    ];
    view! {
        <div class="row starts" role="radiogroup" aria-label="Start of the encrypted model">
            {starts
                .into_iter()
                .map(|(start, title, sentence)| {
                    view! {
                        <label class="choice">
                            <input
                                type="radio"
                                name="start"
                                value=start.name()
                                data-testid=format!("start-{start}")
                                prop:checked=move || draft.get().start() == start
                                on:change=move |_| {
                                    draft.update(|draft| draft.change(Defence::Encrypted { start }));
                                    on_change.run(());
                                }
                            />
                            <span><b>{title}</b>": " {sentence}</span>
                        </label>
                    }
                })
                .collect_view()}
        </div>
    }
}

/// Rates of the papers' main experiments.
const PRESETS: [f64; 3] = [0.2, 0.5, 0.8];

/// A slider for all groups, presets, and a panel with a slider for each group.
#[component]
pub fn RatesEditor(
    #[prop(into)] rates: Signal<GroupRates>,
    /// Gets the rates while a slider moves.
    #[prop(into)]
    on_move: Callback<GroupRates>,
    /// Called when they are final.
    #[prop(into)]
    on_settled: Callback<()>,
) -> impl IntoView {
    let is_open = RwSignal::new(false);
    let settle = move |rates: GroupRates| {
        on_move.run(rates);
        on_settled.run(());
    };
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
            <div class="row presets" role="group" aria-label="Presets of R">
                {PRESETS
                    .into_iter()
                    .map(|preset| {
                        view! {
                            <button
                                type="button"
                                class="button small"
                                data-testid=format!("preset-{preset}")
                                on:click=move |_| settle(GroupRates::uniform(ZeroRate::nearest(preset)))
                            >
                                {preset.to_string()}
                            </button>
                        }
                    })
                    .collect_view()}
                <button
                    type="button"
                    class="button small"
                    data-testid="preset-hint"
                    title="The papers’ advice: high for the embeddings, from which pictures are read, and low elsewhere"
                    on:click=move |_| settle(GroupRates::papers_hint())
                >
                    "papers’ advice: embeddings high"
                </button>
            </div>
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
                .map(|group| {
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
                })
                .collect_view()}
            <label class="switch">
                <input
                    type="checkbox"
                    data-testid="same-for-all"
                    prop:checked=move || rates.get().single().is_some()
                    on:change=move |event| {
                        // Unticked it changes nothing: the sliders are there to make the groups differ.
                        if event_target_checked(&event) {
                            settle(GroupRates::uniform(ZeroRate::nearest(twentieths(middle(&rates.get_untracked())))));
                        }
                    }
                />
                <span>"same for all"</span>
            </label>
        </div>
    }
}

/// The slider's nearest stop, so that two unlike rates give one that is easily said.
fn twentieths(rate: f64) -> f64 {
    (rate * 20.0).round().clamp(1.0, 19.0) / 20.0
}
