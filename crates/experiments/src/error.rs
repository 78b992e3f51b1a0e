//! Why an experiment cannot be run.

use std::{io, path::PathBuf};

use unmask_attack::CannotAttack;
use unmask_client::TrainingError;
use unmask_data::{datasets::DataSetError, metrics::CannotCompare};
use unmask_defence::{KeyError, ProtectError, UpdateError};
use unmask_model::ModelError;
use unmask_simulation::{ConfigError, SimulationError};

use crate::{figure::FigureError, score::ScoreError};

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Another process writes there.
    #[error("another unmask is writing to {}; wait for it, or give another --out", .folder.display())]
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
    /// Something that could not be encoded.
    #[error("{what} could not be encoded: {reason}")]
    Encode {
        /// What.
        what: String,
        /// Why.
        reason: String,
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
    UnusedWeights {
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
    /// Nothing to compare.
    #[error("a matrix needs at least one attack and one defence")]
    EmptyMatrix,
    /// Nothing to do.
    #[error("{what} is 0; give 1 or more")]
    ZeroCount {
        /// The argument.
        what: &'static str,
    },
    /// Not a step size.
    #[error("the first step size of a search is {step}; give a number above 0 and up to 2, such as 0.1")]
    StepSize {
        /// What was given.
        step: f64,
    },
    /// Not a rate.
    #[error("the server's learning rate is {rate}; give a finite number of 0 or more")]
    LearningRate {
        /// What was given.
        rate: f32,
    },
    /// Rows that could not be told apart.
    #[error("{what} {name} is there twice; rows are told apart by it, so leave one out or rename it")]
    Duplicate {
        /// Attack, defence or picture.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Pictures left over.
    #[error("{pictures} pictures do not make batches of {batch}; add or remove some, or give another --batch")]
    UnevenBatches {
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
    /// The attacked client's model failed, as when its local training diverged.
    #[error("the client could not train: {0}")]
    Client(TrainingError),
    /// The attacked client's defence refused.
    #[error(transparent)]
    Protect(#[from] ProtectError),
    /// No key could be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The attacked client's update is none.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The attacked client's update holds something that no attack takes.
    #[error(transparent)]
    Evidence(#[from] CannotAttack),
    /// Reconstructions cannot be compared with the private pictures.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// A defence could not be applied, or an attack did not work: the words of who refused.
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
}

impl ExperimentError {
    /// Whether what was asked for cannot work, and not the machine.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Simulation(error) => error.is_input(),
            Self::Io { .. }
            | Self::Encode { .. }
            | Self::Config(_)
            | Self::Model(_)
            | Self::Attack { .. }
            | Self::Compare(_)
            | Self::Figure(_) => false,
            _ => true,
        }
    }
}
