//! A button for what cannot be undone.

use std::time::Duration;

use leptos::prelude::*;

/// How long the question stands before it is withdrawn.
const PATIENCE: Duration = Duration::from_secs(8);

/// A button that asks before it acts, as long as there is something to lose.
#[component]
pub fn ConfirmButton(
    /// Its name for tests; that of the answer which acts ends in `-yes`.
    testid: &'static str,
    /// What it says.
    title: &'static str,
    /// The answer that acts, such as "Discard 12 rounds"; none where nothing would be lost.
    #[prop(into)]
    loss: Signal<Option<String>>,
    /// Whether it cannot be used now.
    #[prop(into, optional)]
    is_disabled: Signal<bool>,
    /// Called once it is meant.
    #[prop(into)]
    on_confirm: Callback<()>,
) -> impl IntoView {
    let is_asking = RwSignal::new(false);
    let timer = StoredValue::new(None::<TimeoutHandle>);
    let stop = move || {
        is_asking.set(false);
        if let Some(timer) = timer.try_update_value(Option::take).flatten() {
            timer.clear();
        }
    };
    on_cleanup(move || {
        if let Some(timer) = timer.try_update_value(Option::take).flatten() {
            timer.clear();
        }
    });
    let ask = move |_| {
        if loss.with_untracked(Option::is_none) {
            on_confirm.run(());
            return;
        }
        is_asking.set(true);
        timer.set_value(set_timeout_with_handle(move || is_asking.set(false), PATIENCE).ok());
    };
    view! {
        <Show
            when=move || is_asking.get()
            fallback=move || {
                view! {
                    <button type="button" class="button" data-testid=testid disabled=is_disabled on:click=ask>
                        {title}
                    </button>
                }
            }
        >
            <span class="row confirm" role="alert">
                // Where the button stood, so that a double click changes nothing.
                <button type="button" class="button" on:click=move |_| stop()>"Keep"</button>
                <button
                    type="button"
                    class="button danger"
                    data-testid=format!("{testid}-yes")
                    on:click=move |_| {
                        stop();
                        on_confirm.run(());
                    }
                >
                    {move || loss.get()}
                </button>
            </span>
        </Show>
    }
}
