//! `trade-off.json`: what defences cost in accuracy and what they still leak, measured before the lesson.

use std::borrow::Cow;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

/// Name of the file in every site that shows a lesson.
pub(crate) const NAME: &str = "trade-off.json";

/// The output of `unmask reproduce trade-off`.
#[derive(RustEmbed)]
#[folder = "../../assets"]
#[include = "trade-off.json"]
struct Measured;

pub(crate) fn measured() -> Option<Cow<'static, [u8]>> {
    Some(Measured::get(NAME)?.data)
}

/// Responds 200 with the file, or 404 if this program was compiled without it.
pub(crate) async fn show() -> Response {
    match measured() {
        Some(file) => {
            let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
            (headers, file).into_response()
        }
        None => {
            let sentence = "This relay was compiled without a trade-off; `unmask reproduce trade-off` measures one.";
            (StatusCode::NOT_FOUND, sentence).into_response()
        }
    }
}
