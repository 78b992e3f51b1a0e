//! The teacher's controls: a bar with the settings in force, and their editors.

use leptos::prelude::*;
use unmask_core::{Defence, OptimiserKind};
use unmask_wire::view::{Control, Phase};

use super::editors::{DataEditor, DefenceEditor, TrainingEditor};
use crate::page::{
    logic::{self, drafts::sgd_would_help},
    widgets::{
        feed::{Feed, Link},
        fields::{DiscardButton, Segments},
        optional, part,
        session::Teacher,
    },
};

/// Below this window height, in CSS pixels, an open editor would push the attacks' pictures out of view. A projector
/// with 720 lines is below it, a laptop's screen above.
const ROOM_FOR_AN_EDITOR: f64 = 800.0;

/// The settings in force, with a note on who may change them; for the teacher, `own`.
#[component]
pub fn Controls(feed: Feed, teacher: Teacher, own: ViewFn) -> impl IntoView {
    let note = move || {
        let hint = match feed.link.get() {
            Link::Recorded => "A recorded lesson: there is no room to control.",
            _ => "View only. To control the room, open the teacher link printed in the terminal.",
        };
        view! {
            <div class="controls-row"><p class="hint" data-testid="view-only">{hint}</p></div>
            <InForce feed/>
        }
    };
    view! {
        <section class="card controls" aria-label="Controls" data-testid="controls">
            <Show when=move || teacher.is_here() fallback=note>
                {own.run()}
            </Show>
        </section>
    }
}

/// Run controls, settings in force and editors.
#[component]
pub fn OwnControls(feed: Feed, teacher: Teacher) -> impl IntoView {
    let height = window().inner_height().ok().and_then(|height| height.as_f64());
    let is_defence_open = RwSignal::new(height.is_none_or(|height| height >= ROOM_FOR_AN_EDITOR));
    let is_training_open = RwSignal::new(false);
    let is_data_open = RwSignal::new(false);
    view! {
        <div class="controls-row">
            <Run feed teacher/>
            <AprilBlock feed teacher/>
            <div class="row folds">
                <Fold is_open=is_defence_open title="Defence" testid="fold-defence"/>
                <Fold is_open=is_training_open title="Training" testid="fold-training"/>
                <Fold is_open=is_data_open title="Data" testid="fold-data"/>
            </div>
        </div>
        <InForce feed/>
        <Refusal feed teacher/>
        <div class="editor" hidden=move || !is_defence_open.get()>
            <DefenceEditor feed teacher/>
            <Averaging feed teacher/>
        </div>
        <div class="editor" hidden=move || !is_training_open.get()><TrainingEditor feed teacher/></div>
        <div class="editor" hidden=move || !is_data_open.get()><DataEditor feed teacher/></div>
    }
}

/// A button that opens and closes an editor.
#[component]
fn Fold(is_open: RwSignal<bool>, title: &'static str, testid: &'static str) -> impl IntoView {
    view! {
        <button
            type="button"
            class="button"
            data-testid=testid
            aria-expanded=move || is_open.get().to_string()
            on:click=move |_| is_open.update(|open| *open = !*open)
        >
            {title} {move || if is_open.get() { " ▾" } else { " ▸" }}
        </button>
    }
}

/// The defence in force, its guarantee, and pending changes.
#[component]
fn InForce(feed: Feed) -> impl IntoView {
    let defence = feed.part(|room| room.defence);
    let next = feed.optional(|room| {
        let next = logic::next(room.next.as_ref()?, room.architecture);
        (!next.is_empty()).then(|| format!("from the next round: {next}"))
    });
    let guarantee = feed.optional(|room| room.guarantee.as_ref().map(|guarantee| guarantee.sentence.clone()));
    let encryption = feed.optional(|room| room.encryption.clone());
    view! {
        <div class="in-force">
            <p>
                "In force: "
                <b data-testid="defence" data-defence=part(defence, Defence::to_string)>
                    {part(defence, Defence::phrase)}
                </b>
                <span class="next" data-testid="next">{next}</span>
            </p>
            <p class="promise" data-testid="guarantee" hidden=move || guarantee.with(Option::is_none)>
                {guarantee}
            </p>
            <p
                class="promise"
                data-testid="encryption"
                data-start=part(encryption, |encryption| encryption.start.name())
                data-sealed-by=optional(encryption, |encryption| encryption.sealed_by.clone())
                hidden=move || encryption.with(Option::is_none)
            >
                {part(encryption, logic::encryption)}
            </p>
        </div>
    }
}

