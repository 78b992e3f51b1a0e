//! Whether the class may see what leaks of a student's own picture.

use leptos::prelude::*;

use super::join_draft::JoinDraft;

/// The question, for pictures of one's own; a sample photograph is everybody's. `on_change` gets the answer.
#[component]
pub fn Consent(draft: JoinDraft, #[prop(into, optional)] on_change: Option<Callback<bool>>) -> impl IntoView {
    view! {
        <div class="consent" hidden=move || !draft.has_own_picture()>
            <label class="choice">
                <input
                    type="checkbox"
                    data-testid="may-show"
                    prop:checked=move || draft.may_show.get()
                    on:change=move |event| {
                        let may_show = event_target_checked(&event);
                        draft.may_show.set(may_show);
                        if let Some(on_change) = on_change {
                            on_change.run(may_show);
                        }
                    }
                />
                <span>"The class may see what leaks of my picture"</span>
            </label>
            <p class="hint">
                "Without it the projector never shows an attack on you. The relay gets the same updates either way, and whoever runs it could attack them unseen."
            </p>
        </div>
    }
}
