//! Errors of experiments.

use std::{io, path::PathBuf};

use unmask_attack::AttackError;
use unmask_client::TrainingError;
use unmask_core::NoEmbeddings;
use unmask_data::{datasets::DataSetError, metrics::CannotCompare};
use unmask_defence::{KeyError, ProtectError, UpdateError};
use unmask_inversion::ScoreError;
use unmask_model::ModelError;
use unmask_simulation::{ConfigError, SimulationError};

use crate::{claim::ClaimListError, figure::FigureError};

#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The caller ended the run from its event handler.
    #[error("the experiment was stopped")]
    Stopped,
    #[error("another unmask is writing to {}; wait for it, or give another --out", .folder.display())]
    Busy { folder: PathBuf },
    /// A file in the folder is not as this program wrote it.
    #[error("{}: {problem}; delete that file to compute it again", .path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("{} cannot be read or written: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{what} could not be encoded: {reason}")]
    Encode { what: String, reason: String },
    #[error(
        "{experiment} at paper scale starts from {model} pretrained on ImageNet; give its safetensors file, such as timm's, \
         with --weights FILE"
    )]
    NeedsWeights { experiment: &'static str, model: String },
    #[error("no study is called {experiment}")]
    NoStudy { experiment: &'static str },
    #[error("{experiment} has its own initial weights; leave --weights away")]
    UnusedWeights { experiment: &'static str },
    #[error("0 threads compute nothing; give --threads 1 or more, or leave it out for all processors")]
    NoThreads,
    #[error("{threads} threads could not be started: {reason}")]
    Threads { threads: usize, reason: String },
    #[error("0 seeds give no numbers; give --seeds 1 or more")]
    NoSeeds,
    #[error("{wanted} test pictures are attacked, but {name} has {found}; take another data set")]
    TooFewPictures { name: String, wanted: usize, found: usize },
    #[error("a matrix needs at least one attack and one defence")]
    EmptyMatrix,
    #[error("{what} is 0; give 1 or more")]
    ZeroCount { what: &'static str },
    #[error("the server's learning rate is {rate}; give a finite number of 0 or more")]
    LearningRate { rate: f32 },
    #[error("{what} {name} is there twice; it must be unique, so leave one out or rename it")]
    Duplicate { what: &'static str, name: String },
    #[error(
        "the clients of a sum normalise their own pictures, and {model} has batch norm, for which attacks assume the moments \
         of all; leave --sum out"
    )]
    SumOfResnets { model: String },
    #[error(
        "{pictures} pictures do not make {}batches of {batch}; add or remove some, or give another --batch{}",
        if *.sum > 1 { format!("sums of {sum} ") } else { String::new() },
        if *.sum > 1 { " or --sum" } else { "" }
    )]
    UnevenBatches { pictures: usize, batch: usize, sum: usize },
    #[error("{} holds rows of another run: {difference}; give another --out, or delete that folder", .folder.display())]
    OtherRun { folder: PathBuf, difference: String },
    #[error("there is no part in {}; give the folders that --part created", .folder.display())]
    NoPart { folder: PathBuf },
    #[error(
        "{} and {} are parts of different runs: {difference}; merge parts of one build, one command and one division",
        .one.display(), .other.display()
    )]
    OtherParts { one: PathBuf, other: PathBuf, difference: String },
    #[error(
        "{} and {} are the same case with different results; another kind of processor rounds otherwise: leave one of the \
         folders out, and compute what is missing then",
        .one.display(), .other.display()
    )]
    OtherRow { one: PathBuf, other: PathBuf },
    /// A case in the folder has other settings than its part says.
    #[error("{} holds another case than its part says; delete it, and compute that part again", .path.display())]
    OtherCase { path: PathBuf },
    #[error("{key} cannot be varied: {reason}")]
    Axis { key: String, reason: &'static str },
    #[error("{cases} trainings are more than a sweep has, which is {most}; vary fewer values")]
    TooManyCases { cases: String, most: usize },
    #[error("{case}: {source}")]
    Case { case: String, source: ConfigError },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Data(#[from] DataSetError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The attacked client's model failed, for example because its local training diverged.
    #[error("the client could not train: {0}")]
    Client(TrainingError),
    /// The defence protects something that the model does not have.
    #[error(transparent)]
    Defence(#[from] NoEmbeddings),
    #[error(transparent)]
    Protect(#[from] ProtectError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// An impossible search, or an update with something that no attack accepts.
    #[error(transparent)]
    Evidence(#[from] AttackError),
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// A defence could not be applied, or an attack failed; with the error message.
    #[error("{what}: {reason}")]
    Attack { what: String, reason: String },
    #[error(transparent)]
    Compare(#[from] CannotCompare),
    #[error(transparent)]
    Figure(#[from] FigureError),
    #[error(transparent)]
    Claims(#[from] ClaimListError),
}

impl ExperimentError {
    /// Whether the input is at fault, and not the machine.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Simulation(error) => error.is_input(),
            Self::Io { .. }
            | Self::Threads { .. }
            | Self::Encode { .. }
            | Self::Config(_)
            | Self::Model(_)
            | Self::Attack { .. }
            | Self::Compare(_)
            | Self::Figure(_)
            | Self::Claims(_) => false,
            _ => true,
        }
    }
}