/// How updates are averaged and which attackers that does not stop. It is next to the choice of defence, which may stop
/// even fewer.
#[component]
fn Averaging(feed: Feed, teacher: Teacher) -> impl IntoView {
    let aggregation = feed.part(|room| (room.aggregation, room.encryption.is_some()));
    let wanted = feed.part(|room| room.next.as_ref().and_then(|next| next.aggregation).unwrap_or(room.aggregation));
    let defence = feed.part(|room| room.next.as_ref().and_then(|next| next.defence).unwrap_or(room.defence));
    let options = logic::AGGREGATIONS.map(|by| (by.name(), by.name(), by.title(), ""));
    let choose = move |name: &'static str| {
        let chosen = logic::AGGREGATIONS.into_iter().find(|aggregation| aggregation.name() == name);
        if let Some(aggregation) = chosen {
            let aggregation = logic::fitting(aggregation, defence.get_untracked().unwrap_or_default());
            teacher.send(Control::Aggregation { aggregation });
        }
    };
    view! {
        <Segments
            row="aggregation"
            options=options.to_vec()
            chosen=Signal::derive(move || wanted.get().unwrap_or_default().name())
            on_choose=choose
        />
        <p class="hint" data-testid="aggregation" data-aggregation=part(aggregation, |(aggregation, _)| aggregation.to_string())>
            {part(aggregation, |(aggregation, is_encrypted)| logic::aggregation(*aggregation, *is_encrypted))}
        </p>
    }
}

/// Why the relay refused the last control, and a fix if there is one.
#[component]
fn Refusal(feed: Feed, teacher: Teacher) -> impl IntoView {
    let wanted = feed.part(|room| {
        let next = room.next.clone().unwrap_or_default();
        (next.defence.unwrap_or(room.defence), next.rule.unwrap_or(room.rule), next.optimiser.unwrap_or(room.optimiser))
    });
    // Once the room has changed, the refusal may no longer apply.
    Effect::new(move |last: Option<Option<_>>| {
        let now = wanted.get();
        if last.is_some_and(|last| last != now) {
            teacher.forget_problem();
        }
        now
    });
    let remedy = move || {
        let refused = teacher.refused.get()?;
        let (defence, rule, optimiser) = wanted.get()?;
        let would_help = match &refused {
            Control::Defence { defence } => sgd_would_help(*defence, rule, optimiser),
            Control::Rule { rule } => sgd_would_help(defence, *rule, optimiser),
            _ => false,
        };
        would_help.then_some(refused)
    };
    view! {
        <div class="refusal row">
            <p class="problem" role="alert" data-testid="control-error">{move || teacher.problem.get()}</p>
            <button
                type="button"
                class="button accent"
                data-testid="use-sgd"
                hidden=move || remedy().is_none()
                on:click=move |_| {
                    if let Some(refused) = remedy() {
                        teacher.send_all(vec![Control::Optimiser { optimiser: OptimiserKind::SGD }, refused]);
                    }
                }
            >
                "Use SGD"
            </button>
        </div>
    }
}

#[component]
fn Run(feed: Feed, teacher: Teacher) -> impl IntoView {
    let is_paused = feed.part(|room| room.phase == Phase::Paused);
    let is_running = move || is_paused.get() == Some(false);
    view! {
        <div class="run row" role="group" aria-label="Rounds">
            <button
                type="button"
                class="button"
                class:accent=is_running
                data-testid="start"
                aria-pressed=move || is_running().to_string()
                on:click=move |_| teacher.send(Control::Start)
            >
                "▶ Start"
            </button>
            <button
                type="button"
                class="button"
                class:accent=move || !is_running()
                data-testid="pause"
                aria-pressed=move || (!is_running()).to_string()
                on:click=move |_| teacher.send(Control::Pause)
            >
                "❚❚ Pause"
            </button>
            <button type="button" class="button" data-testid="one-round" on:click=move |_| teacher.send(Control::OneRound)>
                "One round"
            </button>
            <DiscardButton feed testid="reset" title="Reset" on_confirm=move |()| teacher.send(Control::Reset)/>
        </div>
    }
}

#[component]
fn AprilBlock(feed: Feed, teacher: Teacher) -> impl IntoView {
    let wanted = feed
        .part(|room| room.next.as_ref().and_then(|next| next.architecture).unwrap_or(room.architecture).april_block());
    let is_on = RwSignal::new(false);
    teacher.follow(wanted, move |wanted| is_on.set(wanted));
    view! {
        <label class="switch" title="A first block without norm and residual, which the APRIL attack needs. Resets the model.">
            <input
                type="checkbox"
                role="switch"
                data-testid="april-block"
                prop:checked=move || is_on.get()
                on:change=move |event| {
                    is_on.set(event_target_checked(&event));
                    teacher.send(Control::AprilBlock { on: is_on.get_untracked() });
                }
            />
            <span>"April block"<small>" resets the model"</small></span>
        </label>
    }
}
