//! The choice of rule, batch size and server step.

use leptos::prelude::*;
use unmask_core::{OptimiserKind, Rule};
use unmask_wire::view::Control;

use crate::page::{
    app::{
        feed::Feed,
        fields::{NumberField, Segments},
        teacher::Teacher,
    },
    drafts::{TrainingDraft, read_batch, read_fedavg, read_optimiser},
    words,
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
                    value=Signal::derive(move || words::number(local().1.into()))
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
                    value=Signal::derive(move || words::number(draft.get().optimiser.rate().into()))
                    on_change=move |text: String| match read_optimiser(draft.get_untracked().optimiser, &text) {
                        Ok(optimiser) => choose_optimiser(optimiser),
                        Err(error) => problem(error.to_string()),
                    }
                />
            </fieldset>
            <p class="hint" data-testid="optimiser-reason" hidden=move || !is_fedavg.get()>
                "FedAvg averages weights, so the server takes no step."
            </p>
        </div>
    }
}
