//! What a client asks the room before it joins: the secret for a PIN, and the classes of photographs.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use unmask_data::PHOTOGRAPH_CLASSES;
use unmask_wire::view::{SessionRequest, SessionView};
use ureq::{Agent, tls::TlsConfig};

const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the room at `session` for the secret that belongs to this PIN. Blocks.
///
/// # Errors
/// Nobody answers, the PIN is wrong, or too many were tried; the message contains the relay's own sentence.
pub(crate) fn exchange(session: &str, pin: &str, accept_any_certificate: bool) -> anyhow::Result<String> {
    let is_pin = pin.len() == 6 && pin.bytes().all(|digit| digit.is_ascii_digit());
    ensure!(is_pin, "\"{pin}\" is not a PIN; give the six digits that the projector shows");
    let request = SessionRequest { secret: None, pin: Some(pin.to_owned()) };
    let request = serde_json::to_string(&request).context("the PIN cannot be written as JSON")?;
    let mut answer = agent(accept_any_certificate)
        .post(session)
        .content_type("application/json")
        .send(request)
        .with_context(|| format!("no room answers at {session}; is the relay running there?"))?;
    if answer.status() != 200 {
        let sentence = answer.body_mut().read_to_string().unwrap_or_default();
        bail!("the PIN {pin} opens no room at {session} (status {}): {sentence}", answer.status().as_u16());
    }
    let cookies = answer.headers().get_all("set-cookie").into_iter().filter_map(|cookie| cookie.to_str().ok());
    secret(cookies).with_context(|| format!("{session} answers without a secret; is an unmask relay running there?"))
}

/// The classes with which the room labels private photographs. A room that does not say gets words for any photograph,
/// since what leaks does not depend on a label. Blocks.
pub(crate) fn classes(session: &str, secret: Option<&str>, accept_any_certificate: bool) -> Vec<String> {
    let asked = secret.map(|secret| SessionRequest { secret: Some(secret.to_owned()), pin: None });
    let answer = asked.and_then(|request| {
        let request = serde_json::to_string(&request).ok()?;
        let post = agent(accept_any_certificate).post(session).content_type("application/json");
        post.send(request).ok()?.body_mut().read_to_string().ok()
    });
    let view = answer.and_then(|text| serde_json::from_str::<SessionView>(&text).ok()).unwrap_or_default();
    if view.classes.is_empty() { PHOTOGRAPH_CLASSES.map(str::to_owned).to_vec() } else { view.classes }
}

fn agent(accept_any_certificate: bool) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .tls_config(TlsConfig::builder().disable_verification(accept_any_certificate).build())
        .build()
        .into()
}

/// The secret's cookie, which is named after the relay's port; the other cookie identifies a browser.
fn secret<'a>(mut cookies: impl Iterator<Item = &'a str>) -> Option<String> {
    cookies.find_map(|cookie| {
        let (name, value) = cookie.split(';').next()?.split_once('=')?;
        let port = name.trim().strip_prefix("unmask-")?;
        port.parse::<u16>().ok().map(|_| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_in_the_cookie_of_the_port() {
        let cookies = ["unmask-8080-device=00ff; Path=/", "other=1", "unmask-8080=5ec3e7; HttpOnly; Path=/"];
        assert_eq!(secret(cookies.into_iter()).as_deref(), Some("5ec3e7"));
        assert_eq!(secret(["unmask-device=1"].into_iter()), None);
    }

    #[test]
    fn what_is_no_pin_is_asked_nobody() {
        for pin in ["", "12345", "1234567", "12345x", "１２３４５６"] {
            let error = exchange("http://nowhere.test/api/session", pin, false).unwrap_err().to_string();
            assert!(error.contains("six digits"), "{error}");
        }
    }
}
