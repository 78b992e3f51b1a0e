//! `GET /api/lesson.unmask`: the recording of the lesson, for its teacher to take home.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::sync::{mpsc, oneshot};
use tracing::error;
use unmask_recording::NAME;

use crate::{http::app::App, http::control::stopping, room::Input};

/// The form of the file: a recording is packed with gzip.
pub(crate) const FORM: &str = "application/gzip";

/// 200 with the file; 404 where none is made; 500 with a sentence where it cannot be packed.
pub(crate) async fn recording(State(app): State<App>) -> Response {
    if !app.is_recorded {
        return (StatusCode::NOT_FOUND, "This lesson is not recorded: the relay was started with --no-recording.")
            .into_response();
    }
    match take(&app.room).await {
        Some(Ok(file)) => {
            let headers = [
                (header::CONTENT_TYPE, FORM.to_owned()),
                (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{NAME}\"")),
                (header::CACHE_CONTROL, "no-store".to_owned()),
            ];
            (headers, file).into_response()
        }
        Some(Err(reason)) => {
            error!("the recording cannot be packed: {reason}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("The recording cannot be packed: {reason}.")).into_response()
        }
        None => stopping(),
    }
}

/// The file as it is now, packed, or why it cannot be; `None` where none is made, or the relay is stopping.
pub(crate) async fn take(room: &mpsc::Sender<Input>) -> Option<Result<Vec<u8>, String>> {
    let (reply, receiver) = oneshot::channel();
    room.send(Input::Recording { reply }).await.ok()?;
    receiver.await.ok()
}
