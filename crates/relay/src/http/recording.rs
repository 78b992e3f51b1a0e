//! `GET /api/lesson.unmask`: the lesson's recording as a download for the teacher.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::sync::mpsc;
use tracing::error;
use unmask_recording::{NAME, RecordingError};
use unmask_room::Input;

use crate::{http::app::App, http::control::stopping, room::reply};

/// Content type of a recording, which is gzipped.
pub(crate) const FORM: &str = "application/gzip";

/// Responds 200 with the file, 404 if the lesson is not recorded, 500 with a sentence if the recording cannot be
/// packed.
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

/// Returns the packed recording up to now, or why packing failed; `None` if the lesson is not recorded or the relay is
/// stopping.
pub(crate) async fn take(room: &mpsc::Sender<Input>) -> Option<Result<Vec<u8>, RecordingError>> {
    let (reply, receiver) = reply();
    room.send(Input::Recording { reply }).await.ok()?;
    receiver.await.ok()
}
