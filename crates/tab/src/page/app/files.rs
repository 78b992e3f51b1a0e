//! Picture files that are chosen, or dropped on a part of the page.

use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{DragEvent, File, FileList, HtmlInputElement};

/// A button that opens the browser's file dialogue.
#[component]
pub fn FileButton(
    /// What it says.
    title: &'static str,
    /// Its name for tests.
    testid: &'static str,
    /// Gets the file.
    #[prop(into)]
    on_file: Callback<File>,
) -> impl IntoView {
    view! {
        <label class="button file-button">
            {title}
            <input
                type="file"
                accept="image/png,image/jpeg,image/webp"
                data-testid=testid
                on:change=move |event| {
                    let input: HtmlInputElement = event_target(&event);
                    if let Some(file) = input.files().and_then(|files| files.get(0)) {
                        on_file.run(file);
                    }
                    // The same file chosen again is to be a change.
                    input.set_value("");
                }
            />
        </label>
    }
}

/// A photograph that misses its place would otherwise be opened instead of this page.
pub fn keep_page() {
    for handle in [
        window_event_listener(leptos::ev::dragover, |event| event.prevent_default()),
        window_event_listener(leptos::ev::drop, |event| event.prevent_default()),
    ] {
        on_cleanup(move || handle.remove());
    }
}

/// The first file that was dropped. By name, since web-sys's feature for it would change what wgpu stands on, and compile
/// Burn anew for the page.
pub fn dropped_file(event: &DragEvent) -> Option<File> {
    let field = |of: &JsValue, name: &str| js_sys::Reflect::get(of, &name.into()).ok();
    let files = field(&field(event.as_ref(), "dataTransfer")?, "files")?;
    files.dyn_into::<FileList>().ok()?.get(0)
}
