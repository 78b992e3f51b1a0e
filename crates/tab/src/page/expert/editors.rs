//! Editors for the teacher: the defence and its parameters; rule, batch size, server optimiser and model; the training
//! data and the initial weights.

use leptos::prelude::*;
use unmask_core::{
    Architecture, Defence, DefenceKind, EncryptionStart, GaussianNoise, InitialWeights, OptimiserKind, Rule, TrainOn,
};
use unmask_wire::view::Control;

use super::rates::RatesEditor;
use crate::page::{
    logic::{
        self,
        drafts::{DataDraft, DefenceDraft, TrainingDraft, read_batch, read_fedavg, read_noise, read_optimiser},
        learning,
    },
    widgets::{
        feed::Feed,
        fields::{DiscardButton, NumberField, Segments},
        part,
        session::Teacher,
    },
};

/// The epsilon of each row of FLRSP's Table 1; delta and S_f are 0.5 in all of them.
const TABLE: [(&str, &str); 3] = [("1", "eps-1"), ("2", "eps-2"), ("4", "eps-4")];

/// One segment for each defence, and the parameters of the chosen one.
#[component]
pub fn DefenceEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(DefenceDraft::default());
    let wanted = feed.part(|room| room.next.as_ref().and_then(|next| next.defence).unwrap_or(room.defence));
    // Another teacher's page or the relay's start options may have chosen one.
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

#[component]
fn Noise(draft: RwSignal<DefenceDraft>, teacher: Teacher) -> impl IntoView {
    let noise = move || draft.get().noise();
    let parts = |noise: GaussianNoise| [noise.epsilon(), noise.delta(), noise.sensitivity()];
    let take = move |parts: [&str; 3]| match read_noise(draft.get_untracked().noise(), parts) {
        Ok(noise) => {
            draft.update(|draft| draft.change(Defence::Gaussian(noise)));
            teacher.send(Control::Defence { defence: Defence::Gaussian(noise) });
        }
        Err(error) => teacher.problem.set(Some(error.to_string())),
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
        view! { <NumberField label title testid value=Signal::derive(move || logic::number(parts(noise())[place])) on_change/> }
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
            {move || logic::deviation(&noise())}
        </p>
    }
}

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

/// Rule, local epochs and rate, batch size, server optimiser.
#[component]
pub fn TrainingEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(TrainingDraft::default());
    let wanted = feed.part(|room| {
        let next = room.next.clone().unwrap_or_default();
        (next.rule.unwrap_or(room.rule), next.optimiser.unwrap_or(room.optimiser), next.batch.unwrap_or(room.batch))
    });
    teacher.follow(wanted, move |(rule, optimiser, batch)| draft.update(|draft| draft.follow(rule, optimiser, batch)));
    let is_fedavg = Memo::new(move |_| draft.get().rule.is_fedavg());
    view! {
        <div class="training">
            <RuleFields draft teacher is_fedavg/>
            <LocalFields draft teacher is_fedavg/>
            <ServerFields draft teacher is_fedavg/>
            <ModelPreset feed teacher/>
            <p class="hint" data-testid="optimiser-reason" hidden=move || !is_fedavg.get()>
                "FedAvg averages weights, so the server takes no step."
            </p>
        </div>
    }
}

fn choose_rule(draft: RwSignal<TrainingDraft>, teacher: Teacher, rule: Rule) {
    draft.update(|draft| draft.rule = rule);
    teacher.send(Control::Rule { rule });
}

/// The update rule and the batch size.
#[component]
fn RuleFields(draft: RwSignal<TrainingDraft>, teacher: Teacher, is_fedavg: Memo<bool>) -> impl IntoView {
    view! {
        <fieldset class="row">
            <legend class="hidden">"Update rule"</legend>
            <Segments
                row="rule"
                options=vec![
                    (false, "fedsgd", "FedSGD", "Each tab sends the gradient of one batch; the server takes the step."),
                    (
                        true,
                        "fedavg",
                        "FedAvg",
                        "Each tab takes steps of its own and sends its weights; the server averages them by number of pictures.",
                    ),
                ]
                chosen=is_fedavg
                on_choose=move |is_fedavg| choose_rule(draft, teacher, if is_fedavg { draft.get_untracked().fedavg } else { Rule::FedSgd })
            />
            <NumberField
                label="batch"
                title="pictures per step; a tab has one, headless clients may have more"
                testid="batch"
                value=Signal::derive(move || draft.get().batch.to_string())
                on_change=move |text: String| match read_batch(&text) {
                    Ok(samples) => {
                        draft.update(|draft| draft.batch = samples);
                        teacher.send(Control::Batch { samples });
                    }
                    Err(error) => teacher.problem.set(Some(error)),
                }
            />
        </fieldset>
    }
}

