//! The room itself: as JSON, as a stream of events, its pictures, and the socket into it.

use axum::{
    extract::{State, WebSocketUpgrade},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use tracing::error;
use unmask_wire::{MAX_FRAME, view::Role};

use super::{app::App, events as feed, scopes::Caller};
use crate::{connection, peer::Peer};

/// The whole room for projector and teacher; for anybody else that there is one.
pub(crate) async fn room(State(app): State<App>, Caller(role): Caller) -> Response {
    let json = match role {
        Some(Role::Projector | Role::Teacher) => app.snapshots.borrow().clone().json(),
        Some(Role::Student) | None => Ok(r#"{"room":true}"#.to_owned()),
    };
    match json {
        Ok(json) => {
            ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], json).into_response()
        }
        Err(error) => {
            error!("the room cannot be written as JSON: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

pub(crate) async fn events(State(app): State<App>) -> Response {
    let events = app.events.subscribe();
    let snapshot = app.snapshots.borrow().clone();
    feed::stream(&snapshot, events)
}

pub(crate) async fn picture(State(app): State<App>, uri: Uri) -> Response {
    match app.pictures.get(uri.path()) {
        // A relay started anew counts rounds from 1 again.
        Some(png) => ([(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "no-store")], png).into_response(),
        None => (StatusCode::NOT_FOUND, "This picture is no longer kept.").into_response(),
    }
}

pub(crate) async fn connect(State(app): State<App>, peer: Peer, upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .on_upgrade(move |socket| connection::run(socket, peer, app.room, app.limits, app.longest, app.reusable_buffer))
}
