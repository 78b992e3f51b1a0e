//! The pages' requests to the relay, and the secrets in their address. A cookie identifies the page; the browser sends
//! it, and scripts cannot read it.

use gloo_file::{Blob, futures::read_as_bytes};
use gloo_net::http;
use leptos::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use unmask_wire::{
    channel::{Answer, Request},
    view::{Control, NetworkFinding, Receipt, Role, RoomView, SessionRequest, SessionView},
};
use unmask_words::say;
use wasm_bindgen::JsValue;

use super::relay;
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
    read(Request::get("/api/session")).await
}

/// Sends a secret or a PIN to the relay. The relay answers with a cookie that identifies this page.
///
/// # Errors
/// If the secret or PIN is wrong, too many were tried, or there is no readable answer.
pub async fn enter(request: &SessionRequest) -> Result<SessionView, Failure> {
    read(post("/api/session", request).map_err(Failure::NoAnswer)?).await
}

/// Fetches the room's present state; `None` if this page may not see it.
///
/// # Errors
/// If there is no readable answer.
pub async fn room() -> Result<Option<RoomView>, Failure> {
    let room: serde_json::Value = read(Request::get("/api/room")).await?;
    // A page that may not see the room only learns that it exists.
    if room.get("room").is_some() {
        return Ok(None);
    }
    serde_json::from_value(room).map(Some).map_err(|error| Failure::NoAnswer(unreadable("/api/room", &error)))
}

async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Failure> {
    let route = request.path.clone();
    let answer = relay::ask(request).await.map_err(Failure::NoAnswer)?;
    if !answer.is_success() {
        return Err(Failure::Refused(reason(&answer)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| Failure::NoAnswer(unreadable(&route, &error)))
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
    let answer = http::Request::get(path).send().await;
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
    send(post("/api/control", control)?).await
}

/// What the relay's machine can tell of the network.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn network() -> Result<Vec<NetworkFinding>, String> {
    read(Request::get("/api/network")).await.map_err(Failure::reason)
}

/// Erases the lesson, and returns the receipt.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn erase_everything() -> Result<Receipt, String> {
    read(post("/api/erase", &serde_json::json!({ "everything": true }))?).await.map_err(Failure::reason)
}

/// Sends the teacher's candidate, a picture file.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn candidate(picture: &Blob) -> Result<(), String> {
    let file = read_as_bytes(picture).await.map_err(|error| unsendable(&error))?;
    send(Request::post("/api/candidate", file)).await
}

fn post(path: &str, body: &impl Serialize) -> Result<Request, String> {
    Ok(Request::post(path, serde_json::to_vec(body).map_err(|error| unsendable(&error))?))
}

/// Sends a request that only the teacher may make.
async fn send(request: Request) -> Result<(), String> {
    let answer = relay::ask(request).await?;
    match answer.status {
        200..=299 => Ok(()),
        401 => Err(say::api::unknown_page().to_owned()),
        _ => Err(say::api::refused(reason(&answer))),
    }
}

/// The relay's own reason for refusing.
fn reason(answer: &Answer) -> String {
    let reason = String::from_utf8_lossy(&answer.body);
    if reason.trim().is_empty() { say::api::status(answer.status) } else { sentence(&reason) }
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

fn unsendable(error: &dyn std::fmt::Display) -> String {
    say::api::unsendable(error)
}

fn unreadable(route: &str, error: &dyn std::fmt::Display) -> String {
    say::api::unreadable(route, error)
}
