//! `POST /api/candidate`: a picture that may be in the client's data.

use axum::{body::Bytes, extract::State, response::Response};
use tokio::{sync::oneshot, task::spawn_blocking};
use unmask_data::decode;

use crate::{
    attacks::CandidatePicture,
    http::app::App,
    http::control::{answer, bad_request, stopping},
    room::Input,
};

pub(crate) const MAX_FILE: usize = 8 << 20;

/// Responds 204 if the picture is now the candidate, 400 with a sentence if the file is not a picture, 413 if it is too
/// large.
pub(crate) async fn candidate(State(app): State<App>, file: Bytes) -> Response {
    let side = app.snapshots.borrow().view.architecture.side();
    let picture = match spawn_blocking(move || read(&file, side)).await {
        Ok(Ok(picture)) => picture,
        Ok(Err(reason)) => return bad_request(format!("The picture cannot be used: {reason}.")),
        Err(_) => return bad_request("The picture cannot be used: the decoder failed.".to_owned()),
    };
    let (reply, receiver) = oneshot::channel();
    if app.room.send(Input::Candidate { picture, reply }).await.is_err() {
        return stopping();
    }
    answer(receiver).await
}

/// Decodes the picture as a model of image side `side` sees it.
fn read(file: &[u8], side: usize) -> Result<CandidatePicture, String> {
    let picture = decode(file).map_err(|error| error.to_string())?;
    CandidatePicture::copy(&picture, side).map_err(|error| error.to_string())
}
