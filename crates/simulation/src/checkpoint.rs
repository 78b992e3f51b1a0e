//! Checkpoints of a run on disk, each written completely or not at all.

mod format;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Metrics, files::write_whole};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) header: Header,
    /// `[P]`, as the server holds them: cipher text in an encrypted run.
    pub(crate) weights: Vec<f32>,
    /// `[Q]`.
    pub(crate) statistics: Vec<f32>,
    /// Adam's moments, `[P]` each or empty.
    pub(crate) moments: (Vec<f32>, Vec<f32>),
    /// Number of updates of each counted parameter.
    pub(crate) counts: Vec<u16>,
    pub(crate) metrics: Vec<Metrics>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) config: String,
    /// SHA-256 of the training pictures and labels, in hexadecimal.
    pub(crate) pictures: String,
    /// Check value of the clients' key, in hexadecimal; empty without encryption.
    pub(crate) key: String,
    pub(crate) round: u32,
    /// Number of optimiser steps.
    pub(crate) steps: u32,
    /// Number of rounds in the update counts.
    pub(crate) counted: u32,
    pub(crate) seconds: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(
        "the checkpoint of round {round} could not be written to {} ({source}); {}",
        folder.display(),
        match kept {
            Some(kept) => format!("that of round {kept} is whole; make room there and go on with --resume"),
            None => "it would have been the first, so there is nothing to go on from; make room there and start again with \
                     the same command"
                .to_owned(),
        }
    )]
    Write { round: u32, folder: PathBuf, kept: Option<u32>, source: io::Error },
    #[error("{} cannot be read ({source})", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} holds no checkpoint to go on from; leave out --resume to start again", folder.display())]
    None { folder: PathBuf },
    #[error("no checkpoint is complete: {}; start again in another folder", problems.join("; "))]
    Broken {
        /// The problem with each checkpoint, newest first.
        problems: Vec<String>,
    },
    #[error(
        "the checkpoint was made with {key} = {then}, now it is {now}; set {key} back, or start again in another folder"
    )]
    Differs { key: String, then: String, now: String },
    #[error("the checkpoint was made on other training pictures; use those again, or start again in another folder")]
    OtherPictures,
    #[error("the checkpoint was encrypted with another passphrase; give that one")]
    OtherPassphrase,
}

const KEPT: usize = 2;
const EXTENSION: &str = "ckpt";

impl Checkpoint {
    /// Writes and syncs the file under a temporary name, renames it, and then deletes all but the last two checkpoints.
    /// A failure does not touch the older ones.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), CheckpointError> {
        let round = self.header.round;
        let name = format!("round-{round:08}.{EXTENSION}");
        write_whole(&folder.join(name), &self.encode()).map_err(|source| {
            let kept = files(folder).ok().and_then(|files| files.first().map(|(round, _)| *round));
            CheckpointError::Write { round, folder: folder.to_owned(), kept, source }
        })?;
        for (_, path) in files(folder)?.into_iter().skip(KEPT) {
            // An old checkpoint that remains does no harm.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Returns the newest complete checkpoint, and the problems with newer ones.
    pub(crate) fn newest(folder: &Path) -> Result<(Self, Vec<String>), CheckpointError> {
        let mut problems = Vec::new();
        for (_, path) in files(folder)? {
            let bytes = fs::read(&path).map_err(|source| CheckpointError::Read { path: path.clone(), source })?;
            match Self::decode(&bytes) {
                Ok(checkpoint) => return Ok((checkpoint, problems)),
                Err(problem) => problems.push(format!("{}: {problem}", path.display())),
            }
        }
        match problems.is_empty() {
            true => Err(CheckpointError::None { folder: folder.to_owned() }),
            false => Err(CheckpointError::Broken { problems }),
        }
    }
}

pub(crate) fn exists(folder: &Path) -> bool {
    files(folder).is_ok_and(|files| !files.is_empty())
}

/// The checkpoints in a folder, newest first; empty if the folder does not exist.
fn files(folder: &Path) -> Result<Vec<(u32, PathBuf)>, CheckpointError> {
    let unreadable = |source| CheckpointError::Read { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix("round-"));
        let round = stem.and_then(|digits| digits.parse().ok());
        if let (Some(round), Some(EXTENSION)) = (round, path.extension().and_then(|extension| extension.to_str())) {
            files.push((round, path));
        }
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files)
}

#[cfg(test)]
mod tests;
