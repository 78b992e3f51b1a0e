//! The built page, embedded gzipped.

use std::io::Read;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use flate2::read::GzDecoder;
use tracing::error;

/// One file of the page.
struct File {
    /// Path below `dist`.
    name: &'static str,
    /// Quoted hash of its content.
    etag: &'static str,
    gzipped: &'static [u8],
}

mod embedded {
    use super::File;
    include!(concat!(env!("OUT_DIR"), "/page_files.rs"));
}

const INDEX: &str = "index.html";

const NOT_BUILT: &str = "<!doctype html>
<meta charset=\"utf-8\">
<title>unmask</title>
<h1>The page is not built</h1>
<p>This relay was compiled without the page. Run <code>cargo demo</code>, which builds both.</p>
";

/// Whether the page was there when this was compiled.
pub(crate) fn is_built() -> bool {
    find(INDEX).is_some()
}

/// Serves a file of the page; the student's and the projector's address lead to the same one.
pub(crate) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if !matches!(method, Method::GET | Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")]).into_response();
    }
    let name = match uri.path().trim_start_matches('/') {
        "" | "projector" => INDEX,
        name => name,
    };
    match find(name) {
        Some(file) => respond(file, &headers),
        None if name == INDEX => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], NOT_BUILT)
                .into_response()
        }
        None => (StatusCode::NOT_FOUND, "There is nothing at this address.").into_response(),
    }
}

fn find(name: &str) -> Option<&'static File> {
    let index = embedded::FILES.binary_search_by(|file| file.name.cmp(name)).ok()?;
    embedded::FILES.get(index)
}

fn respond(file: &'static File, headers: &HeaderMap) -> Response {
    let caching = if is_hashed(file.name) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = if headers.get(header::IF_NONE_MATCH).is_some_and(|known| names(known, file.etag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if headers.get(header::ACCEPT_ENCODING).is_some_and(accepts_gzip) {
        ([(header::CONTENT_ENCODING, "gzip")], Body::from(file.gzipped)).into_response()
    } else {
        let mut content = Vec::new();
        if let Err(error) = GzDecoder::new(file.gzipped).read_to_end(&mut content) {
            error!("the embedded file {} is damaged: {error}", file.name);
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        Body::from(content).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(file.name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::ETAG, HeaderValue::from_static(file.etag));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// Whether an `If-None-Match` names this tag.
fn names(known: &HeaderValue, etag: &str) -> bool {
    known.to_str().is_ok_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag))
}

/// Whether an `Accept-Encoding` allows gzip.
fn accepts_gzip(accepted: &HeaderValue) -> bool {
    accepted.to_str().is_ok_and(|accepted| {
        accepted.split(',').any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
            let is_refused = quality.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0_f32));
            matches!(name.trim(), "gzip" | "*") && !is_refused
        })
    })
}

/// Whether the file's name holds a hash of its content, so that a change of one is a change of the other.
fn is_hashed(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|part| part.len() >= 12 && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
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
    fn gzip_only_where_it_is_accepted() {
        for (header, accepted) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
        ] {
            assert_eq!(accepts_gzip(&HeaderValue::from_static(header)), accepted, "{header}");
        }
    }

    /// Whatever is embedded can be found and unpacked.
    #[test]
    fn table_is_sound() {
        for file in embedded::FILES {
            assert!(std::ptr::eq(find(file.name).unwrap(), file), "{}", file.name);
            let mut content = Vec::new();
            GzDecoder::new(file.gzipped).read_to_end(&mut content).unwrap();
            assert_ne!(content_type(file.name), "application/octet-stream", "{} has no content type", file.name);
        }
        assert_eq!(is_built(), embedded::FILES.iter().any(|file| file.name == INDEX));
    }
}
