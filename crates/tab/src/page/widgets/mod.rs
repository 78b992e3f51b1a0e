//! What several pages and screens use. Here: parts of what may not be there yet, for views, and whether anybody sees the page.

pub mod api;
pub mod feed;
pub mod fields;
pub mod picture;
pub mod session;

use gloo_events::EventListener;
use leptos::prelude::*;

/// A part of `whole`.
pub fn part<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> U + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().map(of))
}

/// A part of `whole` that it may lack.
pub fn optional<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> Option<U> + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().and_then(of))
}

/// Whether `whole` is there and `is` holds of it.
pub fn holds<S, T>(
    whole: S,
    is: impl Fn(&T) -> bool + Copy + Send + Sync + 'static,
) -> impl Fn() -> bool + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
{
    move || whole.with(|whole| whole.as_ref().is_some_and(is))
}

/// Tells `seen` whether the page is in sight: now, and whenever that changes, for as long as the page lives.
pub fn watch_presence(seen: impl Fn(bool) + 'static) {
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
