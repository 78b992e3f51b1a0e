//! `POST /api/erase`: the teacher ends the lesson and erases it.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use tokio::sync::oneshot;
use tracing::error;

use super::{
    app::App,
    control::{bad_request, stopping},
};
use crate::supervisor::Erasure;

pub(crate) const MAX_BODY: usize = 1024;

/// Says that it is meant: nothing brings the lesson back.
#[derive(Debug, Deserialize)]
struct Request {
    everything: bool,
}

/// Responds 200 with the receipt, 400 if the body is not `{"everything":true}`, 500 with a sentence if something could
/// not be erased.
pub(crate) async fn erase(State(app): State<App>, body: Bytes) -> Response {
    if !serde_json::from_slice(&body).is_ok_and(|request: Request| request.everything) {
        return bad_request("To erase the whole lesson, send {\"everything\":true}.".to_owned());
    }
    let (reply, receiver) = oneshot::channel();
    if app.erasures.send(Erasure(reply)).await.is_err() {
        return stopping();
    }
    match receiver.await {
        Ok(Ok(receipt)) => Json(receipt).into_response(),
        Ok(Err(reason)) => {
            error!("the lesson is not erased: {reason:#}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("Not everything is erased: {reason:#}.")).into_response()
        }
        Err(_) => stopping(),
    }
}
