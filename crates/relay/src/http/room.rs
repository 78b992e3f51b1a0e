//! The room as JSON and as a stream of events, its pictures, and the clients' socket.

use axum::{
    extract::{State, WebSocketUpgrade},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use unmask_room::Peer;
use unmask_wire::{MAX_FRAME, view::Role};

use super::{app::App, caller::Caller, events as feed};
use crate::connection::{self, Origin};

/// Maximum bytes in a socket's own write buffer, for the current frame and pongs.
const MAX_WRITE_BUFFER: usize = 4 * MAX_FRAME;

/// Responds with the whole room for projector and teacher, and for all others only that a room exists.
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
        // A restarted relay numbers its pictures from 1 again, so they must not be cached.
        Some(png) => ([(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "no-store")], png).into_response(),
        None => (StatusCode::NOT_FOUND, "This picture is no longer kept.").into_response(),
    }
}

pub(crate) async fn connect(
    State(app): State<App>,
    peer: Peer,
    request: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let origin = Origin { peer, keys: app.scopes.keys_before(&request), is_own: app.scopes.is_own_robot(&request) };
    upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .max_write_buffer_size(MAX_WRITE_BUFFER)
        .on_upgrade(move |socket| connection::run(socket, origin, app.room, app.sockets))
}
