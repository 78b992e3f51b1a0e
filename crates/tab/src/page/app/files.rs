//! Picture files that are chosen, or dropped on a part of the page.

use gloo_file::File;
use leptos::prelude::*;
use web_sys::{DragEvent, HtmlInputElement};

use crate::page::image_header::FORMATS;

/// A button that opens the browser's file dialogue.
#[component]
pub fn FileButton(
    title: &'static str,
    testid: &'static str,
    /// Only pictures from the phone's camera app, which takes any format.
    #[prop(optional)]
    from_camera: bool,
    #[prop(into)] on_file: Callback<File>,
) -> impl IntoView {
    view! {
        <label class="button file-button">
            {title}
            <input
                type="file"
                accept=if from_camera { "image/*" } else { FORMATS }
                capture=from_camera.then_some("user")
                data-testid=testid
                on:change=move |event| {
                    let input: HtmlInputElement = event_target(&event);
                    if let Some(file) = input.files().and_then(|files| files.get(0)) {
                        on_file.run(file.into());
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

/// The first file that was dropped.
pub fn dropped_file(event: &DragEvent) -> Option<File> {
    event.data_transfer()?.files()?.get(0).map(File::from)
}
