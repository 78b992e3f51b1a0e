//! What the pages ask of the relay over HTTP, and what their address holds. Who asks is told by a cookie, which the browser
//! sends along and no script can read.

use gloo_file::Blob;
use gloo_net::http::{Request, Response};
use leptos::prelude::*;
use serde::de::DeserializeOwned;
use unmask_core::TradeOffCurve;
use unmask_wire::view::{Control, Role, RoomView, SessionRequest, SessionView};
use wasm_bindgen::JsValue;

use crate::page::text::{
    input::{from_fragment, without_part},
    say, sentence,
};

/// Why the relay did not do what it was asked.
pub enum Failure {
    /// There was no answer, or none that can be read; asking again may help. In a sentence.
    NoAnswer(String),
    /// In the relay's words, as a sentence.
    Refused(String),
}

impl Failure {
    /// The sentence.
    pub fn reason(self) -> String {
        match self {
            Self::NoAnswer(reason) | Self::Refused(reason) => reason,
        }
    }
}

/// Who this page is to the relay.
///
/// # Errors
/// If there is no answer that can be read.
pub async fn session() -> Result<SessionView, Failure> {
    read("/api/session", Request::get("/api/session").send().await).await
}

/// Shows the relay a secret or a PIN. It answers with a cookie, which makes this page somebody.
///
/// # Errors
/// If the secret or the PIN is not one of the room's, or too many were tried, or there is no answer.
pub async fn enter(request: &SessionRequest) -> Result<SessionView, Failure> {
    let request = Request::post("/api/session").json(request).map_err(|error| Failure::NoAnswer(unsendable(&error)))?;
    read("/api/session", request.send().await).await
}

/// The room as it is now; `None` where the relay does not show it to this page.
///
/// # Errors
/// If there is no answer that can be read.
pub async fn room() -> Result<Option<RoomView>, Failure> {
    let room: serde_json::Value = read("/api/room", Request::get("/api/room").send().await).await?;
    // Whoever may not see it is told that there is one, and no more.
    if room.get("room").is_some() {
        return Ok(None);
    }
    serde_json::from_value(room).map(Some).map_err(|error| Failure::NoAnswer(unreadable("/api/room", &error)))
}

/// What defences cost and hide, as measured before the lesson; `None` where no such curve lies beside the page.
pub async fn trade_off() -> Option<TradeOffCurve> {
    let answer = Request::get("trade-off.json").send().await.ok()?;
    if answer.ok() { answer.json().await.ok() } else { None }
}

async fn read<T: DeserializeOwned>(route: &str, answer: Result<Response, gloo_net::Error>) -> Result<T, Failure> {
    let answer = answer.map_err(|error| Failure::NoAnswer(unreachable_relay(&error)))?;
    if !answer.ok() {
        return Err(Failure::Refused(reason(answer).await));
    }
    answer.json().await.map_err(|error| Failure::NoAnswer(unreadable(route, &error)))
}

/// A file of this site.
///
/// # Errors
/// A sentence that names the file and the server's answer.
pub async fn file(path: &str) -> Result<Blob, String> {
    Ok(Blob::new(bytes(path).await?.as_slice()))
}

/// The bytes of a file of this site.
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

/// Sends the teacher's candidate, a picture file.
///
/// # Errors
/// A sentence with the relay's own reason.
pub async fn candidate(picture: &Blob) -> Result<(), String> {
    let request = Request::post("/api/candidate").header("Content-Type", &picture.raw_mime_type());
    send(request.body(JsValue::from(picture.clone()))).await
}

/// Sends what only the teacher may ask for.
async fn send(request: Result<Request, gloo_net::Error>) -> Result<(), String> {
    let answer = request.map_err(|error| unsendable(&error))?.send().await;
    let answer = answer.map_err(|error| unreachable_relay(&error))?;
    match answer.status() {
        200..=299 => Ok(()),
        401 => Err(say::api::unknown_page().to_owned()),
        _ => Err(say::api::refused(reason(answer).await)),
    }
}

/// Why the relay refused, in its own words.
async fn reason(answer: Response) -> String {
    let status = answer.status();
    let reason = answer.text().await.unwrap_or_default();
    if reason.trim().is_empty() { say::api::status(status) } else { sentence(&reason) }
}

/// The secret of a role, from the fragment of the address, from which it is taken: a projector shows the address to the
/// whole room.
pub fn take_secret() -> Option<(Role, String)> {
    [("token", Role::Teacher), ("view", Role::Projector), ("room", Role::Student)]
        .into_iter()
        .find_map(|(name, role)| Some((role, take_fragment(name)?)))
}

/// The room's passphrase, from the fragment of the address, from which it is taken. It is stored nowhere.
pub fn take_passphrase() -> Option<String> {
    let encoded = take_fragment("passphrase")?;
    // A text that is no percent-encoding is what was meant.
    let decoded = js_sys::decode_uri_component(&encoded).ok().and_then(|decoded| decoded.as_string());
    Some(decoded.unwrap_or(encoded))
}

/// What the address's fragment gives this name. That part then goes from the address and from the history.
fn take_fragment(name: &str) -> Option<String> {
    let location = window().location();
    let fragment = location.hash().ok()?;
    let value = from_fragment(&fragment, name)?.to_owned();
    let (path, search) = (location.pathname().unwrap_or_default(), location.search().unwrap_or_default());
    let rest = format!("{path}{search}{}", without_part(&fragment, name));
    if let Ok(history) = window().history() {
        // A courtesy to those who look over a shoulder: the page works as well if the browser refuses.
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
