//! `POST /api/candidate`: a picture that may be in the client's data.

use axum::{body::Bytes, extract::State, response::Response};
use tokio::task::spawn_blocking;
use unmask_room::{CandidatePicture, Input, NoCandidate};

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
    let read = spawn_blocking(move || CandidatePicture::read(&file, side)).await;
    let read = read.map_err(|_| Unusable::BrokeDown).and_then(|read| Ok(read?));
    let picture = match read {
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
    Picture(#[from] NoCandidate),
    #[error("the decoder failed")]
    BrokeDown,
}
