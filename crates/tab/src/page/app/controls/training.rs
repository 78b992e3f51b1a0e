//! The choice of rule, batch size and server step.

use leptos::prelude::*;
use unmask_core::{OptimiserKind, Rule};
use unmask_wire::view::Control;

use super::{number::NumberField, segment::Segment};
use crate::page::{
    app::{feed::Feed, projector::Teacher},
    policy::{read_batch, read_fedavg, read_step},
    words,
};

/// What the training controls show.
#[derive(Clone, Copy, PartialEq)]
struct Draft {
    rule: Rule,
    /// FedAvg's parameters, also while FedSGD is chosen.
    fedavg: (u16, f32),
    step: OptimiserKind,
    batch: u16,
}

impl Default for Draft {
    fn default() -> Self {
        Self { rule: Rule::FedSgd, fedavg: (1, 0.1), step: OptimiserKind::ADAM, batch: 1 }
    }
}

impl Draft {
    fn follow(&mut self, (rule, step, batch): (Rule, OptimiserKind, u16)) {
        if let Rule::FedAvg { epochs, rate } = rule {
            self.fedavg = (epochs, rate);
        }
        (self.rule, self.step, self.batch) = (rule, step, batch);
    }

    fn fedavg(&self) -> Rule {
        let (epochs, rate) = self.fedavg;
        Rule::FedAvg { epochs, rate }
    }
}

/// Rule, local epochs and rate, batch size, server step.
#[component]
pub fn TrainingEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(Draft::default());
    let wanted = feed.part(|room| {
        let next = room.next.clone().unwrap_or_default();
        (next.rule.unwrap_or(room.rule), next.optimiser.unwrap_or(room.optimiser), next.batch.unwrap_or(room.batch))
    });
    let follow = move |wanted: Option<(Rule, OptimiserKind, u16)>| {
        if let Some(wanted) = wanted {
            draft.update(|draft| draft.follow(wanted));
        }
    };
    Effect::new(move |_| follow(wanted.get()));
    teacher.on_failure(move || follow(wanted.get_untracked()));

    let problem = move |problem: String| teacher.problem.set(Some(problem));
    let choose_rule = move |rule: Rule| {
        draft.update(|draft| draft.rule = rule);
        teacher.send(Control::Rule { rule });
    };
    let choose_step = move |step: OptimiserKind| {
        draft.update(|draft| draft.step = step);
        teacher.send(Control::Optimiser { optimiser: step });
    };
    let type_local = move |epochs: Option<String>, rate: Option<String>| {
        let (known_epochs, known_rate) = draft.get_untracked().fedavg;
        let epochs = epochs.unwrap_or_else(|| known_epochs.to_string());
        let rate = rate.unwrap_or_else(|| known_rate.to_string());
        match read_fedavg(&epochs, &rate) {
            Ok(rule) => choose_rule(rule),
            Err(error) => problem(error.to_string()),
        }
    };
    let is_fedavg = Memo::new(move |_| draft.get().rule.is_fedavg());
    let is_adam = Memo::new(move |_| draft.get().step.is_adam());
    view! {
        <div class="training">
            <fieldset class="row">
                <legend class="hidden">"Update rule"</legend>
                <div class="segments">
                    <Segment
                        row="rule"
                        testid="rule-fedsgd".to_owned()
                        title="FedSGD"
                        tip="Each tab sends the gradient of one batch; the server takes the step."
                        is_chosen=Signal::derive(move || !is_fedavg.get())
                        on_choose=move |()| choose_rule(Rule::FedSgd)
                    />
                    <Segment
                        row="rule"
                        testid="rule-fedavg".to_owned()
                        title="FedAvg"
                        tip="Each tab takes its own steps and sends weights; they are averaged by number of pictures."
                        is_chosen=Signal::derive(move || is_fedavg.get())
                        on_choose=move |()| choose_rule(draft.get_untracked().fedavg())
                    />
                </div>
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
                        Err(error) => problem(error.to_string()),
                    }
                />
            </fieldset>
            <fieldset class="row" disabled=move || !is_fedavg.get()>
                <legend class="hidden">"In each tab"</legend>
                <NumberField
                    label="local epochs"
                    title="passes over a tab’s pictures in each round"
                    testid="epochs"
                    value=Signal::derive(move || draft.get().fedavg.0.to_string())
                    on_change=move |text| type_local(Some(text), None)
                />
                <NumberField
                    label="local rate"
                    title="learning rate of the tabs’ own steps"
                    testid="local-rate"
                    value=Signal::derive(move || words::number(draft.get().fedavg.1.into()))
                    on_change=move |text| type_local(None, Some(text))
                />
            </fieldset>
            <fieldset class="row" disabled=move || is_fedavg.get()>
                <legend class="hidden">"Step of the server"</legend>
                <div class="segments">
                    <Segment
                        row="optimiser"
                        testid="optimiser-sgd".to_owned()
                        title="SGD"
                        is_chosen=Signal::derive(move || !is_adam.get())
                        on_choose=move |()| choose_step(OptimiserKind::SGD)
                    />
                    <Segment
                        row="optimiser"
                        testid="optimiser-adam".to_owned()
                        title="Adam"
                        is_chosen=Signal::derive(move || is_adam.get())
                        on_choose=move |()| choose_step(OptimiserKind::ADAM)
                    />
                </div>
                <NumberField
                    label="server rate"
                    title="learning rate of the server’s step, per round"
                    testid="optimiser-rate"
                    value=Signal::derive(move || words::number(draft.get().step.rate().into()))
                    on_change=move |text: String| match read_step(draft.get_untracked().step, &text) {
                        Ok(step) => choose_step(step),
                        Err(error) => problem(error.to_string()),
                    }
                />
            </fieldset>
            <p class="hint" data-testid="optimiser-reason" hidden=move || !is_fedavg.get()>
                "FedAvg averages weights, so there is no step of the server to choose."
            </p>
        </div>
    }
}
