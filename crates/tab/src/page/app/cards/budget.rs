//! How much time the attacks may take, and what they took.

use leptos::prelude::*;
use unmask_wire::view::Control;

use crate::page::{
    app::{
        feed::Feed,
        fields::NumberField,
        signals::{optional, part},
        teacher::Teacher,
    },
    drafts::read_budget,
    words,
};

/// The seconds per round, which the teacher sets, the time spent, and what was left out.
#[component]
pub fn Budget(feed: Feed, teacher: Teacher) -> impl IntoView {
    let seconds = feed.part(|room| room.budget.seconds);
    let budget = feed.part(|room| room.budget.clone());
    let typed = RwSignal::new(String::new());
    teacher.follow(seconds, move |seconds| typed.set(words::number(seconds)));
    view! {
        <div class="budget" data-testid="budget" data-seconds=part(seconds, f64::to_string)>
            <Show when=move || teacher.is_here()>
                <NumberField
                    label="attack time, seconds per round"
                    title="time that the attacks may take in a round; training never waits for them"
                    testid="attack-budget"
                    value=typed
                    on_change=move |text: String| match read_budget(&text) {
                        Ok(seconds) => teacher.send(Control::AttackBudget { seconds }),
                        Err(problem) => teacher.problem.set(Some(problem)),
                    }
                />
            </Show>
            <p class="sub">
                {part(budget, words::attack_time_spent)}
                <b data-testid="skipped">
                    {optional(budget, |budget| words::attacks_skipped(budget).map(|skipped| format!(" · {skipped}")))}
                </b>
            </p>
        </div>
    }
}