/// FedAvg's steps in each tab.
#[component]
fn LocalFields(draft: RwSignal<TrainingDraft>, teacher: Teacher, is_fedavg: Memo<bool>) -> impl IntoView {
    let choose_fedavg = move |epochs: &str, rate: &str| match read_fedavg(epochs, rate) {
        Ok(rule) => choose_rule(draft, teacher, rule),
        Err(error) => teacher.problem.set(Some(error.to_string())),
    };
    let local = move || draft.get().local();
    view! {
        <fieldset class="row" disabled=move || !is_fedavg.get()>
            <legend class="hidden">"In each tab"</legend>
            <NumberField
                label="local epochs"
                title="passes over a tab’s pictures in each round"
                testid="epochs"
                value=Signal::derive(move || local().0.to_string())
                on_change=move |text: String| choose_fedavg(&text, &draft.get_untracked().local().1.to_string())
            />
            <NumberField
                label="local rate"
                title="learning rate of the tabs’ own steps"
                testid="local-rate"
                value=Signal::derive(move || logic::number(local().1.into()))
                on_change=move |text: String| choose_fedavg(&draft.get_untracked().local().0.to_string(), &text)
            />
        </fieldset>
    }
}

/// The server's step, which only FedSGD has.
#[component]
fn ServerFields(draft: RwSignal<TrainingDraft>, teacher: Teacher, is_fedavg: Memo<bool>) -> impl IntoView {
    let choose_optimiser = move |optimiser: OptimiserKind| {
        draft.update(|draft| draft.optimiser = optimiser);
        teacher.send(Control::Optimiser { optimiser });
    };
    view! {
        <fieldset class="row" disabled=move || is_fedavg.get()>
            <legend class="hidden">"Step of the server"</legend>
            <Segments
                row="optimiser"
                options=[OptimiserKind::SGD, OptimiserKind::ADAM].map(|kind| (kind, kind.name(), kind.title(), "")).to_vec()
                chosen=Signal::derive(move || if draft.get().optimiser.is_adam() { OptimiserKind::ADAM } else { OptimiserKind::SGD })
                on_choose=choose_optimiser
            />
            <NumberField
                label="server rate"
                title="learning rate of the server’s step, per round"
                testid="optimiser-rate"
                value=Signal::derive(move || logic::number(draft.get().optimiser.rate().into()))
                on_change=move |text: String| match read_optimiser(draft.get_untracked().optimiser, &text) {
                    Ok(optimiser) => choose_optimiser(optimiser),
                    Err(error) => teacher.problem.set(Some(error.to_string())),
                }
            />
        </fieldset>
    }
}

/// Switches to another model: any preset, from scratch.
#[component]
fn ModelPreset(feed: Feed, teacher: Teacher) -> impl IntoView {
    let coming = feed.part(|room| room.next.as_ref().and_then(|next| next.architecture).unwrap_or(room.architecture));
    let chosen = RwSignal::new(String::new());
    teacher.follow(coming, move |coming| chosen.set(coming.name().into_owned()));
    let option = move |name: &'static str| {
        view! { <option value=name selected=move || chosen.with(|chosen| chosen == name)>{name}</option> }
    };
    view! {
        <div class="row">
            <label class="number">
                <span>"model"</span>
                <select
                    data-testid="model-preset"
                    prop:value=move || chosen.get()
                    on:change=move |event| chosen.set(event_target_value(&event))
                >
                    // A model that is not a preset is shown by name until another is chosen.
                    <option value="" hidden>{move || chosen.get()}</option>
                    {Architecture::names().map(option).collect_view()}
                </select>
            </label>
            <DiscardButton
                feed
                testid="model-preset-begin"
                title="Start with this model"
                on_confirm=move |()| {
                    teacher.send(Control::Architecture {
                        name: chosen.get_untracked(),
                        april_block: untrack(|| coming.get()).is_some_and(Architecture::april_block),
                        initial_weights: InitialWeights::Scratch,
                    });
                }
            />
        </div>
    }
}

/// Private or shared pictures, the partition of the shared ones, and a new model.
#[component]
pub fn DataEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let data = feed.optional(|room| room.data.clone());
    view! {
        <div class="data">
            <Show
                when=move || data.with(Option::is_some)
                fallback=|| view! { <p class="hint">"This room has no shared pictures. Start the relay with --data to have some."</p> }
            >
                <Pictures feed teacher/>
                <p class="hint" data-testid="data" data-ready=part(data, |data| data.is_ready.to_string())>
                    {part(data, learning::data_set)}
                </p>
            </Show>
            <NewModel feed teacher/>
        </div>
    }
}

