//! Whether anybody sees this page, and when it may have been cut off.

use gloo_events::EventListener;
use leptos::prelude::*;

/// Tells `seen` whether the page is in sight: now, and whenever that changes, for as long as the page lives.
pub fn watch(seen: impl Fn(bool) + 'static) {
    let is_seen = || !document().hidden();
    seen(is_seen());
    EventListener::new(&document(), "visibilitychange", move |_| seen(is_seen())).forget();
}

/// Calls `returned` whenever the page's connections may have died without a word: it is seen again, the browser has a network
/// again, or takes the page out of its cache of pages left (bfcache).
pub fn on_return(returned: impl Fn() + Copy + 'static) {
    let seen = move |_: &web_sys::Event| {
        if !document().hidden() {
            returned();
        }
    };
    EventListener::new(&document(), "visibilitychange", seen).forget();
    for event in ["online", "pageshow"] {
        EventListener::new(&window(), event, move |_| returned()).forget();
    }
}
