//! `GET /trade-off.json`: what defences cost in accuracy beside what they leave to see, measured before the lesson.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

/// What `unmask reproduce trade-off` measured.
#[derive(RustEmbed)]
#[folder = "../../assets"]
#[include = "trade-off.json"]
struct Measured;

/// 404 where this was compiled without the file.
pub(crate) async fn show() -> Response {
    match Measured::get("trade-off.json") {
        Some(file) => {
            let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
            (headers, file.data).into_response()
        }
        None => {
            let sentence = "This relay was compiled without a trade-off; `unmask reproduce trade-off` measures one.";
            (StatusCode::NOT_FOUND, sentence).into_response()
        }
    }
}
