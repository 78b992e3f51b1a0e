//! The built page, embedded.

use std::{
    borrow::Cow,
    collections::HashMap,
    io::Write,
    sync::{LazyLock, Mutex, PoisonError},
};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use rust_embed::RustEmbed;

use super::replay::PAGE;

/// What trunk built, empty unless it did. Trunk stages a build in a hidden folder beside its result.
#[derive(RustEmbed)]
#[folder = "../../dist"]
#[exclude = ".*"]
struct Page;

/// The page itself, whatever address leads to it.
pub(crate) const INDEX: &str = "index.html";
/// With what the names of the files begin that train, and that a page without a room has no use for.
const TRAINER: [&str; 2] = ["worker", "samples/"];

const NOT_BUILT: &str = "<!doctype html>
<meta charset=\"utf-8\">
<title>unmask</title>
<h1>The page is not built</h1>
<p>This relay was compiled without the page. Run <code>cargo demo</code>, which builds both.</p>
";

/// Whether the page was there when this was compiled.
pub(crate) fn is_built() -> bool {
    Page::get(INDEX).is_some()
}

/// The page itself, if it was there when this was compiled.
pub(crate) fn index() -> Option<String> {
    Page::get(INDEX).map(|file| String::from_utf8_lossy(&file.data).into_owned())
}

/// All files of the page but those that train, by their names.
pub(crate) fn files_without_trainer() -> impl Iterator<Item = (String, Cow<'static, [u8]>)> {
    let is_needed = |name: &Cow<'_, str>| !TRAINER.iter().any(|prefix| name.starts_with(prefix));
    Page::iter().filter(is_needed).filter_map(|name| Some((name.to_string(), Page::get(&name)?.data)))
}

/// Serves a file of the page; the addresses of the student, the projector and a replay lead to the same one.
pub(crate) async fn serve(uri: Uri, request: HeaderMap) -> Response {
    let name = match uri.path().trim_start_matches('/') {
        "" | "projector" | PAGE => INDEX,
        name => name,
    };
    let Some(file) = Page::get(name) else {
        return match name {
            INDEX => (StatusCode::SERVICE_UNAVAILABLE, Html(NOT_BUILT)).into_response(),
            _ => (StatusCode::NOT_FOUND, "There is nothing at this address.").into_response(),
        };
    };
    let etag: String = file.metadata.sha256_hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let etag = format!("\"{etag}\"");
    let caching = if is_hashed(name) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let is_known = request.get(header::IF_NONE_MATCH).is_some_and(|known| names(known, &etag));
    let headers = [
        (header::CONTENT_TYPE, content_type(file.metadata.mimetype())),
        (header::CACHE_CONTROL, caching.to_owned()),
        (header::ETAG, etag),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    match accepts_gzip(&request).then(|| gzipped(name, &file.data)).flatten() {
        Some(body) => {
            let encoded = [(header::CONTENT_ENCODING, "gzip"), (header::VARY, "accept-encoding")];
            (headers, encoded, body).into_response()
        }
        None => (headers, file.data).into_response(),
    }
}

/// Text is UTF-8, and says so: a browser that has to guess takes the language of the user's system.
fn content_type(kind: &str) -> String {
    if kind.starts_with("text/") { format!("{kind}; charset=utf-8") } else { kind.to_owned() }
}

/// The file compressed, once for everybody: a class opens the page in the same minute, and the trainer's megabytes take
/// half a second to compress. `None` if it cannot be compressed.
fn gzipped(name: &str, data: &[u8]) -> Option<Bytes> {
    static GZIPPED: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);
    // Held meanwhile, so that thirty students at once wait for the first instead of compressing it thirty times.
    let mut known = GZIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = known.get(name) {
        return Some(bytes.clone());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let bytes = Bytes::from(encoder.write_all(data).and_then(|()| encoder.finish()).ok()?);
    known.insert(name.to_owned(), bytes.clone());
    Some(bytes)
}

/// Whether `Accept-Encoding` takes gzip, and not at a weight of 0 (RFC 9110, section 12.5.3).
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
}

/// Whether an `If-None-Match` names this tag.
fn names(known: &HeaderValue, etag: &str) -> bool {
    known.to_str().is_ok_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag))
}

/// Whether the file's name holds a hash of its content, so that a change of one is a change of the other.
fn is_hashed(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|part| part.len() >= 12 && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_names() {
        assert!(is_hashed("page-9f8e7d6c5b4a3210.js"));
        assert!(is_hashed("page-9f8e7d6c5b4a3210_bg.wasm"));
        for name in ["index.html", "worker_loader.js", "samples/astronaut.png", "snippets/deadbeef.js"] {
            assert!(!is_hashed(name), "{name}");
        }
    }

    #[test]
    fn text_names_its_encoding() {
        assert_eq!(content_type("text/javascript"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("application/wasm"), "application/wasm");
    }

    /// Whatever is embedded can be found.
    #[test]
    fn every_file_has_a_content_type() {
        for name in Page::iter() {
            let file = Page::get(&name).unwrap();
            assert_ne!(file.metadata.mimetype(), "application/octet-stream", "{name} has no content type");
        }
        assert_eq!(is_built(), Page::iter().any(|name| name == INDEX));
    }
}
