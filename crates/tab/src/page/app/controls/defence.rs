//! The choice of a defence and its parameters.

use leptos::prelude::*;
use unmask_core::{Defence, DefenceKind, EncryptionStart, GaussianNoise};
use unmask_wire::view::Control;

use super::rates::RatesEditor;
use crate::page::{
    app::{
        feed::Feed,
        fields::{NumberField, Segments},
        teacher::Teacher,
    },
    drafts::{DefenceDraft, read_noise},
    words,
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
        view! { <NumberField label title testid value=Signal::derive(move || words::number(parts(noise())[place])) on_change/> }
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
