//! The room itself: as JSON, as a stream of events, its pictures, and the socket into it.

use axum::{
    extract::{State, WebSocketUpgrade},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use unmask_wire::{MAX_FRAME, view::Role};

use super::{app::App, caller::Caller, events as feed};
use crate::{connection, peer::Peer};

/// Most that may wait in a socket's own buffer, in bytes: the frame that is sent, and answers to pings.
const MAX_WRITE_BUFFER: usize = 4 * MAX_FRAME;

/// The whole room for projector and teacher; for anybody else that there is one.
pub(crate) async fn room(State(app): State<App>, Caller(role): Caller, request: HeaderMap) -> Response {
    match role {
        Some(Role::Projector | Role::Teacher) => {
            let snapshot = app.snapshots.borrow().clone();
            app.rendered.answer(&snapshot, &request)
        }
        Some(Role::Student) | None => {
            let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
            (headers, r#"{"room":true}"#).into_response()
        }
    }
}

pub(crate) async fn events(State(app): State<App>) -> Response {
    let events = app.events.subscribe();
    let snapshot = app.snapshots.borrow().clone();
    feed::stream(app.rendered.text(&snapshot), events)
}

pub(crate) async fn picture(State(app): State<App>, uri: Uri) -> Response {
    match app.pictures.get(uri.path()) {
        // A relay that starts again numbers its pictures from 1 again.
        Some(png) => ([(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "no-store")], png).into_response(),
        None => (StatusCode::NOT_FOUND, "This picture is no longer kept.").into_response(),
    }
}

pub(crate) async fn connect(State(app): State<App>, peer: Peer, upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .max_write_buffer_size(MAX_WRITE_BUFFER)
        .on_upgrade(move |socket| connection::run(socket, peer, app.room, app.sockets))
}
