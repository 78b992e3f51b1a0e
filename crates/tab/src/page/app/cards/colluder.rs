//! The client that gives the key away, played by the teacher.

use leptos::prelude::*;
use unmask_wire::view::Control;

use crate::page::app::{
    feed::Feed,
    fields::PassphraseField,
    teacher::{Problem, Teacher},
};

/// A field for the passphrase, or the way to forget the key. What is typed goes to the relay once and is kept nowhere.
#[component]
pub fn Collude(feed: Feed, teacher: Teacher) -> impl IntoView {
    let has_key = feed.part(|room| room.has_key);
    let passphrase = RwSignal::new(String::new());
    let problem = RwSignal::new(None);
    let is_empty = move || passphrase.with(|passphrase| passphrase.trim().is_empty());
    let give = move || {
        if !is_empty() {
            let typed = std::mem::take(&mut *passphrase.write());
            teacher.ask(Control::Collude { passphrase: Some(typed) }, problem);
        }
    };
    view! {
        <Show
            when=move || has_key.get() == Some(true)
            fallback=move || {
                view! {
                    <form
                        class="field collude"
                        on:submit=move |event| {
                            event.prevent_default();
                            give();
                        }
                    >
                        <label for="collude-passphrase">"Play the client that gives the key away"</label>
                        <PassphraseField id="collude-passphrase" value=passphrase/>
                        <button type="submit" class="button" data-testid="collude" disabled=is_empty>"Give the relay the key"</button>
                    </form>
                }
            }
        >
            <p class="hand">
                <b>"The relay has the key."</b>
                <button
                    type="button"
                    class="button small"
                    data-testid="forget-key"
                    on:click=move |_| teacher.ask(Control::Collude { passphrase: None }, problem)
                >
                    "Forget the key"
                </button>
            </p>
        </Show>
        <Problem problem/>
    }
}
