//! The choice of rule, batch size and server step; of what the room trains on, and of what the model starts from.

use leptos::prelude::*;
use unmask_core::{Architecture, InitialWeights, OptimiserKind, Rule, TrainOn};
use unmask_wire::view::Control;

use crate::page::{
    text::{
        self,
        drafts::{DataDraft, TrainingDraft, read_batch, read_fedavg, read_optimiser},
        learning,
    },
    widgets::{
        feed::Feed,
        fields::{DiscardButton, NumberField, Segments},
        part,
        session::Teacher,
    },
};

/// Rule, local epochs and rate, batch size, server step.
#[component]
pub fn TrainingEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(TrainingDraft::default());
    let wanted = feed.part(|room| {
        let next = room.next.clone().unwrap_or_default();
        (next.rule.unwrap_or(room.rule), next.optimiser.unwrap_or(room.optimiser), next.batch.unwrap_or(room.batch))
    });
    teacher.follow(wanted, move |(rule, optimiser, batch)| draft.update(|draft| draft.follow(rule, optimiser, batch)));

    let problem = move |problem: String| teacher.problem.set(Some(problem));
    let choose_rule = move |rule: Rule| {
        draft.update(|draft| draft.rule = rule);
        teacher.send(Control::Rule { rule });
    };
    let choose_optimiser = move |optimiser: OptimiserKind| {
        draft.update(|draft| draft.optimiser = optimiser);
        teacher.send(Control::Optimiser { optimiser });
    };
    let choose_fedavg = move |epochs: &str, rate: &str| match read_fedavg(epochs, rate) {
        Ok(rule) => choose_rule(rule),
        Err(error) => problem(error.to_string()),
    };
    let local = move || draft.get().local();
    let is_fedavg = Memo::new(move |_| draft.get().rule.is_fedavg());
    view! {
        <div class="training">
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
                    on_choose=move |is_fedavg| choose_rule(if is_fedavg { draft.get_untracked().fedavg } else { Rule::FedSgd })
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
                        Err(error) => problem(error),
                    }
                />
            </fieldset>
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
                    value=Signal::derive(move || text::number(local().1.into()))
                    on_change=move |text: String| choose_fedavg(&draft.get_untracked().local().0.to_string(), &text)
                />
            </fieldset>
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
                    value=Signal::derive(move || text::number(draft.get().optimiser.rate().into()))
                    on_change=move |text: String| match read_optimiser(draft.get_untracked().optimiser, &text) {
                        Ok(optimiser) => choose_optimiser(optimiser),
                        Err(error) => problem(error.to_string()),
                    }
                />
            </fieldset>
            <ModelPreset feed teacher/>
            <p class="hint" data-testid="optimiser-reason" hidden=move || !is_fedavg.get()>
                "FedAvg averages weights, so the server takes no step."
            </p>
        </div>
    }
}

/// Another model: any preset, from scratch.
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
                    // One that is no preset is shown by its own name until another is chosen.
                    <option value="" hidden>{move || chosen.get()}</option>
                    {Architecture::names().map(option).collect_view()}
                </select>
            </label>
            <DiscardButton
                feed
                testid="model-preset-begin"
                title="Begin with this model"
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

/// Private or shared pictures, how the shared ones are divided, and a new model.
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

/// Which pictures, and how the shared ones are divided.
#[component]
fn Pictures(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(DataDraft::default());
    let wanted = feed.optional(|room| {
        let data = room.data.as_ref()?;
        let next = room.next.clone().unwrap_or_default();
        Some((next.train_on.unwrap_or(data.train_on), next.partition.unwrap_or(data.partition)))
    });
    teacher.follow(wanted, move |(train_on, partition)| draft.update(|draft| draft.follow(train_on, partition)));
    let send_partition = move || teacher.send(Control::Partition { partition: draft.get_untracked().partition() });
    let is_skewed = Memo::new(move |_| draft.get().is_skewed);
    let alpha = move || text::number(draft.get().alpha);
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

/// A new model, with fresh weights or with trained ones.
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
