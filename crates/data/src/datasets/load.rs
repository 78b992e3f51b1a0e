//! Loading a data set by name.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::datasets::{
    DataSet, LabelledError, Source,
    cifar10::{Cifar10, Cifar10Error},
    folder::{ClassFolder, ClassFolderError},
    generated::{self, Half},
};

#[derive(Debug, thiserror::Error)]
pub enum DataSetError {
    #[error(transparent)]
    Cifar10(#[from] Cifar10Error),
    #[error(transparent)]
    Folder(#[from] ClassFolderError),
    #[error(transparent)]
    Labelled(#[from] LabelledError),
}

impl DataSet {
    /// Reads or generates the data set. Looks for CIFAR-10 in `cifar10_folder`, normally [`default_cifar10_folder`].
    /// `seed` draws the generated pictures, or the held-out pictures of a folder; CIFAR-10 ignores it.
    ///
    /// # Errors
    /// [`DataSetError`]: files are missing or damaged.
    pub fn load(source: &Source, cifar10_folder: &Path, seed: u64) -> Result<Self, DataSetError> {
        let name = match source {
            Source::Folder(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            _ => None,
        };
        let name = name.unwrap_or_else(|| source.to_string());
        let (train, test, left_out) = match source {
            Source::Cifar10 => {
                let Cifar10 { train, test } = Cifar10::read(cifar10_folder)?;
                (train, test, Vec::new())
            }
            Source::Generated => {
                let half = |half, count| generated::generate(half, count, seed);
                (half(Half::Train, generated::TRAIN)?, half(Half::Test, generated::TEST)?, Vec::new())
            }
            Source::Folder(path) => {
                let ClassFolder { train, test, left_out } = ClassFolder::read(path, seed)?;
                let sentence = |(path, failure): &(PathBuf, _)| format!("{} is left out: {failure}", path.display());
                (train, test, left_out.iter().map(sentence).collect())
            }
        };
        Ok(Self { name, train, test, left_out })
    }
}

/// The folder for CIFAR-10: the one in the variable `UNMASK_CIFAR10`, otherwise `cifar10` in the user's cache folder
/// (`~/.cache/unmask/cifar10` on Linux), or in the current folder for a user without a home.
pub fn default_cifar10_folder() -> PathBuf {
    if let Some(folder) = env::var_os("UNMASK_CIFAR10").filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    let cache = directories::ProjectDirs::from("", "", "unmask").map(|dirs| dirs.cache_dir().to_owned());
    cache.unwrap_or_default().join("cifar10")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_name_and_two_halves() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["pets/cat/1.png", "pets/cat/2.png", "pets/dog/1.png", "pets/dog/2.png", "pets/dog/3.png"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let picture = crate::Picture::new(1, 1, vec![9; 3]).unwrap();
            std::fs::write(path, crate::encode_png(&picture).unwrap()).unwrap();
        }
        std::fs::write(folder.path().join("pets/dog/4.png"), b"broken").unwrap();
        let set = DataSet::load(&Source::Folder(folder.path().join("pets")), folder.path(), 1).unwrap();
        assert_eq!((set.name.as_str(), set.train.len(), set.test.len()), ("pets", 3, 2));
        assert!(set.left_out.len() == 1 && set.left_out[0].contains("4.png is left out: this is not"));
        let error = DataSet::load(&Source::Cifar10, folder.path(), 1).unwrap_err().to_string();
        assert!(error.contains("data_batch_1.bin cannot be read") && error.contains("unmask data cifar10"), "{error}");
    }
}
