//! A folder of pictures.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{NotAPicture, Picture, decode};

#[derive(Debug)]
pub struct Folder {
    /// File name without extension, and the picture; sorted by file name.
    pub pictures: Vec<(String, Picture)>,
    /// Files with a picture's extension that could not be read, with the reason.
    pub failures: Vec<(PathBuf, FileFailure)>,
}

#[derive(Debug, thiserror::Error)]
pub enum FileFailure {
    #[error("cannot be opened: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    NotAPicture(#[from] NotAPicture),
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("the folder {} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("no pictures in {}{}: put PNG, JPEG or WebP files there", .path.display(), unreadable(.failures))]
    Empty { path: PathBuf, failures: Vec<(PathBuf, FileFailure)> },
}

fn unreadable(failures: &[(PathBuf, FileFailure)]) -> String {
    match failures {
        [] => String::new(),
        [(path, failure)] => format!(" ({}: {failure})", path.display()),
        [(path, failure), rest @ ..] => format!(" ({}: {failure}; {} more like it)", path.display(), rest.len()),
    }
}

/// Reads all PNG, JPEG and WebP files in `path`, by extension. Does not read subfolders.
///
/// # Errors
/// [`FolderError`]: the folder cannot be listed, or no file in it is a picture.
pub fn load_folder(path: &Path) -> Result<Folder, FolderError> {
    load(path, |picture| picture)
}

/// As [`load_folder`], but crops each picture to its centre square, and shrinks it to `side` x `side` pixels if it is
/// larger, before it reads the next one: photographs of a phone would fill the memory.
///
/// # Errors
/// As [`load_folder`].
///
/// # Panics
/// If `side` is zero.
pub fn load_squares(path: &Path, side: usize) -> Result<Folder, FolderError> {
    load(path, |picture| match picture.width().min(picture.height()) {
        shorter if shorter > side => picture.thumbnail(side),
        _ => picture.crop_square(),
    })
}

/// Reads all pictures, and keeps what `kept` makes of each.
fn load(path: &Path, kept: impl Fn(Picture) -> Picture) -> Result<Folder, FolderError> {
    let unreadable = |source| FolderError::Unreadable { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let extension = file.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        if matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg" | "webp")) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    let mut folder = Folder { pictures: Vec::new(), failures: Vec::new() };
    for file in files {
        match read(&file) {
            Ok(picture) => {
                let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                folder.pictures.push((name.unwrap_or_default(), kept(picture)));
            }
            Err(failure) => folder.failures.push((file, failure)),
        }
    }
    if folder.pictures.is_empty() {
        return Err(FolderError::Empty { path: path.to_owned(), failures: folder.failures });
    }
    Ok(folder)
}

fn read(file: &Path) -> Result<Picture, FileFailure> {
    Ok(decode(&std::fs::read(file)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_png;

    #[test]
    fn broken_files_do_not_spoil_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        let picture = Picture::new(1, 1, vec![1, 2, 3]).unwrap();
        write("notes.txt", b"hello");
        write("a.png", b"no picture");
        let error = load_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no pictures in") && error.contains("a.png"), "{error}");
        write("c.JPG", &encode_png(&picture).unwrap());
        write("b.png", &encode_png(&picture).unwrap());
        let read = load_folder(folder.path()).unwrap();
        let names: Vec<_> = read.pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(read.failures.len(), 1);
    }

    #[test]
    fn squares_are_at_most_as_large_as_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        for (name, width, height) in [("large.png", 40, 20), ("small.png", 6, 4)] {
            let picture = Picture::new(width, height, vec![90; 3 * width * height]).unwrap();
            std::fs::write(folder.path().join(name), encode_png(&picture).unwrap()).unwrap();
        }
        let squares = load_squares(folder.path(), 16).unwrap().pictures;
        let sides: Vec<_> = squares.iter().map(|(name, it)| (name.as_str(), it.width(), it.height())).collect();
        assert_eq!(sides, [("large", 16, 16), ("small", 4, 4)]);
    }

    #[test]
    fn missing_folder_is_named() {
        let error = load_folder(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().starts_with("the folder /nowhere/at/all cannot be read"), "{error}");
    }
}
