//! Why a matrix cannot be computed.

use std::{io, path::PathBuf};

use unmask_attack::CannotAttack;
use unmask_defence::{KeyError, ProtectError, UpdateError};
use unmask_model::ModelError;

use crate::laboratory::ScoreError;

/// Why a matrix cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// Nothing to compare.
    #[error("a matrix needs at least one attack and one defence")]
    Nothing,
    /// Nothing to do.
    #[error("{what} is 0; give 1 or more")]
    Zero {
        /// The argument.
        what: &'static str,
    },
    /// Not a step size.
    #[error("the first step size of a search is {step}; give a number above 0 and up to 2, such as 0.1")]
    Step {
        /// What was given.
        step: f64,
    },
    /// Not a rate.
    #[error("the server's learning rate is {rate}; give a finite number of 0 or more")]
    Rate {
        /// What was given.
        rate: f32,
    },
    /// Rows that could not be told apart.
    #[error("{what} {name} is there twice; rows are told apart by it, so leave one out or rename it")]
    Twice {
        /// Attack, defence or picture.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Pictures left over.
    #[error("{pictures} pictures do not make batches of {batch}; add or remove some, or give another --batch")]
    Batch {
        /// Pictures given.
        pictures: usize,
        /// Pictures in one update.
        batch: usize,
    },
    /// The folder holds other rows.
    #[error("{} holds rows of another run: {difference}; give another --out, or delete that folder", .folder.display())]
    OtherRun {
        /// The folder.
        folder: PathBuf,
        /// What differs, with both values.
        difference: String,
    },
    /// Two at once.
    #[error("another unmask matrix is writing to {}; wait for it, or give another --out", .folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// A file in the folder that this program did not leave like that.
    #[error("{}: {problem}; delete that file to begin anew", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file system refused.
    #[error("{} cannot be read or written: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A picture or table that could not be encoded.
    #[error("{what} could not be encoded: {reason}")]
    Encode {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// The client's model failed, as when local training diverged.
    #[error("the client could not train: {0}")]
    Model(#[from] ModelError),
    /// The defence refused.
    #[error(transparent)]
    Protect(#[from] ProtectError),
    /// No key could be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The client's update is none.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The client's update holds something that no attack takes.
    #[error(transparent)]
    Evidence(#[from] CannotAttack),
    /// What came out cannot be compared with what went in.
    #[error(transparent)]
    Score(#[from] ScoreError),
}

impl MatrixError {
    /// Whether what was asked for cannot work, and not the machine.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Encode { .. })
    }
}
