//! What several rounds of one client gave away together.

use leptos::prelude::*;
use unmask_wire::view::{Control, GatheredView};

use crate::page::{
    app::projector::{Problem, Teacher},
    words,
};

/// How much is still hidden beside what chance expects, and how far it is to least squares.
#[component]
pub fn Gathered(
    /// What was gathered.
    gathered: Memo<Option<GatheredView>>,
    teacher: Teacher,
) -> impl IntoView {
    let of = move |part: fn(&GatheredView) -> String| {
        move || gathered.with(|gathered| gathered.as_ref().map(part).unwrap_or_default())
    };
    let has_drifted = move || gathered.with(|gathered| gathered.as_ref().is_some_and(|gathered| gathered.has_drifted));
    let percent = |share: f64| format!("{:.1}%", (share * 100.0).clamp(0.0, 100.0));
    let hidden = move || gathered.with(|gathered| gathered.as_ref().map_or(1.0, |gathered| gathered.hidden));
    let expected = move || gathered.with(|gathered| gathered.as_ref().map_or(1.0, |gathered| gathered.expected_hidden));
    let problem = RwSignal::new(None);
    view! {
        <div class="gathered" data-testid="gathered" data-rounds=of(|gathered| gathered.rounds.to_string())>
            <p><b>{of(words::hidden)}</b></p>
            <div class="meter" aria-hidden="true">
                <span class="meter-fill" style=move || format!("width:{}", percent(hidden()))></span>
                <span class="meter-mark" style=move || format!("left:{}", percent(expected()))></span>
            </div>
            <p class="sub">{of(words::equations)}</p>
            <p class="remark" data-testid="drifted" hidden=move || !has_drifted()>
                "The model has moved too far since the first of these rounds: another one would spoil more than it shows, so none is added."
            </p>
            <Show when=move || teacher.may_drive()>
                <div class="hand">
                    <button
                        type="button"
                        class="button small"
                        class:accent=has_drifted
                        data-testid="gather-anew"
                        on:click=move |_| teacher.ask(Control::GatherAnew, problem)
                    >
                        "Begin again"
                    </button>
                    <Problem problem/>
                </div>
            </Show>
        </div>
    }
}
