//! The pages' HTTP requests to the relay, and the secrets in their address. A cookie identifies the page; the browser
//! sends it, and scripts cannot read it.

use gloo_file::Blob;
use gloo_net::http::{Request, Response};
use leptos::prelude::*;
use serde::de::DeserializeOwned;
use unmask_wire::view::{Control, NetworkFinding, Receipt, Role, RoomView, SessionRequest, SessionView};
use unmask_words::say;
use wasm_bindgen::JsValue;

use crate::page::logic::{
    input::{from_fragment, without_part},
    sentence,
};

/// Why a request to the relay failed.
pub enum Failure {
    /// There was no readable answer; trying again may help. A sentence.
    NoAnswer(String),
    /// The relay's own reason, as a sentence.
    Refused(String),
}

impl Failure {
    /// Returns the sentence.
    pub fn reason(self) -> String {
        match self {
            Self::NoAnswer(reason) | Self::Refused(reason) => reason,
        }
    }
}

/// Asks the relay who this page is.
///
/// # Errors
/// If there is no readable answer.
pub async fn session() -> Result<SessionView, Failure> {
    read("/api/session", Request::get("/api/session").send().await).await
}

/// Sends a secret or a PIN to the relay. The relay answers with a cookie that identifies this page.
///
/// # Errors
/// If the secret or PIN is wrong, too many were tried, or there is no readable answer.
pub async fn enter(request: &SessionRequest) -> Result<SessionView, Failure> {
    let request = Request::post("/api/session").json(request).map_err(|error| Failure::NoAnswer(unsendable(&error)))?;
    read("/api/session", request.send().await).await
}

/// Fetches the room's present state; `None` if this page may not see it.
///
/// # Errors
/// If there is no readable answer.
pub async fn room() -> Result<Option<RoomView>, Failure> {
    let room: serde_json::Value = read("/api/room", Request::get("/api/room").send().await).await?;
    // A page that may not see the room only learns that it exists.
    if room.get("room").is_some() {
        return Ok(None);
    }
    serde_json::from_value(room).map(Some).map_err(|error| Failure::NoAnswer(unreadable("/api/room", &error)))
}

async fn read<T: DeserializeOwned>(route: &str, answer: Result<Response, gloo_net::Error>) -> Result<T, Failure> {
    let answer = answer.map_err(|error| Failure::NoAnswer(unreachable_relay(&error)))?;
    if !answer.ok() {
        return Err(Failure::Refused(reason(answer).await));
    }
    answer.json().await.map_err(|error| Failure::NoAnswer(unreadable(route, &error)))
}

/// Fetches a file of this site.
///
/// # Errors
/// A sentence that names the file and the server's answer.
pub async fn file(path: &str) -> Result<Blob, String> {
    Ok(Blob::new(bytes(path).await?.as_slice()))
}

/// Fetches the bytes of a file of this site.
///
/// # Errors
/// A sentence that names the file and the server's answer.
pub async fn bytes(path: &str) -> Result<Vec<u8>, String> {
    let answer = Request::get(path).send().await;
    let answer = answer.map_err(|_| say::api::not_fetched(path))?;
    if !answer.ok() {
        return Err(say::api::answered(path, answer.status()));
    }
    answer.binary().await.map_err(|_| say::api::broke_off(path))
}

/// Sends one of the teacher's controls.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn control(control: &Control) -> Result<(), String> {
    send(Request::post("/api/control").json(control)).await
}

/// What the relay's machine can tell of the network.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn network() -> Result<Vec<NetworkFinding>, String> {
    read("/api/network", Request::get("/api/network").send().await).await.map_err(Failure::reason)
}

/// Erases the lesson, and returns the receipt.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn erase_everything() -> Result<Receipt, String> {
    let request = Request::post("/api/erase").json(&serde_json::json!({ "everything": true }));
    let request = request.map_err(|error| unsendable(&error))?;
    read("/api/erase", request.send().await).await.map_err(Failure::reason)
}

/// Sends the teacher's candidate, a picture file.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn candidate(picture: &Blob) -> Result<(), String> {
    let request = Request::post("/api/candidate").header("Content-Type", &picture.raw_mime_type());
    send(request.body(JsValue::from(picture.clone()))).await
}

/// Sends a request that only the teacher may make.
async fn send(request: Result<Request, gloo_net::Error>) -> Result<(), String> {
    let answer = request.map_err(|error| unsendable(&error))?.send().await;
    let answer = answer.map_err(|error| unreachable_relay(&error))?;
    match answer.status() {
        200..=299 => Ok(()),
        401 => Err(say::api::unknown_page().to_owned()),
        _ => Err(say::api::refused(reason(answer).await)),
    }
}

/// The relay's own reason for refusing.
async fn reason(answer: Response) -> String {
    let status = answer.status();
    let reason = answer.text().await.unwrap_or_default();
    if reason.trim().is_empty() { say::api::status(status) } else { sentence(&reason) }
}

/// Takes a role's secret out of the address's fragment, since a projector shows the address to the whole room.
pub fn take_secret() -> Option<(Role, String)> {
    [("token", Role::Teacher), ("view", Role::Projector), ("room", Role::Student)]
        .into_iter()
        .find_map(|(name, role)| Some((role, take_fragment(name)?)))
}

/// Takes the room's passphrase out of the address's fragment. It is not stored anywhere.
pub fn take_passphrase() -> Option<String> {
    let encoded = take_fragment("passphrase")?;
    // Text that is not valid percent-encoding is taken literally.
    let decoded = js_sys::decode_uri_component(&encoded).ok().and_then(|decoded| decoded.as_string());
    Some(decoded.unwrap_or(encoded))
}

/// Takes the value called `name` out of the fragment, and so out of the address and the history.
fn take_fragment(name: &str) -> Option<String> {
    let location = window().location();
    let fragment = location.hash().ok()?;
    let value = from_fragment(&fragment, name)?.to_owned();
    let (path, search) = (location.pathname().unwrap_or_default(), location.search().unwrap_or_default());
    let rest = format!("{path}{search}{}", without_part(&fragment, name));
    if let Ok(history) = window().history() {
        // This hides the secret from onlookers; the page works without it.
        let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&rest));
    }
    Some(value)
}

fn unsendable(error: &gloo_net::Error) -> String {
    say::api::unsendable(error)
}

fn unreachable_relay(error: &gloo_net::Error) -> String {
    say::api::no_answer(error)
}

fn unreadable(route: &str, error: &dyn std::fmt::Display) -> String {
    say::api::unreadable(route, error)
}
