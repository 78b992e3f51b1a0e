//! What an experiment is run with, and what is heard of it.

use std::{ops::ControlFlow, path::PathBuf};

use unmask_data::datasets::{DataSet, Source};
use unmask_model::device::OpenDevice;
use unmask_simulation::Commit;

pub(crate) use crate::report::Findings;
use crate::{
    catalogue::{Experiment, Scale},
    error::PapersError,
    store::Store,
};

/// What is asked for.
#[derive(Debug)]
pub struct Request<'a> {
    /// The experiment.
    pub experiment: Experiment,
    /// Its scale.
    pub scale: Scale,
    /// The first seed; further ones are counted up from it.
    pub seed: u64,
    /// How many seeds; what suits the scale if absent.
    pub seeds: Option<u64>,
    /// Where the experiment gets a folder of its own.
    pub out: PathBuf,
    /// Where CIFAR-10 is.
    pub cifar10: PathBuf,
    /// A safetensors file of pretrained weights, in place of those the scale begins with.
    pub weights: Option<PathBuf>,
    /// What computes.
    pub device: &'a OpenDevice,
    /// Threads to compute with; all if absent.
    pub threads: Option<usize>,
    /// What the program was built from.
    pub commit: Option<Commit>,
}

/// What happens while an experiment runs.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// At the start: parts in all, and those that are not finished yet.
    Begins {
        /// All parts.
        parts: usize,
        /// Parts left to do.
        left: usize,
    },
    /// A part is begun.
    Part {
        /// What it is.
        name: &'a str,
    },
    /// The part at hand has come this far.
    Step {
        /// Share of it that is done, in [0, 1].
        share: f64,
        /// How it stands, in a few words.
        note: &'a str,
    },
    /// The part at hand is finished and kept.
    Ends,
}

/// Whoever hears of events, and may end the run.
pub type Hear<'a> = &'a mut dyn FnMut(Event<'_>) -> ControlFlow<()>;

/// What an experiment computes with, and where it keeps what it found.
pub(crate) struct Bench<'a, 'b> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) kept: Store,
    pub(crate) hear: Hear<'b>,
}

impl Bench<'_, '_> {
    /// The pictures. Generated ones are drawn from the request's seed.
    pub(crate) fn load(&self, source: &Source) -> Result<DataSet, PapersError> {
        Ok(DataSet::load(source, &self.request.cifar10, self.request.seed)?)
    }

    /// The seeds in use, where `usual` are the scale's.
    pub(crate) fn seeds(&self, usual: u64) -> Result<std::ops::Range<u64>, PapersError> {
        match self.request.seeds.unwrap_or(usual) {
            0 => Err(PapersError::NoSeeds),
            seeds => Ok(self.request.seed..self.request.seed.saturating_add(seeds)),
        }
    }

    /// The name of a part's file.
    pub(crate) fn part(&self, key: &str, seed: u64) -> String {
        format!("{}-{key}-{seed}", self.request.scale)
    }

    /// Tells of an event; whether to stop.
    pub(crate) fn is_stopped(&mut self, event: Event<'_>) -> bool {
        (self.hear)(event).is_break()
    }
}
