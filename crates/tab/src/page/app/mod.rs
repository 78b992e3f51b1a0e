//! The part of the pages that needs a browser.

mod api;
mod camera;
mod cards;
mod classify;
mod client_menu;
mod consent;
mod controls;
mod curve;
mod dashboard;
mod entrance;
mod feed;
mod fields;
mod files;
mod insecure;
mod join;
mod join_draft;
mod learning;
mod passphrase_prompt;
mod picture;
mod pixels;
mod presence;
mod projector;
mod reconstructions;
mod roster;
mod saved_join;
mod sent_update;
mod session;
mod shared_pictures;
mod signals;
mod similarity;
mod student;
mod teacher;
mod trainer;
mod update_counts;
mod wake_lock;

use leptos::prelude::*;

/// Puts the page that the address asks for into the document's body.
pub fn mount() {
    let path = window().location().pathname().unwrap_or_default();
    let is_projector = path.trim_end_matches('/').ends_with("/projector");
    document().set_title(if is_projector { "unmask: projector" } else { "unmask" });
    if is_projector {
        mount_to_body(projector::Projector);
    } else {
        mount_to_body(student::Student);
    }
    // The line that stands in the document until the bundle has loaded.
    if let Some(line) = document().get_element_by_id("loading") {
        line.remove();
    }
}
