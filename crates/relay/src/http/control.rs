//! `POST /api/control`: the teacher's controls.

use axum::{
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use tokio::sync::oneshot;
use unmask_room::{ControlError, Input};
use unmask_wire::view::Control;

use crate::{http::app::App, room::reply};

pub(crate) const MAX_BODY: usize = 16 * 1024;

/// Responds 204 on success, 400 with a sentence if the control is invalid or refused.
pub(crate) async fn control(State(app): State<App>, body: Bytes) -> Response {
    let control: Control = match serde_json::from_slice(&body) {
        Ok(control) => control,
        Err(error) => return bad_request(format!("The control cannot be read: {error}.")),
    };
    if control == Control::NewKey {
        return new_key(app).await;
    }
    let (reply, receiver) = reply();
    if app.room.send(Input::Control { control, reply }).await.is_err() {
        return stopping();
    }
    answer(receiver).await
}

/// Replaces the students' key and the PIN, and shows the new ones.
async fn new_key(app: App) -> Response {
    let (keys, (pin, pins)) = (app.scopes.secrets.renew(), app.scopes.pin.renew());
    let qr_svg = app.scopes.qr_svg(&app.https_address);
    // A separate task, since the projector must show the new key even if the caller hangs up.
    let told = tokio::spawn(async move { app.room.send(Input::KeyRenewed { qr_svg, keys, pin, pins }).await });
    match told.await {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        _ => stopping(),
    }
}

pub(crate) async fn answer(receiver: oneshot::Receiver<Result<(), ControlError>>) -> Response {
    match receiver.await {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(reason)) => bad_request(reason.to_string()),
        Err(_) => stopping(),
    }
}

pub(crate) fn bad_request(sentence: String) -> Response {
    (StatusCode::BAD_REQUEST, sentence).into_response()
}

pub(crate) fn stopping() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "The relay is stopping.").into_response()
}
