//! Files that take their place together, when all of them are there and checked.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use super::{Batch, TEST, TRAIN, error::FetchError};

/// The files so far, each beside its final place under a name of its own. Dropping it unfinished deletes them.
pub(super) struct StagedFiles<'a> {
    folder: &'a Path,
    written: Vec<Batch>,
}

impl<'a> StagedFiles<'a> {
    /// Into this folder, which is there.
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder, written: Vec::new() }
    }

    /// Checks a file's contents and writes them.
    pub(super) fn put(&mut self, batch: Batch, bytes: &[u8]) -> Result<(), FetchError> {
        batch.check(bytes)?;
        let path = self.part(batch);
        self.written.push(batch);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(|source| FetchError::Unwritable { path, source })
    }

    /// Moves all six to their places. `origin` is what they were found in.
    pub(super) fn finish(mut self, origin: &Path) -> Result<(), FetchError> {
        let missing: Vec<_> = TRAIN.iter().chain([&TEST]).filter(|batch| !self.written.contains(batch)).collect();
        if !missing.is_empty() {
            let names = missing.into_iter().map(|batch| batch.name).collect();
            return Err(FetchError::Missing { path: origin.to_owned(), names });
        }
        while let Some(batch) = self.written.pop() {
            let path = self.folder.join(batch.name);
            fs::rename(self.part(batch), &path).map_err(|source| FetchError::Unwritable { path, source })?;
        }
        Ok(())
    }

    fn part(&self, batch: Batch) -> PathBuf {
        self.folder.join(batch.name).with_added_extension("part")
    }
}

impl Drop for StagedFiles<'_> {
    fn drop(&mut self) {
        for batch in &self.written {
            // It was not finished, and whoever stopped it has a better reason to tell.
            let _ = fs::remove_file(self.part(*batch));
        }
    }
}
