//! What the pages ask of the relay over HTTP, and what their address holds.

use gloo_file::Blob;
use gloo_net::http::Request;
use leptos::prelude::*;
use unmask_wire::view::{Control, RoomView};
use wasm_bindgen::JsValue;

use crate::page::address::from_fragment;

const TOKEN_KEY: &str = "unmask-teacher-token";

/// The room as it is now.
///
/// # Errors
/// A sentence that names the relay's answer.
pub async fn room() -> Result<RoomView, String> {
    let answer = Request::get("/api/room").send().await.map_err(|error| unreachable_relay(&error))?;
    if !answer.ok() {
        return Err(format!("The relay answered {} to /api/room. Reload the page.", answer.status()));
    }
    answer.json().await.map_err(|error| format!("The relay’s answer cannot be read ({error}). Reload the page."))
}

/// A file of this site.
///
/// # Errors
/// A sentence that names the file and the relay's answer.
pub async fn file(path: &str) -> Result<Blob, String> {
    let answer = Request::get(path).send().await;
    let answer = answer.map_err(|_| format!("{path} could not be fetched. Is the relay still running?"))?;
    if !answer.ok() {
        return Err(format!("{path} could not be fetched: the relay answered {}.", answer.status()));
    }
    let bytes = answer.binary().await.map_err(|_| format!("{path} broke off while loading. Try again."))?;
    Ok(Blob::new(bytes.as_slice()))
}

/// Sends one of the teacher's controls. The token travels in the `Authorization` header and nowhere else.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn control(token: &str, control: &Control) -> Result<(), String> {
    let request = Request::post("/api/control").header("Authorization", &format!("Bearer {token}")).json(control);
    send(request).await
}

/// Sends the teacher's candidate, a picture file.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn candidate(token: &str, picture: &Blob) -> Result<(), String> {
    let request = Request::post("/api/candidate")
        .header("Authorization", &format!("Bearer {token}"))
        .header("Content-Type", &picture.raw_mime_type())
        .body(JsValue::from(picture.clone()));
    send(request).await
}

/// Sends what only the teacher may ask for.
async fn send(request: Result<Request, gloo_net::Error>) -> Result<(), String> {
    let request = request.map_err(|error| format!("The browser cannot send this: {error}."))?;
    let answer = request.send().await.map_err(|error| unreachable_relay(&error))?;
    match answer.status() {
        200..=299 => Ok(()),
        401 | 403 => {
            Err("The relay refused this page’s token. Open the teacher link printed in the terminal.".to_owned())
        }
        status => {
            let reason = answer.text().await.unwrap_or_default();
            let reason = reason.trim();
            Err(if reason.is_empty() {
                format!("The relay answered {status}.")
            } else {
                format!("The relay refused: {reason}")
            })
        }
    }
}

/// The teacher's token, from the fragment of the address or from earlier in this tab.
///
/// The fragment is taken out of the address, since a projector shows the address to the whole room.
pub fn take_token() -> Option<String> {
    let storage = window().session_storage().ok().flatten();
    if let Some(token) = take_fragment("token") {
        if let Some(storage) = &storage {
            // Without storage the token lives as long as this page does.
            let _ = storage.set_item(TOKEN_KEY, &token);
        }
        return Some(token);
    }
    storage?.get_item(TOKEN_KEY).ok().flatten()
}

/// The room's passphrase, from the fragment of the address, which is then taken out of it. It is stored nowhere.
pub fn take_passphrase() -> Option<String> {
    let encoded = take_fragment("passphrase")?;
    // A text that is no percent-encoding is what was meant.
    let decoded = js_sys::decode_uri_component(&encoded).ok().and_then(|decoded| decoded.as_string());
    Some(decoded.unwrap_or(encoded))
}

/// What the address's fragment gives this name. The fragment then goes from the address and from the history.
fn take_fragment(name: &str) -> Option<String> {
    let location = window().location();
    let value = from_fragment(&location.hash().ok()?, name)?.to_owned();
    let rest = format!("{}{}", location.pathname().unwrap_or_default(), location.search().unwrap_or_default());
    if let Ok(history) = window().history() {
        // A courtesy to those who look over a shoulder: the page works as well if the browser refuses.
        let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&rest));
    }
    Some(value)
}

fn unreachable_relay(error: &gloo_net::Error) -> String {
    format!("The relay does not answer ({error}). Is it still running?")
}
