//! The teacher's controls.

use leptos::prelude::*;
use unmask_wire::view::{Control, Phase};

use super::{feed::Feed, projector::Teacher};
use crate::page::{
    policy::{self, Choice, rate, read_rate},
    words,
};

/// Run controls, defence and April block; without the token a note on where to get it.
#[component]
pub fn Controls(
    /// The room.
    feed: Feed,
    /// Who may use them.
    teacher: Teacher,
) -> impl IntoView {
    let defence = feed.part(|room| room.defence.clone());
    let next = feed.part(|room| room.next.clone());
    view! {
        <section class="card controls" aria-label="Controls" data-testid="controls">
            <div class="controls-row">
                <Show
                    when=move || teacher.may_drive()
                    fallback=|| {
                        view! { <p class="hint" data-testid="view-only">"View only: open the teacher link printed in the terminal."</p> }
                    }
                >
                    <Run feed teacher/>
                </Show>
                <p class="in-force">
                    "Defence in force: "
                    <b data-testid="defence" data-defence=move || defence.get()>
                        {move || defence.get().map(|defence| words::defence(&defence))}
                    </b>
                    <span class="next" data-testid="next">
                        {move || next.get().flatten().map(|next| format!("from the next round: {}", words::next(&next)))}
                    </span>
                </p>
                <Show when=move || teacher.may_drive()>
                    <Defence feed teacher/>
                    <AprilBlock feed teacher/>
                </Show>
            </div>
            <p class="problem" role="alert" data-testid="control-error">{move || teacher.problem.get()}</p>
        </section>
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
                class:accent=move || !is_running()
                data-testid="start"
                on:click=move |_| teacher.send(Control::Start)
            >
                "▶ Start"
            </button>
            <button
                type="button"
                class="button"
                class:accent=is_running
                data-testid="pause"
                on:click=move |_| teacher.send(Control::Pause)
            >
                "❚❚ Pause"
            </button>
            <button type="button" class="button" data-testid="one-round" on:click=move |_| teacher.send(Control::OneRound)>
                "One round"
            </button>
            <button type="button" class="button" data-testid="reset" on:click=move |_| teacher.send(Control::Reset)>
                "Reset"
            </button>
        </div>
    }
}

#[component]
fn Defence(feed: Feed, teacher: Teacher) -> impl IntoView {
    let chosen = RwSignal::new(Choice::None);
    let twentieths = RwSignal::new(10_u8);
    let wanted = feed.part(|room| {
        let next = room.next.as_deref().and_then(policy::next_defence);
        next.unwrap_or(&room.defence).to_owned()
    });
    let follow = move |form: Option<String>| {
        if let Some((choice, rate)) = form.as_deref().and_then(Choice::read) {
            chosen.set(choice);
            if let Some(rate) = rate {
                twentieths.set(rate);
            }
        }
    };
    // Another teacher's page, or the relay's own start options, may have chosen.
    Effect::new(move |_| follow(wanted.get()));
    teacher.on_failure(move || follow(wanted.get_untracked()));
    let send = move || {
        teacher.send(Control::Defence { defence: chosen.get_untracked().form(twentieths.get_untracked()) });
    };
    view! {
        <fieldset class="defence">
            <legend class="hidden">"Defence"</legend>
            <div class="segments">
                {Choice::ALL
                    .into_iter()
                    .map(|choice| {
                        view! {
                            <label class="segment">
                                <input
                                    type="radio"
                                    name="defence"
                                    value=choice.key()
                                    data-testid=format!("defence-{}", choice.key())
                                    prop:checked=move || chosen.get() == choice
                                    on:change=move |_| {
                                        chosen.set(choice);
                                        send();
                                    }
                                />
                                <span>{choice.title()}</span>
                            </label>
                        }
                    })
                    .collect_view()}
            </div>
            <label class="slider">
                <span class="slider-value">"R = " {move || rate(twentieths.get())}</span>
                <input
                    type="range"
                    min="0.05"
                    max="0.95"
                    step="0.05"
                    data-testid="rate"
                    aria-label="R, the share of values zeroed"
                    aria-valuetext=move || rate(twentieths.get())
                    prop:value=move || rate(twentieths.get())
                    disabled=move || chosen.get() != Choice::RandomBinary
                    on:input=move |event| {
                        if let Some(value) = read_rate(&event_target_value(&event)) {
                            twentieths.set(value);
                        }
                    }
                    on:change=move |_| send()
                />
            </label>
        </fieldset>
    }
}

#[component]
fn AprilBlock(feed: Feed, teacher: Teacher) -> impl IntoView {
    let wanted = feed.part(|room| room.next.as_deref().and_then(policy::next_block).unwrap_or(room.april_block));
    let is_on = RwSignal::new(false);
    let follow = move |wanted: Option<bool>| is_on.set(wanted.unwrap_or(false));
    Effect::new(move |_| follow(wanted.get()));
    teacher.on_failure(move || follow(wanted.get_untracked()));
    view! {
        <label class="switch" title="A first block without norm and residual, as the APRIL attack needs it. Resets the model.">
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
