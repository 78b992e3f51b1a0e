//! The built page, embedded.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
};
use rust_embed::RustEmbed;

/// What trunk built, empty unless it did. Trunk stages a build in a hidden folder beside its result.
#[derive(RustEmbed)]
#[folder = "../../dist"]
#[exclude = ".*"]
struct Page;

const INDEX: &str = "index.html";

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

/// Serves a file of the page; the student's and the projector's address lead to the same one.
pub(crate) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let name = match uri.path().trim_start_matches('/') {
        "" | "projector" => INDEX,
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
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| names(known, &etag));
    let headers = [
        (header::CONTENT_TYPE, file.metadata.mimetype().to_owned()),
        (header::CACHE_CONTROL, caching.to_owned()),
        (header::ETAG, etag),
    ];
    if is_known { (StatusCode::NOT_MODIFIED, headers).into_response() } else { (headers, file.data).into_response() }
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
