//! The two pages: `/`, where a student joins, and `/projector`, which the room watches.
//!
//! What can be computed without a browser stands in [`text`] and is tested natively; the rest exists for wasm only, by screen.
//! Screens use [`text`] and `widgets`, and neither of these knows a screen.

pub mod text;

#[cfg(target_family = "wasm")]
mod expert;
#[cfg(target_family = "wasm")]
mod student;
#[cfg(target_family = "wasm")]
mod widgets;

/// Puts the page that the address asks for into the document's body.
#[cfg(target_family = "wasm")]
pub fn mount() {
    use leptos::prelude::{document, mount_to_body, window};

    let path = window().location().pathname().unwrap_or_default();
    let is_projector = path.trim_end_matches('/').ends_with("/projector");
    document().set_title(if is_projector { "unmask: projector" } else { "unmask" });
    if is_projector {
        mount_to_body(expert::Projector);
    } else {
        mount_to_body(student::Student);
    }
    // The line that stands in the document until the bundle has loaded.
    if let Some(line) = document().get_element_by_id("loading") {
        line.remove();
    }
}
