//! Files that nobody else may read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use anyhow::Context;

/// Writes such a file, all of it or nothing.
///
/// # Errors
/// The file system's.
pub(crate) fn write(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}.{}", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    let written = make(&unfinished)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, folder.join(name)));
    if written.is_err() {
        // No part of a secret stays behind.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Makes such a file, empty.
///
/// # Errors
/// The file system's; also if there is one already.
pub(crate) fn make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The bytes in such a file; where there is none, or one of another length, those that `make` gives, written.
///
/// # Errors
/// If the file is there and cannot be read, or cannot be written, or nothing can be made.
pub(crate) fn keep<const N: usize>(
    folder: &Path,
    name: &str,
    make: impl FnOnce() -> anyhow::Result<[u8; N]>,
) -> anyhow::Result<[u8; N]> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => {
            if let Ok(bytes) = bytes.try_into() {
                return Ok(bytes);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // Made anew, it would end every link that hangs on it.
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
