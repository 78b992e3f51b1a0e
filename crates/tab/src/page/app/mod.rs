//! The part of the pages that needs a browser.

mod api;
mod camera;
mod cards;
mod comeback;
mod controls;
mod counts;
mod curve;
mod draft;
mod feed;
mod files;
mod gauge;
mod insecure;
mod join;
mod learning;
mod leaving;
mod picture;
mod pixels;
mod projector;
mod question;
mod reports;
mod roster;
mod secret;
mod seen;
mod session;
mod shard;
mod student;
mod trainer;
mod trial;

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
