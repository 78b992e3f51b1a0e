//! What the pages ask of the relay over HTTP.

use gloo_net::http::Request;
use leptos::prelude::*;
use unmask_wire::view::{Control, RoomView};
use wasm_bindgen::JsCast;
use web_sys::Blob;

use crate::page::address;

const TOKEN_KEY: &str = "unmask-teacher-token";

/// The room as it is now.
///
/// # Errors
/// A sentence that names the relay's answer.
pub async fn room() -> Result<RoomView, String> {
    let answer = Request::get("/api/room").send().await.map_err(|error| unreachable_relay(&error))?;
    if !answer.ok() {
        return Err(format!("The relay answered {} to /api/room.", answer.status()));
    }
    answer.json().await.map_err(|error| format!("The relay's room cannot be read ({error}); reload the page."))
}

/// A file of this site as a blob.
///
/// # Errors
/// A sentence that names the file and the relay's answer.
pub async fn blob(path: &str) -> Result<Blob, String> {
    let request = window().fetch_with_str(path);
    let answer = wasm_bindgen_futures::JsFuture::from(request)
        .await
        .map_err(|_| format!("{path} could not be fetched; is the relay still running?"))?;
    let answer: web_sys::Response =
        answer.dyn_into().map_err(|_| format!("{path} could not be fetched: no response."))?;
    if !answer.ok() {
        return Err(format!("{path} could not be fetched: the relay answered {}.", answer.status()));
    }
    let blob = answer.blob().map_err(|_| format!("{path} could not be read."))?;
    wasm_bindgen_futures::JsFuture::from(blob)
        .await
        .ok()
        .and_then(|blob| blob.dyn_into().ok())
        .ok_or_else(|| format!("{path} broke off while loading; try again."))
}

/// Sends one of the teacher's controls. The token travels in the `Authorization` header and nowhere else.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn control(token: &str, control: &Control) -> Result<(), String> {
    let request = Request::post("/api/control")
        .header("Authorization", &format!("Bearer {token}"))
        .json(control)
        .map_err(|error| format!("The control cannot be written: {error}."))?;
    send(request).await
}

/// Sends the teacher's candidate, a picture file.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn candidate(token: &str, picture: &Blob) -> Result<(), String> {
    let request = Request::post("/api/candidate")
        .header("Authorization", &format!("Bearer {token}"))
        .header("Content-Type", &picture.type_())
        .body(picture)
        .map_err(|error| format!("The picture cannot be sent: {error}."))?;
    send(request).await
}

/// Sends what only the teacher may ask for.
async fn send(request: Request) -> Result<(), String> {
    let answer = request.send().await.map_err(|error| unreachable_relay(&error))?;
    match answer.status() {
        200..=299 => Ok(()),
        401 | 403 => {
            Err("The relay refused this page's token. Open the teacher link printed in the terminal.".to_owned())
        }
        status => {
            let reason = answer.text().await.unwrap_or_default();
            let reason =
                if reason.trim().is_empty() { format!("it answered {status}") } else { reason.trim().to_owned() };
            Err(format!("The relay did not do that: {reason}"))
        }
    }
}

/// The teacher's token, from the fragment of the address or from earlier in this tab.
///
/// The fragment is taken out of the address, since a projector shows the address to the whole room.
pub fn take_token() -> Option<String> {
    let storage = window().session_storage().ok().flatten();
    let fragment = window().location().hash().unwrap_or_default();
    if let Some(token) = address::token(&fragment) {
        if let Some(storage) = &storage {
            // Without storage the token lives as long as this page does.
            let _ = storage.set_item(TOKEN_KEY, token);
        }
        hide_fragment();
        return Some(token.to_owned());
    }
    storage?.get_item(TOKEN_KEY).ok().flatten()
}

/// The room's passphrase, from the fragment of the address, which is then taken out of it. It is stored nowhere.
pub fn take_passphrase() -> Option<String> {
    let fragment = window().location().hash().unwrap_or_default();
    let encoded = address::passphrase(&fragment)?;
    hide_fragment();
    // A text that is no percent-encoding is what was meant.
    let decoded = js_sys::decode_uri_component(encoded).ok().and_then(|decoded| decoded.as_string());
    Some(decoded.unwrap_or_else(|| encoded.to_owned()))
}

/// Takes the fragment out of the address and out of the history's present entry.
fn hide_fragment() {
    let location = window().location();
    let rest = format!("{}{}", location.pathname().unwrap_or_default(), location.search().unwrap_or_default());
    if let Ok(history) = window().history() {
        // A courtesy to those who look over a shoulder: the page works as well if the browser refuses.
        let _ = history.replace_state_with_url(&wasm_bindgen::JsValue::NULL, "", Some(&rest));
    }
}

fn unreachable_relay(error: &gloo_net::Error) -> String {
    format!("The relay cannot be reached ({error}); is it still running?")
}
