//! The browser's workers: one for the room, which starts one for its robots and one for its attacks. All run the same
//! program under different names.

mod attacks;
mod beside;
mod clock;
mod robots;
mod room;

use js_sys::{Array, Uint8Array, global};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{BroadcastChannel, DedicatedWorkerGlobalScope, MessageEvent};

/// The name of the robots' worker. That of a room's is the name of its channel, then the query of the page's link.
const ROBOTS: &str = "robots";
/// The name of the attacks' worker.
const ATTACKS: &str = "attacks";
/// The loader of this program, which the build places beside the page.
const LOADER: &str = "room_loader.js";

/// Starts the worker and returns immediately.
pub fn start() {
    let Ok(scope) = global().dyn_into::<DedicatedWorkerGlobalScope>() else {
        web_sys::console::error_1(&"the room must run in a dedicated worker".into());
        return;
    };
    match scope.name().as_str() {
        ROBOTS => robots::start(scope),
        ATTACKS => attacks::start(scope),
        name => {
            let (room, query) = name.split_once('?').unwrap_or((name, ""));
            room::start(room, query);
        }
    }
}

/// The bytes of a message.
fn bytes_of(event: &web_sys::Event) -> Vec<u8> {
    event.dyn_ref::<MessageEvent>().map(|event| Uint8Array::new(&event.data()).to_vec()).unwrap_or_default()
}

fn post(channel: &BroadcastChannel, bytes: &[u8]) {
    // This fails only for a closed channel.
    let _ = channel.post_message(&JsValue::from(Uint8Array::from(bytes)));
}

/// Posts bytes between workers, moved instead of copied.
fn hand(bytes: &[u8], post: impl FnOnce(&JsValue, &JsValue) -> Result<(), JsValue>) {
    let bytes = Uint8Array::from(bytes);
    // This fails only for a buffer that is gone.
    let _ = post(&bytes, &Array::of1(&bytes.buffer()));
}

fn fresh() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("the browser provides no random numbers: {error}"))?;
    Ok(bytes)
}
