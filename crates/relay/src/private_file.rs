//! Files that nobody else may read.

use std::{
    fs::{self, OpenOptions},
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
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(unfinished, folder.join(name))
}

/// The bytes in such a file; where there is none, or one of another length, those that `make` gives, written.
///
/// # Errors
/// If the file can be neither read nor written, or nothing can be made.
pub(crate) fn keep<const N: usize>(
    folder: &Path,
    name: &str,
    make: impl FnOnce() -> anyhow::Result<[u8; N]>,
) -> anyhow::Result<[u8; N]> {
    if let Ok(bytes) = fs::read(folder.join(name))
        && let Ok(bytes) = bytes.try_into()
    {
        return Ok(bytes);
    }
    let bytes = make()?;
    write(folder, name, &bytes).with_context(|| {
        format!("cannot keep {name} in {}; choose another folder with --data-dir", folder.display())
    })?;
    Ok(bytes)
}
