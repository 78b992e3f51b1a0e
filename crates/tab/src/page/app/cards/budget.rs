//! How much time the attacks may take, and what they took.

use leptos::prelude::*;
use unmask_wire::view::Control;

use crate::page::{
    app::{controls::NumberField, feed::Feed, projector::Teacher},
    policy::read_budget,
    words,
};

/// The seconds a round with the teacher's hand on them, the time spent, and what was left out.
#[component]
pub fn Budget(feed: Feed, teacher: Teacher) -> impl IntoView {
    let seconds = feed.part(|room| room.budget.seconds);
    let budget = feed.part(|room| room.budget.clone());
    let typed = RwSignal::new(String::new());
    let follow = move |seconds: Option<f64>| typed.set(seconds.map(words::number).unwrap_or_default());
    Effect::new(move |_| follow(seconds.get()));
    teacher.on_failure(move || follow(seconds.get_untracked()));
    view! {
        <div class="budget" data-testid="budget" data-seconds=move || seconds.get().map(|seconds| seconds.to_string())>
            <Show when=move || teacher.may_drive()>
                <NumberField
                    label="attack time, seconds a round"
                    title="time that the attacks may take in a round; training never waits for them"
                    testid="attack-budget"
                    value=typed
                    on_change=move |text: String| match read_budget(&text) {
                        Ok(seconds) => teacher.send(Control::AttackBudget { seconds }),
                        Err(error) => teacher.problem.set(Some(error.to_string())),
                    }
                />
            </Show>
            <p class="sub">
                {move || budget.with(|budget| budget.as_ref().map(words::spent))}
                <b data-testid="skipped">
                    {move || {
                        budget.with(|budget| budget.as_ref().and_then(words::skipped)).map(|skipped| format!(" · {skipped}"))
                    }}
                </b>
            </p>
        </div>
    }
}
