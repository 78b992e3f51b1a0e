//! The choice of a defence and its parameters.

use leptos::prelude::*;
use unmask_core::{Defence, DefenceKind, EncryptionStart, GaussianNoise};
use unmask_wire::view::Control;

use super::{number::NumberField, rates::RatesEditor, segment::Segment};
use crate::page::{
    app::{feed::Feed, projector::Teacher},
    policy::{DefenceDraft, read_noise},
    words,
};

/// FLRSP's Table 1: epsilon of each row; delta and S_f are 0.5 in all of them.
const TABLE: [(&str, &str); 3] = [("1", "eps-1"), ("2", "eps-2"), ("4", "eps-4")];

/// One segment for each defence, and the parameters of the one chosen.
#[component]
pub fn DefenceEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(DefenceDraft::default());
    let wanted = feed.part(|room| room.next.as_ref().and_then(|next| next.defence).unwrap_or(room.defence));
    let follow = move |wanted: Option<Defence>| {
        if let Some(defence) = wanted {
            draft.update(|draft| draft.follow(defence));
        }
    };
    // Another teacher's page, or the relay's own start options, may have chosen.
    Effect::new(move |_| follow(wanted.get()));
    teacher.on_failure(move || follow(wanted.get_untracked()));
    let send = move || teacher.send(Control::Defence { defence: draft.get_untracked().defence() });
    let choice = Memo::new(move |_| draft.get().choice);
    let is_encrypted = feed.part(|room| room.defence.is_encrypted());
    view! {
        <fieldset class="defence">
            <legend class="hidden">"Defence"</legend>
            <div class="segments">
                {DefenceKind::ALL
                    .into_iter()
                    .map(|segment| {
                        let choose = move |()| {
                            draft.update(|draft| draft.choice = segment);
                            send();
                        };
                        view! {
                            <Segment
                                row="defence"
                                testid=format!("defence-{}", segment.name())
                                title=segment.title()
                                tip=segment.sentence()
                                is_chosen=Signal::derive(move || choice.get() == segment)
                                on_choose=choose
                            />
                        }
                    })
                    .collect_view()}
            </div>
            <p class="hint">
                {move || choice.get().sentence()}
                <b data-testid="encrypted-reset" hidden=move || is_encrypted.get() != Some(true)>
                    " Leaving Encrypted, or changing its start, resets the model: the relay cannot decrypt the weights."
                </b>
            </p>
            {move || match choice.get() {
                DefenceKind::RandomBinary | DefenceKind::FrozenBinary => {
                    view! {
                        <RatesEditor
                            rates=Signal::derive(move || draft.get().rates)
                            on_move=move |rates| draft.update(|draft| draft.rates = rates)
                            on_settled=move |()| send()
                        />
                    }
                        .into_any()
                }
                DefenceKind::Gaussian => view! { <Noise draft teacher/> }.into_any(),
                DefenceKind::Encrypted => view! { <Starts draft on_change=move |()| send()/> }.into_any(),
                DefenceKind::None | DefenceKind::FixedPosition => ().into_any(),
            }}
        </fieldset>
    }
}

/// Epsilon, delta and S_f.
#[component]
fn Noise(draft: RwSignal<DefenceDraft>, teacher: Teacher) -> impl IntoView {
    let noise = move || draft.get().noise;
    let take = move |read: Result<GaussianNoise, String>| match read {
        Ok(noise) => {
            draft.update(|draft| draft.noise = noise);
            teacher.send(Control::Defence { defence: Defence::Gaussian(noise) });
        }
        Err(problem) => teacher.problem.set(Some(problem)),
    };
    let parts = move || {
        let noise = draft.get_untracked().noise;
        [noise.epsilon().to_string(), noise.delta().to_string(), noise.clip().to_string()]
    };
    let typed = move |place: usize, text: String| {
        let mut parts = parts();
        parts[place] = text;
        let [epsilon, delta, clip] = parts;
        take(read_noise(&epsilon, &delta, &clip).map_err(|error| error.to_string()));
    };
    view! {
        <div class="row">
            <NumberField
                label="ε"
                title="epsilon asked of one round"
                testid="eps"
                value=Signal::derive(move || words::number(noise().epsilon()))
                on_change=move |text| typed(0, text)
            />
            <NumberField
                label="δ"
                title="delta asked of one round"
                testid="delta"
                value=Signal::derive(move || words::number(noise().delta()))
                on_change=move |text| typed(1, text)
            />
            <NumberField
                label="clip S_f"
                title="S_f, the length to which an update is shortened"
                testid="clip"
                value=Signal::derive(move || words::number(noise().clip()))
                on_change=move |text| typed(2, text)
            />
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
                                title="δ = 0.5 and S_f = 0.5: a mechanism that publishes every second picture would satisfy it"
                                on:click=move |_| take(read_noise(epsilon, "0.5", "0.5").map_err(|error| error.to_string()))
                            >
                                {format!("ε = {epsilon}")}
                            </button>
                        }
                    })
                    .collect_view()}
            </div>
        </div>
        <p class="hint" data-testid="deviation" data-deviation=move || noise().deviation().to_string()>
            {move || words::deviation(&noise())}
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
            "a tab makes new weights that the relay never sees in the plain; resets the model",
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
                                prop:checked=move || draft.get().start == start
                                on:change=move |_| {
                                    draft.update(|draft| draft.start = start);
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
