//! `trade-off.json`: what defences cost in accuracy beside what they leave to see, measured before the lesson.

use std::borrow::Cow;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

/// Its name in every site that shows a lesson.
pub(crate) const NAME: &str = "trade-off.json";

/// What `unmask reproduce trade-off` measured.
#[derive(RustEmbed)]
#[folder = "../../assets"]
#[include = "trade-off.json"]
struct Measured;

/// The file, if it was there when this was compiled.
pub(crate) fn measured() -> Option<Cow<'static, [u8]>> {
    Some(Measured::get(NAME)?.data)
}

/// 404 where this was compiled without the file.
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
