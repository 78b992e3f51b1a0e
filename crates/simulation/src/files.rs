//! Atomic file writes, and tables for spreadsheets.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

/// Writes and syncs a file under a temporary name, then renames it. If anything fails, an existing file at `path` stays
/// as it was. Creates the folder if needed.
///
/// # Errors
/// The file system's.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    fs::create_dir_all(folder)?;
    let mut file = beside(folder, &name.to_string_lossy())?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync(folder)
}

pub(crate) fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().append(true).open(path)?.write_all(bytes)
}

/// Comma-separated values: a line with the names of the columns, if any are given, and a line for each row.
///
/// # Errors
/// A row is not a sequence of plain values.
pub fn csv<R: Serialize>(columns: &[&str], rows: impl IntoIterator<Item = R>) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    if !columns.is_empty() {
        writer.write_record(columns)?;
    }
    rows.into_iter().try_for_each(|row| writer.serialize(row))?;
    writer.into_inner().map_err(|error| error.into_error())
}

pub fn rounded(value: f64, places: i32) -> f64 {
    let unit = 10_f64.powi(places);
    (value * unit).round() / unit
}

/// A temporary file is normally readable only by its owner, and the result would keep that permission.
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

/// A rename is durable only after its folder is synced.
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
            write_whole(&inner.join("file.txt"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(inner.join("file.txt")).unwrap(), text);
        }
        append(&inner.join("file.txt"), b" and more").unwrap();
        assert_eq!(fs::read_to_string(inner.join("file.txt")).unwrap(), "second and more");
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
        assert!(append(&inner.join("none.txt"), b"x").is_err());
    }

    #[test]
    fn what_cannot_be_written_leaves_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("taken/inside")).unwrap();
        assert!(write_whole(&folder.path().join("taken"), b"x").is_err());
        assert!(folder.path().join("taken/inside").is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let rows = [("gaussian:eps=4,delta=0.5", Some(0.4)), ("a \"b\"\nc", None)];
        let lines = "defence,accuracy\n\"gaussian:eps=4,delta=0.5\",0.4\n\"a \"\"b\"\"\nc\",\n";
        assert_eq!(String::from_utf8(csv(&["defence", "accuracy"], rows).unwrap()).unwrap(), lines);
        assert_eq!(csv::<[u8; 2]>(&["a", "b"], []).unwrap(), b"a,b\n");
        assert_eq!(
            csv(&[], [(1e-300, 0.1_f32)]).unwrap(),
            b"1e-300,0.1\n",
            "no more digits than tell a number from others"
        );
    }
}
