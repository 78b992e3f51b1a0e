//! The pages: `/`, where a student joins, `/projector`, which the room watches, and `/replay.html`, which plays a recorded lesson
//! and needs no relay. Each is a bundle of its own, so that a phone waits for no code of the projector's.
//!
//! What can be computed without a browser stands in [`text`] and is tested natively; the rest exists for wasm only, by screen.
//! Screens use [`text`] and `widgets`, and neither of these knows a screen.

pub mod text;

#[cfg(target_family = "wasm")]
mod expert;
#[cfg(target_family = "wasm")]
mod replay;
#[cfg(target_family = "wasm")]
mod stage;
#[cfg(target_family = "wasm")]
mod student;
#[cfg(target_family = "wasm")]
mod widgets;

/// Puts the page on which a student joins into the document's body.
#[cfg(target_family = "wasm")]
pub fn mount_student() {
    mount(text::say::page::student, student::Student);
}

/// Puts the page that the room watches into the document's body.
#[cfg(target_family = "wasm")]
pub fn mount_projector() {
    mount(text::say::page::projector, stage::Projector);
}

/// Puts the page that plays a recorded lesson into the document's body.
#[cfg(target_family = "wasm")]
pub fn mount_replay() {
    mount(text::say::page::replay, replay::Replay);
}

#[cfg(target_family = "wasm")]
fn mount<V: leptos::prelude::IntoView + 'static>(title: fn() -> &'static str, page: fn() -> V) {
    use leptos::prelude::{document, mount_to_body};

    mount_to_body(move || {
        widgets::Tongue::start(title);
        page()
    });
    // The line that stands in the document until the bundle has loaded.
    if let Some(line) = document().get_element_by_id("loading") {
        line.remove();
    }
}
