//! `/api/session`: exchanges a secret or a PIN for a cookie, so that the page does not have to keep either.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{AppendHeaders, IntoResponse, Response},
};
use tokio::time::Instant;
use tracing::{error, warn};
use unmask_room::{DeviceId, Input};
use unmask_wire::view::{Role, SessionRequest, SessionView};

use super::{
    app::App,
    caller::{Caller, cookie_name, device},
    control::bad_request,
    pin::Try,
};
use crate::random;

pub(crate) const MAX_BODY: usize = 1024;

/// Responds with the caller's role.
pub(crate) async fn show(State(app): State<App>, Caller(role): Caller) -> Response {
    ([NO_STORE], Json(view(&app, role))).into_response()
}

/// Responds 200 with the cookie for a correct secret or PIN, 401 with a sentence for a wrong one, 429 after too many
/// wrong PINs, 400 for a body with neither.
pub(crate) async fn open(
    State(app): State<App>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request: SessionRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return bad_request(format!("The request for a session cannot be read: {error}.")),
    };
    let scopes = &app.scopes;
    let role = match request {
        SessionRequest { secret: Some(secret), .. } if scopes.secrets.is_earlier(&secret) => {
            Err(refusal("This room has a new key. Scan the QR code on the projector again, or type the PIN."))
        }
        SessionRequest { secret: Some(secret), .. } => scopes.secrets.role_of(&secret).ok_or_else(|| {
            refusal("This link is of another room, or of an earlier lesson. Scan the QR code again, or type the PIN.")
        }),
        SessionRequest { pin: Some(pin), .. } => try_pin(&app, &pin, address.ip()).await.map(|()| Role::Student),
        SessionRequest { secret: None, pin: None } => {
            Err(bad_request("A session takes a \"secret\" or a \"pin\"; the request has neither.".to_owned()))
        }
    };
    match role {
        Ok(role) => {
            let secret = Some((scopes.cookie.clone(), scopes.secrets.of(role)));
            let cookies = [secret, new_device(&app, &headers)].into_iter().flatten();
            let cookies = cookies.map(|(name, value)| cookie(&name, &value, scopes.is_cookie_secure));
            let cookies = AppendHeaders(cookies.map(|cookie| (header::SET_COOKIE, cookie)));
            ([NO_STORE], cookies, Json(view(&app, Some(role)))).into_response()
        }
        Err(refusal) => refusal,
    }
}

const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

fn view(app: &App, role: Option<Role>) -> SessionView {
    if role.is_none() {
        return SessionView::default();
    }
    SessionView { role, https_address: Some(app.https_address.to_string()), ..app.snapshots.borrow().session() }
}

async fn try_pin(app: &App, pin: &str, from: IpAddr) -> Result<(), Response> {
    // People type spaces between groups of digits.
    let pin: String = pin.split_whitespace().collect();
    match app.scopes.pin.attempt(&pin, from, Instant::now()) {
        Try::Right => Ok(()),
        Try::Wrong => Err(refusal("This is not the PIN that the projector shows; type its six digits again.")),
        Try::Renewed { pin, number } => {
            warn!(address = %from, "too many wrong PINs; the room has a new one");
            // A separate task, since the projector must show the new PIN even if the caller hangs up.
            let room = app.room.clone();
            tokio::spawn(async move { room.send(Input::PinRenewed { pin, number }).await });
            Err(refusal(
                "This is not the PIN. After too many wrong attempts, the room has a new one. Look at the projector.",
            ))
        }
        Try::TooMany(wait) => Err(too_many(wait)),
    }
}

fn refusal(sentence: &'static str) -> Response {
    (StatusCode::UNAUTHORIZED, sentence).into_response()
}

fn too_many(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let sentence = format!("Too many wrong PINs. Try again in {seconds} s, or scan the QR code.");
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds.to_string())], sentence).into_response()
}

/// Returns a session cookie that scripts cannot read and that browsers do not send for other sites' pages.
fn cookie(name: &str, value: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}")
}

/// Returns the name and value of the device cookie for a browser without one.
fn new_device(app: &App, headers: &HeaderMap) -> Option<(String, String)> {
    if device(headers, &app.scopes.cookie).is_some() {
        return None;
    }
    let drawn = random::bytes().map(DeviceId::of).inspect_err(|error| error!("{error}")).ok()?;
    Some((cookie_name(&app.scopes.cookie), drawn.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With HTTPS only, a browser cannot be tricked into sending the secret unencrypted.
    #[test]
    fn cookie_of_https_alone_never_travels_in_the_plain() {
        assert_eq!(cookie("unmask-80", "5ec", false), "unmask-80=5ec; HttpOnly; SameSite=Strict; Path=/");
        assert_eq!(cookie("unmask-80", "5ec", true), "unmask-80=5ec; HttpOnly; SameSite=Strict; Path=/; Secure");
    }
}
