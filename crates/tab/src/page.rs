//! The pages: `/`, where a student joins, `/projector`, which the room watches, and `/replay.html`, which plays a recorded lesson
//! and needs no relay.
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

/// Puts the page that the address asks for into the document's body.
#[cfg(target_family = "wasm")]
pub fn mount() {
    use leptos::prelude::{document, mount_to_body, window};
    use text::say;
    use widgets::Tongue;

    let path = window().location().pathname().unwrap_or_default();
    let path = path.trim_end_matches('/');
    if path.ends_with("/projector") {
        mount_to_body(|| {
            Tongue::start(say::page::projector);
            stage::Projector()
        });
    } else if path.ends_with("/replay.html") || path.ends_with("/replay") {
        mount_to_body(|| {
            Tongue::start(say::page::replay);
            replay::Replay()
        });
    } else {
        mount_to_body(|| {
            Tongue::start(say::page::student);
            student::Student()
        });
    }
    // The line that stands in the document until the bundle has loaded.
    if let Some(line) = document().get_element_by_id("loading") {
        line.remove();
    }
}
