//! The prompt for the passphrase of an encrypted room.

use leptos::prelude::*;

use super::{draft::Draft, secret::SecretInput, trainer::Trainer};
use crate::page::words;

/// A card that is there for as long as the worker waits for a passphrase.
#[component]
pub fn PassphrasePrompt(
    /// Keeps the answer for the next time this tab joins.
    draft: Draft,
    /// Who asks, and who gets the answer.
    trainer: Trainer,
) -> impl IntoView {
    let answer = RwSignal::new(String::new());
    let is_asked = Memo::new(move |_| trainer.question.with(Option::is_some));
    let is_wrong = move || trainer.question.with(|question| question.as_ref().is_some_and(|question| question.wrong));
    let is_empty = move || answer.with(|answer| answer.trim().is_empty());
    let send = move || {
        let passphrase = answer.get_untracked();
        if !passphrase.trim().is_empty() {
            draft.passphrase.set(passphrase.clone());
            answer.set(String::new());
            trainer.answer(passphrase);
        }
    };
    view! {
        <Show when=move || is_asked.get()>
            <form
                class="card field prompt"
                data-testid="passphrase-prompt"
                data-wrong=move || is_wrong().to_string()
                on:submit=move |event| {
                    event.prevent_default();
                    send();
                }
            >
                <h2 role="alert">
                    {move || if is_wrong() { "✕ This passphrase does not open the room’s model" } else { "The room’s model is encrypted" }}
                </h2>
                <p data-testid="passphrase-reason">{move || trainer.question.get().map(|question| words::sentence(&question.reason))}</p>
                <label for="passphrase-answer">"Passphrase"</label>
                <SecretInput id="passphrase-answer" testid="passphrase-answer" value=answer/>
                <p class="hint">"The teacher tells it to the room. It never leaves this tab; no update is sent until the right one is there."</p>
                <button type="submit" class="button accent" data-testid="passphrase-send" disabled=is_empty>"Use this passphrase"</button>
            </form>
        </Show>
    }
}
