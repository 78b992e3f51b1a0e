//! Files that only this user may read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use anyhow::Context;

use crate::random::NoRandomNumbers;

/// Writes a private file atomically.
///
/// # Errors
/// Fails if the file system does.
pub(crate) fn write(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}.{}", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    let written = make(&unfinished)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, folder.join(name)));
    if written.is_err() {
        // Leave no part of a secret behind.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Creates an empty private file.
///
/// # Errors
/// Fails if the file system does, or if the file exists.
pub(crate) fn make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the bytes in a private file. If it is missing or has another length, writes and returns those from `make`.
///
/// # Errors
/// Fails if the file exists but cannot be read, if it cannot be written, or if `make` fails.
pub(crate) fn keep<const N: usize>(
    folder: &Path,
    name: &str,
    make: impl FnOnce() -> Result<[u8; N], NoRandomNumbers>,
) -> anyhow::Result<[u8; N]> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => {
            if let Ok(bytes) = bytes.try_into() {
                return Ok(bytes);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A new file would invalidate every link derived from the old one.
        Err(error) => {
            let file = folder.join(name);
            return Err(error).with_context(|| format!("cannot read {}; see its permissions", file.display()));
        }
    }
    let bytes = make()?;
    write(folder, name, &bytes).with_context(|| {
        format!("cannot keep {name} in {}; choose another folder with --data-dir", folder.display())
    })?;
    Ok(bytes)
}