/// Private or shared pictures, and the partition of the shared ones.
#[component]
fn Pictures(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(DataDraft::default());
    let wanted = feed.optional(|room| {
        let data = room.data.as_ref()?;
        let next = room.next.clone().unwrap_or_default();
        Some((next.train_on.unwrap_or(data.train_on), next.partition.unwrap_or(data.partition)))
    });
    teacher.follow(wanted, move |(train_on, partition)| draft.update(|draft| draft.follow(train_on, partition)));
    view! {
        <TrainOnFields draft teacher/>
        <PartitionFields draft teacher/>
    }
}

#[component]
fn TrainOnFields(draft: RwSignal<DataDraft>, teacher: Teacher) -> impl IntoView {
    view! {
        <fieldset class="row">
            <legend class="hidden">"What the rounds train on"</legend>
            <span class="sub">"Train on"</span>
            <Segments
                row="train-on"
                options=vec![
                    (TrainOn::Private, "private", "Private pictures", "each client’s own picture, which never leaves its device"),
                    (
                        TrainOn::Shared,
                        "shared",
                        "Shared pictures",
                        "a share of a public data set for each client, so that the model learns something",
                    ),
                ]
                chosen=Signal::derive(move || draft.get().train_on)
                on_choose=move |pictures| {
                    draft.update(|draft| draft.train_on = pictures);
                    teacher.send(Control::TrainOn { pictures });
                }
            />
        </fieldset>
    }
}

#[component]
fn PartitionFields(draft: RwSignal<DataDraft>, teacher: Teacher) -> impl IntoView {
    let send_partition = move || teacher.send(Control::Partition { partition: draft.get_untracked().partition() });
    let is_skewed = Memo::new(move |_| draft.get().is_skewed);
    let alpha = move || logic::number(draft.get().alpha);
    view! {
        <fieldset class="row">
            <legend class="hidden">"How the shared pictures are divided"</legend>
            <span class="sub">"divided"</span>
            <Segments
                row="partition"
                options=vec![
                    (false, "iid", "Evenly", "IID: every client gets some of everything"),
                    (true, "dirichlet", "By Dirichlet", "non-IID: each class is divided unevenly; the smaller alpha, the more unevenly"),
                ]
                chosen=is_skewed
                on_choose=move |is_skewed| {
                    draft.update(|draft| draft.is_skewed = is_skewed);
                    send_partition();
                }
            />
            <label class="slider" class:disabled=move || !is_skewed.get()>
                <span class="slider-value">"α = " {alpha}</span>
                <input
                    type="range"
                    min="0"
                    max=DataDraft::LAST_POSITION.to_string()
                    step="1"
                    data-testid="alpha"
                    aria-label="alpha: the smaller, the fewer classes a client has"
                    aria-valuetext=alpha
                    disabled=move || !is_skewed.get()
                    prop:value=move || draft.get().position().to_string()
                    on:input=move |event| {
                        if let Ok(position) = event_target_value(&event).parse() {
                            draft.update(|draft| draft.slide(position));
                        }
                    }
                    on:change=move |_| send_partition()
                />
            </label>
        </fieldset>
    }
}

/// Starts a new model with random or pretrained weights.
#[component]
fn NewModel(feed: Feed, teacher: Teacher) -> impl IntoView {
    let start = feed.part(|room| room.initial_weights);
    let pretrained = feed.optional(|room| room.pretrained.clone());
    let begin = move |initial_weights| teacher.send(Control::Model { initial_weights });
    view! {
        <div class="row">
            <span class="sub">
                "The model started "
                <b data-testid="model-start" data-start=part(start, |start| start.name())>
                    {part(start, |start| learning::initial_weights(*start))}
                </b>
                ". New model:"
            </span>
            <DiscardButton
                feed
                testid="model-scratch"
                title="From scratch"
                on_confirm=move |()| begin(InitialWeights::Scratch)
            />
            <DiscardButton
                feed
                testid="model-pretrained"
                title="Pretrained"
                is_disabled=Signal::derive(move || pretrained.with(Option::is_none))
                on_confirm=move |()| begin(InitialWeights::Pretrained)
            />
        </div>
        <p class="hint">
            {move || {
                pretrained.get().unwrap_or_else(|| "There are no pretrained weights for this room’s model.".to_owned())
            }}
        </p>
    }
}
