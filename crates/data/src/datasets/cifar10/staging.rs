//! Files that replace the old ones only when all six are complete and checked.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use super::{Batch, TEST, TRAIN, error::FetchError};

/// Files under temporary names beside their final ones. Dropping this before [`finish`](Self::finish) deletes them.
pub(super) struct StagedFiles<'a> {
    folder: &'a Path,
    written: Vec<Batch>,
}

impl<'a> StagedFiles<'a> {
    /// Stages files in `folder`, which must exist.
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder, written: Vec::new() }
    }

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

    /// Moves all six files to their final names. `origin` is where they were found, for the error.
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
            // The error that stopped the fetch matters more than this one.
            let _ = fs::remove_file(self.part(*batch));
        }
    }
}
