//! Download of one file over HTTP(S), with resume.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ureq::{
    Agent, Body,
    http::Response,
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::error::{FetchError, Progress};

/// The longest wait for a connection, and for the start of the response.
const PATIENCE: Duration = Duration::from_secs(30);
const CHUNK: usize = 1 << 16;

/// Downloads `url` to the file `part`. If `part` exists, requests only the rest; a server that does not support ranges
/// sends the whole file again. An interrupted download keeps the bytes received.
pub(super) fn download(url: &str, part: &Path, on_progress: &mut dyn FnMut(Progress)) -> Result<(), FetchError> {
    let have = fs::metadata(part).map_or(0, |file| file.len());
    let response = get(url, have)?;
    match response.status().as_u16() {
        206 if starts_at(&response) == Some(have) => receive(response, part, have, on_progress),
        // `part` is already the whole file.
        416 if have > 0 && length_in_all(&response) == Some(have) => Ok(()),
        // `part` is the beginning of another file than the server has now.
        206 | 416 if have > 0 => match get(url, 0)? {
            response if response.status() == 200 => receive(response, part, 0, on_progress),
            response => Err(status(url, &response)),
        },
        200 => receive(response, part, 0, on_progress),
        _ => Err(status(url, &response)),
    }
}

/// The certificates of the system, where they are in one file: Debian's, Fedora's, Alpine's and macOS'.
const SYSTEMS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The authorities to trust: those of `SSL_CERT_FILE`, or else of the system, so that a school's proxy can be among
/// them; Mozilla's if there are none.
fn authorities() -> Result<RootCerts, FetchError> {
    let read = |path: &Path| -> Result<Vec<Certificate<'static>>, String> {
        let pem = fs::read(path).map_err(|error| error.to_string())?;
        let certificate = |item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        };
        let found: Vec<_> = parse_pem(&pem).filter_map(certificate).collect();
        if found.is_empty() { Err("it has no PEM certificate".to_owned()) } else { Ok(found) }
    };
    if let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let found = read(&path).map_err(|reason| FetchError::Authorities { path, reason })?;
        return Ok(RootCerts::Specific(Arc::new(found)));
    }
    let system = SYSTEMS.iter().find_map(|path| read(Path::new(path)).ok());
    Ok(system.map_or(RootCerts::WebPki, |found| RootCerts::Specific(Arc::new(found))))
}

fn get(url: &str, from: u64) -> Result<Response<Body>, FetchError> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .tls_config(TlsConfig::builder().root_certs(authorities()?).build())
        .timeout_connect(Some(PATIENCE))
        .timeout_recv_response(Some(PATIENCE))
        .build()
        .into();
    let mut request = agent.get(url);
    if from > 0 {
        request = request.header("Range", format!("bytes={from}-"));
    }
    request.call().map_err(|source| FetchError::Unreachable { url: url.to_owned(), source: Box::new(source) })
}

fn status(url: &str, response: &Response<Body>) -> FetchError {
    FetchError::Status { url: url.to_owned(), status: response.status().as_u16() }
}

/// The first byte of a partial response: `Content-Range: bytes FIRST-LAST/ALL`.
fn starts_at(response: &Response<Body>) -> Option<u64> {
    content_range(response)?.0.split_once('-')?.0.parse().ok()
}

/// The length of the whole file: `Content-Range: bytes */ALL`.
fn length_in_all(response: &Response<Body>) -> Option<u64> {
    content_range(response)?.1.parse().ok()
}

fn content_range(response: &Response<Body>) -> Option<(&str, &str)> {
    let range = response.headers().get("content-range")?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split_once('/')
}

/// Writes the response body to `part` after its first `have` bytes.
fn receive(
    response: Response<Body>,
    part: &Path,
    have: u64,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), FetchError> {
    let unwritable = |source| FetchError::Unwritable { path: part.to_owned(), source };
    let total = response.body().content_length().map(|rest| have + rest);
    let mut file = open(part, have).map_err(unwritable)?;
    let mut body = response.into_body().into_reader();
    let mut chunk = vec![0; CHUNK];
    let mut done = have;
    loop {
        on_progress(Progress::Downloading { done, total });
        let read = match body.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(FetchError::Cut { done, total, source }),
        };
        file.write_all(&chunk[..read]).map_err(unwritable)?;
        done += read as u64;
    }
    match total {
        Some(total) if done < total => {
            let source = io::ErrorKind::UnexpectedEof.into();
            Err(FetchError::Cut { done, total: Some(total), source })
        }
        _ => file.flush().map_err(unwritable),
    }
}

fn open(part: &Path, have: u64) -> io::Result<File> {
    if have > 0 { OpenOptions::new().append(true).open(part) } else { File::create(part) }
}

#[cfg(test)]
mod tests;
