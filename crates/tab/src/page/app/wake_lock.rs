//! The screen, kept on: a phone that darkens it stops training.

use js_sys::{Function, Promise, Reflect};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};

/// Keeps the screen on for as long as `is_wanted` holds. The browser lets it go whenever the page is out of sight, so what is
/// wanted must say when it is seen again.
pub fn keep_screen_on(is_wanted: Memo<bool>) {
    let lock = StoredValue::new_local(None::<JsValue>);
    let replace = move |new: Option<JsValue>| {
        if let Some(old) = lock.try_update_value(|lock| std::mem::replace(lock, new)).flatten() {
            // A lock that the browser has taken back already is none the worse for it.
            let _ = method(&old, "release").and_then(|release| release.call0(&old).ok());
        }
    };
    Effect::new(move |_| {
        if !is_wanted.get() {
            return replace(None);
        }
        spawn_local(async move {
            let taken = request().await;
            replace(taken);
            // The page may have gone out of sight while the browser thought about it.
            if !is_wanted.get_untracked() {
                replace(None);
            }
        });
    });
}

/// `None` where the browser has no such lock, shows it no page over plain HTTP, or refuses for want of battery. There is
/// nothing that the student could do about it here, and training goes on for as long as the screen does.
async fn request() -> Option<JsValue> {
    // By name, since web-sys has it behind its flag for unstable interfaces alone.
    let locks = Reflect::get(&window().navigator(), &"wakeLock".into()).ok().filter(JsValue::is_object)?;
    let promise: Promise = method(&locks, "request")?.call1(&locks, &"screen".into()).ok()?.dyn_into().ok()?;
    JsFuture::from(promise).await.ok()
}

fn method(object: &JsValue, name: &str) -> Option<Function> {
    Reflect::get(object, &name.into()).ok()?.dyn_into().ok()
}
