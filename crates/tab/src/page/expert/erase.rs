//! The end of a lesson: the teacher erases everything, and reads what went.

use leptos::prelude::*;
use unmask_wire::view::Receipt;
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;

use crate::page::widgets::{
    Tongue, api,
    session::{Problem, Teacher},
};

/// A button that asks before it erases the lesson, and then lists what was erased. It speaks the page's language, since
/// nothing brings the lesson back.
#[component]
pub fn EraseEverything(teacher: Teacher) -> impl IntoView {
    let tongue = Tongue::spoken();
    let is_asking = RwSignal::new(false);
    let is_erasing = RwSignal::new(false);
    let receipt = RwSignal::new(None::<Receipt>);
    let problem = RwSignal::new(None);
    let erase = move |_| {
        is_asking.set(false);
        is_erasing.set(true);
        problem.set(None);
        spawn_local(async move {
            match api::erase_everything().await {
                Ok(erased) => receipt.set(Some(erased)),
                Err(reason) => problem.set(teacher.checked(Err(reason)).err()),
            }
            is_erasing.set(false);
        });
    };
    let said = move |say: fn() -> &'static str| move || tongue.now().speaking(say);
    let summary = move || {
        receipt.with(|receipt| {
            let files = &receipt.as_ref()?.files;
            let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
            let bytes: u64 = files.iter().map(|file| file.bytes).sum();
            Some(tongue.now().speaking(|| say::erase::done(count, bytes.div_ceil(1000))))
        })
    };
    let files =
        move || receipt.with(|receipt| receipt.as_ref().map(|receipt| receipt.files.clone()).unwrap_or_default());
    view! {
        <div class="erase" lang=move || tongue.now().tag()>
            <Show
                when=move || is_asking.get()
                fallback=move || {
                    view! {
                        <button
                            type="button"
                            class="button"
                            data-testid="erase"
                            disabled=move || is_erasing.get()
                            on:click=move |_| is_asking.set(true)
                        >
                            {said(say::erase::button)}
                        </button>
                    }
                }
            >
                <div class="confirm" role="alert">
                    <p>{said(say::erase::ask)}</p>
                    <p class="row">
                        // In the button's place, so that a double click changes nothing.
                        <button type="button" class="button" data-testid="erase-no" on:click=move |_| is_asking.set(false)>
                            {said(say::erase::keep)}
                        </button>
                        <button type="button" class="button danger" data-testid="erase-yes" on:click=erase>
                            {said(say::erase::yes)}
                        </button>
                    </p>
                </div>
            </Show>
            <Problem problem/>
            <div role="status" data-testid="erase-receipt" hidden=move || receipt.with(Option::is_none)>
                <p>{summary}</p>
                <ul>
                    <For each=files key=|file| file.name.clone() let:file>
                        <li>{file.name.clone()} ", " {file.bytes} " B"</li>
                    </For>
                </ul>
            </div>
        </div>
    }
}
