//! Why an experiment cannot be run.

use std::{io, path::PathBuf};

use crate::laboratory::matrix::MatrixError;
use unmask_data::datasets::DataSetError;
use unmask_data::metrics::CannotCompare;
use unmask_matching::CannotMatch;
use unmask_model::ModelError;
use unmask_simulation::{ConfigError, SimulationError};

use crate::figure::FigureError;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// Another process writes there.
    #[error("another unmask reproduce is writing to {}; wait for it, or give another --out", .folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// A file in the folder that this program did not leave like that.
    #[error("{}: {problem}; delete that file to compute it again", .path.display())]
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
    /// Pretrained weights that are not there.
    #[error(
        "{experiment} at paper scale starts from {model} pretrained on ImageNet; give its safetensors file, such as timm's, \
         with --weights FILE"
    )]
    NeedsWeights {
        /// The experiment.
        experiment: &'static str,
        /// The model.
        model: String,
    },
    /// Weights for an experiment that begins without.
    #[error("{experiment} begins with weights of its own; leave --weights away")]
    IdleWeights {
        /// The experiment.
        experiment: &'static str,
    },
    /// No threads.
    #[error("0 threads compute nothing; give --threads 1 or more, or leave it away for all processors")]
    NoThreads,
    /// No seeds.
    #[error("0 seeds give no numbers; give --seeds 1 or more")]
    NoSeeds,
    /// The data set is too small.
    #[error("{wanted} test pictures are attacked, but {name} has {found}; take another data set")]
    TooFewPictures {
        /// The data set.
        name: String,
        /// Pictures needed.
        wanted: usize,
        /// Pictures there.
        found: usize,
    },
    /// An experiment's own settings do not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No pictures.
    #[error(transparent)]
    Data(#[from] DataSetError),
    /// A training failed.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Closed forms could not be tried.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// A search failed.
    #[error(transparent)]
    Match(#[from] CannotMatch),
    /// A defence could not be applied, or a search could not be begun: the words of who refused.
    #[error("{what}: {reason}")]
    Attack {
        /// What was tried.
        what: String,
        /// Why it failed.
        reason: String,
    },
    /// What came out cannot be compared with what went in.
    #[error(transparent)]
    Compare(#[from] CannotCompare),
    /// A figure failed.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// A table could not be written.
    #[error("a table could not be encoded: {0}")]
    Table(io::Error),
}

impl PapersError {
    /// Whether what was asked for cannot work, and not the machine.
    pub fn is_input(&self) -> bool {
        match self {
            Self::NeedsWeights { .. }
            | Self::IdleWeights { .. }
            | Self::NoThreads
            | Self::NoSeeds
            | Self::TooFewPictures { .. }
            | Self::Data(_) => true,
            Self::Simulation(error) => error.is_input(),
            _ => false,
        }
    }
}
