//! Serves the embedded pages.

use std::{
    borrow::Cow,
    collections::HashMap,
    env, fs,
    io::{self, Read, Write},
    path::PathBuf,
    sync::{LazyLock, Mutex, PoisonError},
};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
};
use brotli_decompressor::Decompressor;
use flate2::{Compression, write::GzEncoder};
use ring::digest::{SHA256, digest};
use rust_embed::{EmbeddedFile, RustEmbed};
use tracing::error;

use super::coding::accepts;
use unmask_room::hex;

/// The output of `crates/bundle`, one folder per page; empty if it was not run. Some files are present only in brotli's
/// form, with the suffix [`PACKED`]. Hidden folders are excluded because Trunk stages its builds there, and `solo`
/// because it needs no relay.
#[derive(RustEmbed)]
#[folder = "../../dist"]
#[exclude = "*/.*"]
#[exclude = "gpu/index.html"]
#[exclude = "solo/*"]
struct Page;

/// Suffix of files that are embedded in brotli's form.
const PACKED: &str = ".br";

pub(crate) const INDEX: &str = "index.html";
/// The name of a replay's document in an exported folder.
pub(crate) const REPLAY_DOCUMENT: &str = "replay.html";

/// The folders of the pages, in search order. Files with the same name are identical, except for [`INDEX`].
const STUDENT: &str = "student";
const PROJECTOR: &str = "projector";
const REPLAY: &str = "replay";
const PAGES: [&str; 3] = [STUDENT, PROJECTOR, REPLAY];

/// The folder of the WebGPU trainer, which is not a page.
const GPU: &str = "gpu";
const GPU_FILES: [&str; 3] = ["gpu_loader.js", "gpu.js", "gpu_bg.wasm"];
/// Environment variable that names a folder with these files, for a program compiled without them. They may appear
/// while it runs.
const GPU_FOLDER: &str = "UNMASK_WEBGPU_TRAINER";

const NOT_BUILT: &str = "<!doctype html>
<meta charset=\"utf-8\">
<title>unmask</title>
<h1>The page is not built</h1>
<p>This relay was compiled without the page. Run <code>cargo demo</code>, which builds both.</p>
";

/// Whether all pages were compiled into this program.
pub(crate) fn is_built() -> bool {
    PAGES.iter().all(|page| File::get(page, INDEX).is_some())
}

pub(crate) fn documents() -> String {
    let indices = PAGES.iter().filter_map(|page| File::get(page, INDEX));
    indices.map(|file| String::from_utf8_lossy(&file.content).into_owned()).collect()
}

/// Returns the names and contents of all files of the replay page.
///
/// # Errors
/// An item is an error if its file cannot be unpacked.
pub(crate) fn files_of_replay() -> impl Iterator<Item = io::Result<(String, Cow<'static, [u8]>)>> {
    files().filter(|(page, _)| page == REPLAY).filter_map(|(page, name)| {
        let file = File::get(&page, &name)?;
        Some(file.plain().map(|bytes| (name, bytes)))
    })
}

fn files() -> impl Iterator<Item = (String, String)> {
    Page::iter().filter_map(|path| {
        let (page, name) = path.strip_suffix(PACKED).unwrap_or(&path).split_once('/')?;
        Some((page.to_owned(), name.to_owned()))
    })
}

struct File {
    /// Path of the unpacked file below the folder of all pages.
    path: String,
    content: Cow<'static, [u8]>,
    /// SHA-256 of the content in hexadecimal.
    hash: String,
    is_packed: bool,
}

impl From<(String, EmbeddedFile, bool)> for File {
    fn from((path, embedded, is_packed): (String, EmbeddedFile, bool)) -> Self {
        Self { path, hash: hex(&embedded.metadata.sha256_hash()), content: embedded.data, is_packed }
    }
}

impl File {
    fn get(page: &str, name: &str) -> Option<Self> {
        let path = format!("{page}/{name}");
        let (embedded, is_packed) = match Page::get(&path) {
            Some(embedded) => (embedded, false),
            None => (Page::get(&format!("{path}{PACKED}"))?, true),
        };
        Some((path, embedded, is_packed).into())
    }

    /// Returns a file of the WebGPU trainer, embedded or else from the folder that [`GPU_FOLDER`] names.
    fn of_gpu(name: &str) -> Option<Self> {
        if !GPU_FILES.contains(&name) {
            return None;
        }
        Self::get(GPU, name).or_else(|| {
            let path = PathBuf::from(env::var_os(GPU_FOLDER)?).join(name);
            let read = |path: &PathBuf| fs::read(path).ok();
            let (content, is_packed) = match read(&path) {
                Some(content) => (content, false),
                None => (read(&path.with_added_extension(&PACKED[1..]))?, true),
            };
            // The hash in the path keeps `prepared` from reusing an earlier build.
            let hash = hex(digest(&SHA256, &content).as_ref());
            let path = format!("{}#{hash}", path.display());
            Some(Self { path, hash, content: content.into(), is_packed })
        })
    }

    fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }

    fn plain(&self) -> io::Result<Cow<'static, [u8]>> {
        if !self.is_packed {
            return Ok(self.content.clone());
        }
        let mut bytes = Vec::new();
        Decompressor::new(&*self.content, 64 * 1024).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// Returns the body in the best coding that the client accepts, and that coding.
    fn body(&self, request: &HeaderMap) -> io::Result<(Option<&'static str>, Bytes)> {
        if self.is_packed && accepts(request, "br") {
            return Ok((Some("br"), bytes(self.content.clone())));
        }
        let gzip = accepts(request, "gzip");
        if !gzip && !self.is_packed {
            return Ok((None, bytes(self.content.clone())));
        }
        Ok((gzip.then_some("gzip"), self.prepared(gzip)?))
    }

    /// Returns the gzipped or plain file, which is prepared only once. A class opens the page in the same minute, and
    /// compressing the trainer takes half a second.
    fn prepared(&self, gzip: bool) -> io::Result<Bytes> {
        static PREPARED: LazyLock<Mutex<HashMap<(String, bool), Bytes>>> = LazyLock::new(Mutex::default);
        // Keep the lock, so that thirty simultaneous requests wait for one compression.
        let mut known = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.path.clone(), gzip);
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

/// Serves a page, or a file of a page.
pub(crate) async fn serve(uri: Uri, request: HeaderMap) -> Response {
    let (pages, name): (&[&str], _) = match uri.path().trim_start_matches('/') {
        "" => (&[STUDENT], INDEX),
        "projector" => (&[PROJECTOR], INDEX),
        REPLAY_DOCUMENT => (&[REPLAY], INDEX),
        name => (&PAGES, name),
    };
    let Some(file) = pages.iter().find_map(|page| File::get(page, name)).or_else(|| File::of_gpu(name)) else {
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
    match file.body(&request) {
        Ok((Some(coding), body)) => (headers, [(header::CONTENT_ENCODING, coding)], body).into_response(),
        Ok((None, body)) => (headers, body).into_response(),
        Err(error) => {
            error!("{} cannot be unpacked: {error}", file.path);
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Returns the content type for a file name. Text is declared as UTF-8, since browsers otherwise guess from the
/// system's language.
fn content_type(name: &str) -> String {
    let kind = match name.rsplit_once('.') {
        Some((_, "ftl")) => mime_guess::mime::TEXT_PLAIN,
        _ => mime_guess::from_path(name).first_or_octet_stream(),
    };
    if kind.type_() == mime_guess::mime::TEXT { format!("{kind}; charset=utf-8") } else { kind.to_string() }
}

fn names_tag(known: &HeaderValue, etag: &str) -> bool {
    known.to_str().is_ok_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag))
}

/// Whether the file's name contains a hash of its content, so that it can be cached forever.
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
        assert_eq!(content_type("translations/de.ftl"), "text/plain; charset=utf-8");
        assert_eq!(content_type("page_bg.wasm"), "application/wasm");
    }

    #[test]
    fn every_file_has_a_content_type() {
        for (page, name) in files() {
            assert!(PAGES.contains(&page.as_str()) || page == GPU, "{page} is no page");
            assert!(File::get(&page, &name).is_some(), "{page}/{name}");
            assert_ne!(content_type(&name), "application/octet-stream", "{page}/{name} has no content type");
        }
        assert_eq!(is_built(), files().any(|(_, name)| name == INDEX));
    }

    /// All pages are served from one root, so a name must mean one file.
    #[test]
    fn pages_share_no_name_but_for_the_same_file() {
        let mut known: HashMap<String, Vec<u8>> = HashMap::new();
        for (page, name) in files().filter(|(_, name)| name != INDEX) {
            let content = File::get(&page, &name).unwrap().plain().unwrap().into_owned();
            let first = known.entry(name.clone()).or_insert_with(|| content.clone());
            assert!(*first == content, "{name} of {page} is another file than the one before it");
        }
    }

    /// An exported replay holds only its own page's files, without the trainer or other pages.
    #[test]
    fn a_replay_has_its_own_files_alone() {
        let names: Vec<String> = files_of_replay().map(|file| file.unwrap().0).collect();
        assert!(
            !names.iter().any(|name| ["worker", "samples", STUDENT, PROJECTOR]
                .iter()
                .any(|other| { name.starts_with(other) && !name.ends_with(".css") })),
            "{names:?}"
        );
        assert_eq!(is_built(), names.iter().any(|name| name.ends_with(".wasm")));
    }

    /// Repeated requests share the same bytes.
    #[test]
    fn a_file_is_compressed_once() {
        for (page, name) in files() {
            let get = |accepted| {
                let request = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
                File::get(&page, &name).unwrap().body(&request).unwrap().1
            };
            let (zipped, plain) = (get("gzip"), get(""));
            assert_eq!(zipped.as_ptr(), get("gzip").as_ptr(), "{name}");
            assert_eq!(plain.as_ptr(), get("").as_ptr(), "{name}");
            assert_ne!(zipped.as_ptr(), plain.as_ptr(), "{name}");
        }
    }

    /// A browser cannot read a body with a wrong coding.
    #[test]
    fn every_file_is_the_same_in_each_coding() {
        for (page, name) in files() {
            let file = File::get(&page, &name).unwrap();
            let plain = file.plain().unwrap();
            for (accepted, expected) in
                [("br", if file.is_packed { Some("br") } else { None }), ("gzip", Some("gzip")), ("", None)]
            {
                let request = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
                let (coding, body) = file.body(&request).unwrap();
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
