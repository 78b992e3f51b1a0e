//! What several rounds of one client gave away together.

use leptos::prelude::*;
use unmask_wire::view::{Control, GatheredView};

use crate::page::{
    app::{
        signals::{holds, part},
        teacher::{Problem, Teacher},
    },
    words,
};

/// How much is still hidden beside what chance expects, and how far it is to a least-squares solution.
#[component]
pub fn GatheredRounds(gathered: Memo<Option<GatheredView>>, teacher: Teacher) -> impl IntoView {
    let has_drifted = holds(gathered, |gathered| gathered.has_drifted);
    let percent = |share: f64| format!("{:.1}%", (share * 100.0).clamp(0.0, 100.0));
    let hidden = part(gathered, move |gathered| format!("width:{}", percent(gathered.hidden)));
    let expected = part(gathered, move |gathered| format!("left:{}", percent(gathered.expected_hidden)));
    let problem = RwSignal::new(None);
    view! {
        <div class="gathered" data-testid="gathered" data-rounds=part(gathered, |gathered| gathered.rounds)>
            <p><b>{part(gathered, words::hidden_entries)}</b></p>
            <div class="meter" aria-hidden="true">
                <span class="meter-fill" style=hidden></span>
                <span class="meter-mark" style=expected></span>
            </div>
            <p class="sub">{part(gathered, words::equations)}</p>
            <p class="remark" data-testid="drifted" hidden=move || !has_drifted()>
                "The model has moved too far since the first of these rounds. Another round would spoil more than it shows, so none is added."
            </p>
            <Show when=move || teacher.is_here()>
                <div class="hand">
                    <button
                        type="button"
                        class="button small"
                        class:accent=has_drifted
                        data-testid="gather-anew"
                        on:click=move |_| teacher.ask(Control::GatherAnew, problem)
                    >
                        "Start over"
                    </button>
                    <Problem problem/>
                </div>
            </Show>
        </div>
    }
}
