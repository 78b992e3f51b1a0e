//! The prompt for the passphrase of an encrypted room.

use leptos::prelude::*;

use super::{
    fields::PassphraseField,
    join_draft::JoinDraft,
    signals::{holds, part},
    trainer::Trainer,
};
use crate::page::words;

/// A card that is there for as long as the worker waits for a passphrase; `draft` keeps it for the next time this tab joins.
#[component]
pub fn PassphrasePrompt(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let request = trainer.passphrase_request;
    let answer = RwSignal::new(String::new());
    let is_asked = Memo::new(move |_| request.with(Option::is_some));
    let is_wrong = holds(request, |request| request.is_wrong);
    let is_empty = move || answer.with(|answer| answer.trim().is_empty());
    let send = move || {
        if !is_empty() {
            let passphrase = std::mem::take(&mut *answer.write());
            draft.passphrase.set(passphrase.clone());
            trainer.give_passphrase(passphrase);
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
                    {move || if is_wrong() { "✕ This passphrase does not unlock the room’s model" } else { "The room’s model is encrypted" }}
                </h2>
                <p data-testid="passphrase-reason">{part(request, |request| words::sentence(&request.reason))}</p>
                <label for="passphrase-answer">"Passphrase"</label>
                <PassphraseField id="passphrase-answer" value=answer/>
                <p class="hint">"Ask the teacher for it. It never leaves this tab. Until it is right, no update is sent."</p>
                <button type="submit" class="button accent" data-testid="passphrase-send" disabled=is_empty>"Use this passphrase"</button>
            </form>
        </Show>
    }
}
