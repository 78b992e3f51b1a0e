//! The pages: `/`, where a student joins; `/projector`, for the whole class; and `/replay.html`, which plays a recorded
//! lesson without a relay. Each has its own bundle, so that a phone does not load the projector's code.
//!
//! [`logic`] holds everything that needs no browser and is tested natively. The screens exist for wasm only. They use
//! [`logic`] and `widgets`, which depend on no screen.

pub mod logic;

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

#[cfg(target_family = "wasm")]
pub fn mount_student() {
    widgets::relay::choose();
    mount(unmask_words::say::page::student, student::Student);
}

#[cfg(target_family = "wasm")]
pub fn mount_projector() {
    widgets::relay::choose();
    mount(unmask_words::say::page::projector, stage::Projector);
}

#[cfg(target_family = "wasm")]
pub fn mount_replay() {
    mount(unmask_words::say::page::replay, replay::Replay);
}

#[cfg(target_family = "wasm")]
fn mount<V: leptos::prelude::IntoView + 'static>(title: fn() -> &'static str, page: fn() -> V) {
    use leptos::prelude::{document, mount_to_body};

    wasm_bindgen_futures::spawn_local(async move {
        let language = widgets::first_language().await;
        mount_to_body(move || {
            widgets::Tongue::start(language, title);
            (page(), widgets::LanguageProblem())
        });
        // The document shows this line until the bundle has loaded.
        if let Some(line) = document().get_element_by_id("loading") {
            line.remove();
        }
    });
}
