//! A folder with a subfolder of pictures for each class.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{FileFailure, FolderError, Picture, load_squares};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::datasets::{Labelled, LabelledError};

/// One picture in this many of each class is held out for testing.
pub const HELD_OUT: usize = 5;
/// The largest side of a stored picture, in pixels: the input side of the largest model.
const MAX_SIDE: usize = 224;
/// The smallest side: the input side of the smaller models.
const MIN_SIDE: usize = 32;
/// Memory limit for all pictures together, in bytes.
const MEMORY: usize = 1 << 30;

#[derive(Debug)]
pub struct ClassFolder {
    /// Four pictures in five.
    pub train: Labelled,
    /// The held-out pictures.
    pub test: Labelled,
    /// Files with a picture's extension that could not be read, with the reason.
    pub left_out: Vec<(PathBuf, FileFailure)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClassFolderError {
    #[error("the folder {} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} has {found} subfolders; a data set has at least 2, one for each class, such as {}/cat and \
         {}/dog", .path.display(), .path.display(), .path.display()
    )]
    FewClasses { path: PathBuf, found: usize },
    #[error("{} has {found} subfolders; at most 256 classes are supported", .path.display())]
    ManyClasses { path: PathBuf, found: usize },
    #[error("class \"{class}\": {source}")]
    EmptyClass { class: String, source: FolderError },
    #[error(
        "class \"{class}\" has 1 picture; at least 2 are needed, one to learn from and one to test with: add pictures \
         to {}", .path.display()
    )]
    SinglePicture { class: String, path: PathBuf },
    #[error("{} has {found} pictures; at most {limit} fit into memory: leave some out", .path.display())]
    ManyPictures { path: PathBuf, found: usize, limit: usize },
    #[error(transparent)]
    Labelled(#[from] LabelledError),
}

impl ClassFolder {
    /// Reads each subfolder of `path` as a class with the subfolder's name. Labels follow the order of the names.
    /// Hidden subfolders, and files next to the subfolders, are ignored.
    ///
    /// Crops each picture to its centre square and resizes all of them to one side: their median, at least 32 and at
    /// most 224 pixels, or less if there are very many pictures. `seed` draws the fifth of each class that is held out.
    ///
    /// # Errors
    /// [`ClassFolderError`]: the folder cannot be listed, has fewer than two classes, or a class has fewer than two
    /// readable pictures. Files that cannot be read are skipped and listed.
    pub fn read(path: &Path, seed: u64) -> Result<Self, ClassFolderError> {
        let classes = class_folders(path)?;
        let files: usize = classes.iter().map(|(_, folder)| entries(folder)).sum();
        let limit = MEMORY / (3 * MIN_SIDE * MIN_SIDE);
        if files > limit {
            return Err(ClassFolderError::ManyPictures { path: path.to_owned(), found: files, limit });
        }
        let most = (MEMORY / (3 * files.max(1))).isqrt().min(MAX_SIDE);
        let mut left_out = Vec::new();
        let mut pictures = Vec::new();
        for (class, folder) in &classes {
            let read = load_squares(folder, most)
                .map_err(|source| ClassFolderError::EmptyClass { class: class.clone(), source })?;
            if read.pictures.len() < 2 {
                return Err(ClassFolderError::SinglePicture { class: class.clone(), path: folder.clone() });
            }
            left_out.extend(read.failures);
            pictures.push(read.pictures.into_iter().map(|(_, picture)| picture).collect::<Vec<_>>());
        }
        let side = median_side(&pictures).clamp(MIN_SIDE, most);
        let names: Vec<String> = classes.into_iter().map(|(class, _)| class).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut train, mut test) = (Half::default(), Half::default());
        for (label, pictures) in pictures.into_iter().enumerate() {
            let held_out = draw(pictures.len(), &mut rng);
            for (index, picture) in pictures.into_iter().enumerate() {
                let half = if held_out.contains(&index) { &mut test } else { &mut train };
                half.pixels.extend_from_slice(picture.thumbnail(side).rgb());
                half.labels.push(label as u8);
            }
        }
        let labelled = |half: Half| Labelled::new(side, names.clone(), half.pixels, half.labels);
        Ok(Self { train: labelled(train)?, test: labelled(test)?, left_out })
    }
}

#[derive(Default)]
struct Half {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// Name and path of each class, sorted by name.
fn class_folders(path: &Path) -> Result<Vec<(String, PathBuf)>, ClassFolderError> {
    let unreadable = |source| ClassFolderError::Unreadable { path: path.to_owned(), source };
    let mut classes = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && !name.starts_with('.') {
            classes.push((name, entry.path()));
        }
    }
    classes.sort();
    let (path, found) = (path.to_owned(), classes.len());
    match found {
        0 | 1 => Err(ClassFolderError::FewClasses { path, found }),
        2..=256 => Ok(classes),
        _ => Err(ClassFolderError::ManyClasses { path, found }),
    }
}

/// Number of entries in a folder. A folder that cannot be listed counts as empty here; reading it later gives the
/// error.
fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn median_side(pictures: &[Vec<Picture>]) -> usize {
    let mut sides: Vec<usize> = pictures.iter().flatten().map(Picture::width).collect();
    sides.sort_unstable();
    sides.get(sides.len() / 2).copied().unwrap_or(MIN_SIDE)
}

/// Draws the indices of the held-out pictures: a fifth, rounded, but at least one.
fn draw(pictures: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pictures).collect();
    order.shuffle(rng);
    order.truncate(((pictures + HELD_OUT / 2) / HELD_OUT).max(1));
    order
}

#[cfg(test)]
mod tests;
