//! Files that are there whole or not at all.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use tempfile::{Builder, NamedTempFile};

/// Writes a file beside its final name and to the disk, and only then gives it the name. Whatever goes wrong, a file that
/// had the name stays as it was.
pub(crate) fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = beside(folder, name)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    sync(folder)
}

/// Adds to a file that is there.
pub(crate) fn append(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

/// A temporary file for this user alone would become a result that nobody else can read.
#[cfg(unix)]
fn beside(folder: &Path, name: &str) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;

    let permissions = fs::Permissions::from_mode(0o666);
    Builder::new().prefix(&format!(".{name}-")).permissions(permissions).tempfile_in(folder)
}

#[cfg(not(unix))]
fn beside(folder: &Path, name: &str) -> io::Result<NamedTempFile> {
    Builder::new().prefix(&format!(".{name}-")).tempfile_in(folder)
}

/// A new name is on the disk only when its folder is.
#[cfg(unix)]
fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("deep/down");
        for text in ["first", "second"] {
            write_whole(&inner, "file.txt", text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(inner.join("file.txt")).unwrap(), text);
        }
        append(&inner.join("file.txt"), " and more").unwrap();
        assert_eq!(fs::read_to_string(inner.join("file.txt")).unwrap(), "second and more");
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
        assert!(append(&inner.join("none.txt"), "x").is_err());
    }

    #[test]
    fn what_cannot_be_written_leaves_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("taken/inside")).unwrap();
        assert!(write_whole(folder.path(), "taken", b"x").is_err());
        assert!(folder.path().join("taken/inside").is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
