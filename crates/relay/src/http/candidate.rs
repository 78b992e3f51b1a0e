//! `POST /api/candidate`: a picture that may be in the client's data.

use axum::{body::Bytes, extract::State, response::Response};
use tokio::task::spawn_blocking;
use unmask_data::{ImageError, NotAPicture, decode};
use unmask_room::{CandidatePicture, Input};

use crate::{
    http::app::App,
    http::control::{answer, bad_request, stopping},
    room::reply,
};

pub(crate) const MAX_FILE: usize = 8 << 20;

/// Responds 204 if the picture is now the candidate, 400 with a sentence if the file is not a picture, 413 if it is too
/// large.
pub(crate) async fn candidate(State(app): State<App>, file: Bytes) -> Response {
    let side = app.snapshots.borrow().view.architecture.side();
    let read = spawn_blocking(move || read(&file, side)).await;
    let picture = match read.unwrap_or(Err(Unusable::BrokeDown)) {
        Ok(picture) => picture,
        Err(reason) => return bad_request(format!("The picture cannot be used: {reason}.")),
    };
    let (reply, receiver) = reply();
    if app.room.send(Input::Candidate { picture, reply }).await.is_err() {
        return stopping();
    }
    answer(receiver).await
}

/// Why a file cannot be the candidate.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    File(#[from] NotAPicture),
    #[error(transparent)]
    Encoding(#[from] ImageError),
    #[error("the decoder failed")]
    BrokeDown,
}

/// Decodes the picture as a model of image side `side` sees it.
fn read(file: &[u8], side: usize) -> Result<CandidatePicture, Unusable> {
    Ok(CandidatePicture::copy(&decode(file)?, side)?)
}
