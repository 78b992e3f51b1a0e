//! The built page, embedded.

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{self, Read, Write},
    sync::{LazyLock, Mutex, PoisonError},
};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
};
use brotli_decompressor::Decompressor;
use flate2::{Compression, write::GzEncoder};
use rust_embed::{EmbeddedFile, RustEmbed};
use tracing::error;

use super::{coding::accepts, replay::PAGE};

/// What trunk built, empty unless it did; of some files only what brotli made of them, under [`PACKED`]. Trunk stages a build
/// in a hidden folder beside its result.
#[derive(RustEmbed)]
#[folder = "../../dist"]
#[exclude = ".*"]
struct Page;

/// What the name of a file ends with that is embedded as brotli packed it.
const PACKED: &str = ".br";

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
///
/// # Errors
/// Where a file cannot be unpacked.
pub(crate) fn files_without_trainer() -> impl Iterator<Item = io::Result<(String, Cow<'static, [u8]>)>> {
    names().filter(|name| !TRAINER.iter().any(|prefix| name.starts_with(prefix))).filter_map(|name| {
        let file = File::get(&name)?;
        Some(file.plain().map(|bytes| (name, bytes)))
    })
}

/// The names under which the files are served.
fn names() -> impl Iterator<Item = String> {
    Page::iter().map(|name| name.strip_suffix(PACKED).unwrap_or(&name).to_owned())
}

/// A file of the page, as it is embedded.
struct File {
    embedded: EmbeddedFile,
    is_packed: bool,
}

impl File {
    fn get(name: &str) -> Option<Self> {
        let plain = Page::get(name).map(|embedded| Self { embedded, is_packed: false });
        plain.or_else(|| Some(Self { embedded: Page::get(&format!("{name}{PACKED}"))?, is_packed: true }))
    }

    fn etag(&self) -> String {
        let hash: String = self.embedded.metadata.sha256_hash().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hash}\"")
    }

    fn plain(&self) -> io::Result<Cow<'static, [u8]>> {
        if !self.is_packed {
            return Ok(self.embedded.data.clone());
        }
        let mut bytes = Vec::new();
        Decompressor::new(&*self.embedded.data, 64 * 1024).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// The body in the best coding that the client takes, and that coding.
    fn body(&self, name: &str, request: &HeaderMap) -> io::Result<(Option<&'static str>, Bytes)> {
        if self.is_packed && accepts(request, "br") {
            return Ok((Some("br"), bytes(self.embedded.data.clone())));
        }
        let gzip = accepts(request, "gzip");
        if !gzip && !self.is_packed {
            return Ok((None, bytes(self.embedded.data.clone())));
        }
        Ok((gzip.then_some("gzip"), self.prepared(name, gzip)?))
    }

    /// The file with gzip or plain, made once for everybody: a class opens the page in the same minute, and the trainer's
    /// megabytes take half a second to compress.
    fn prepared(&self, name: &str, gzip: bool) -> io::Result<Bytes> {
        static PREPARED: LazyLock<Mutex<HashMap<(String, bool), Bytes>>> = LazyLock::new(Mutex::default);
        // Held meanwhile, so that thirty students at once wait for the first instead of compressing it thirty times.
        let mut known = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), gzip);
        if let Some(bytes) = known.get(&key) {
            return Ok(bytes.clone());
        }
        let mut made = bytes(self.plain()?);
        if gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&made)?;
            made = encoder.finish()?.into();
        }
        known.insert(key, made.clone());
        Ok(made)
    }
}

fn bytes(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => data.into(),
    }
}

/// Serves a file of the page; the addresses of the student, the projector and a replay lead to the same one.
pub(crate) async fn serve(uri: Uri, request: HeaderMap) -> Response {
    let name = match uri.path().trim_start_matches('/') {
        "" | "projector" | PAGE => INDEX,
        name => name,
    };
    let Some(file) = File::get(name) else {
        return match name {
            INDEX => (StatusCode::SERVICE_UNAVAILABLE, Html(NOT_BUILT)).into_response(),
            _ => (StatusCode::NOT_FOUND, "There is nothing at this address.").into_response(),
        };
    };
    let etag = file.etag();
    let caching = if is_hashed(name) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let is_known = request.get(header::IF_NONE_MATCH).is_some_and(|known| names_tag(known, &etag));
    let headers = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CACHE_CONTROL, caching.to_owned()),
        (header::ETAG, etag),
        (header::VARY, "accept-encoding".to_owned()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    match file.body(name, &request) {
        Ok((Some(coding), body)) => (headers, [(header::CONTENT_ENCODING, coding)], body).into_response(),
        Ok((None, body)) => (headers, body).into_response(),
        Err(error) => {
            error!("{name} of the page cannot be unpacked: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// What a file of this name is. Text is UTF-8, and says so: a browser that has to guess takes the language of the user's system.
fn content_type(name: &str) -> String {
    let kind = mime_guess::from_path(name).first_or_octet_stream();
    if kind.type_() == mime_guess::mime::TEXT { format!("{kind}; charset=utf-8") } else { kind.to_string() }
}

/// Whether an `If-None-Match` names this tag.
fn names_tag(known: &HeaderValue, etag: &str) -> bool {
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
        assert_eq!(content_type("page.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("page_bg.wasm"), "application/wasm");
    }

    /// Whatever is embedded can be found.
    #[test]
    fn every_file_has_a_content_type() {
        for name in names() {
            assert!(File::get(&name).is_some(), "{name}");
            assert_ne!(content_type(&name), "application/octet-stream", "{name} has no content type");
        }
        assert_eq!(is_built(), names().any(|name| name == INDEX));
    }

    /// Thirty students who ask at once get one and the same bytes.
    #[test]
    fn a_file_is_compressed_once() {
        for name in names() {
            let get = |accepted| {
                let request = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
                File::get(&name).unwrap().body(&name, &request).unwrap().1
            };
            let (zipped, plain) = (get("gzip"), get(""));
            assert_eq!(zipped.as_ptr(), get("gzip").as_ptr(), "{name}");
            assert_eq!(plain.as_ptr(), get("").as_ptr(), "{name}");
            assert_ne!(zipped.as_ptr(), plain.as_ptr(), "{name}");
        }
    }

    /// A wrong coding would leave a browser with bytes that it cannot read.
    #[test]
    fn every_file_is_the_same_in_each_coding() {
        for name in names() {
            let file = File::get(&name).unwrap();
            let plain = file.plain().unwrap();
            for (accepted, expected) in
                [("br", if file.is_packed { Some("br") } else { None }), ("gzip", Some("gzip")), ("", None)]
            {
                let request = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
                let (coding, body) = file.body(&name, &request).unwrap();
                assert_eq!(coding, expected, "{name}");
                let mut read = Vec::new();
                match coding {
                    Some("br") => Decompressor::new(&*body, 4096).read_to_end(&mut read).unwrap(),
                    Some(_) => flate2::read::GzDecoder::new(&*body).read_to_end(&mut read).unwrap(),
                    None => (&*body).read_to_end(&mut read).unwrap(),
                };
                assert!(read == *plain, "{name} as {accepted:?}");
            }
        }
    }
}
