//! The request for an experiment.

mod record;

use std::path::PathBuf;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use unmask_data::datasets::{DataSet, Source};
use unmask_model::device::OpenDevice;
use unmask_simulation::Commit;

pub(crate) use self::record::{ReproduceSettings, RunRecord};
use crate::{
    catalogue::{Experiment, Scale},
    error::ExperimentError,
};

#[derive(Debug, Clone)]
pub struct ExperimentRequest<'a> {
    pub experiment: Experiment,
    pub scale: Scale,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds; the scale's default if absent.
    pub seeds: Option<u64>,
    /// The experiment creates its own folder in this one.
    pub out: PathBuf,
    pub cifar10: PathBuf,
    /// A safetensors file of pretrained weights to use in place of the scale's.
    pub weights: Option<PathBuf>,
    pub device: &'a OpenDevice,
    /// Number of threads; all if absent.
    pub threads: Option<usize>,
    pub commit: Option<Commit>,
}

/// The numbers of seeds of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) least: u64,
    /// The limit for cases with wide intervals.
    pub(crate) most: u64,
}

impl Seeds {
    pub(crate) fn exactly(seeds: u64) -> Self {
        Self { least: seeds, most: seeds }
    }
}

/// Threads to compute with; one per processor if absent.
///
/// # Errors
/// There are none, or the system does not start them.
pub(crate) fn pool(threads: Option<usize>) -> Result<ThreadPool, ExperimentError> {
    if threads == Some(0) {
        return Err(ExperimentError::NoThreads);
    }
    let threads = threads.unwrap_or(0);
    let failed = |error: ThreadPoolBuildError| ExperimentError::Threads { threads, reason: error.to_string() };
    ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("compute {n}")).build().map_err(failed)
}

impl ExperimentRequest<'_> {
    /// The config override for the given weights, if there are any.
    pub(crate) fn start(&self) -> Option<String> {
        self.weights.as_ref().map(|path| format!("start={}", path.display()))
    }

    /// The command that repeats the run, without paths of this machine.
    pub(crate) fn command(&self) -> String {
        let Self { experiment, scale, seed, seeds, weights, .. } = self;
        let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
        let weights = if weights.is_some() { " --weights FILE" } else { "" };
        format!("unmask reproduce {experiment} --scale {scale} --seed {seed}{seeds}{weights} --out reports")
    }

    /// Loads the pictures. Generated ones are drawn from the seed.
    pub(crate) fn load(&self, source: &Source) -> Result<DataSet, ExperimentError> {
        Ok(DataSet::load(source, &self.cifar10, self.seed)?)
    }

    /// Whether CIFAR-10 is available. Some experiments add cases if it is.
    pub(crate) fn has_cifar10(&self) -> bool {
        self.cifar10.is_dir()
    }

    /// The requested number of seeds, or the `usual` one.
    pub(crate) fn seeds(&self, usual: Seeds) -> Seeds {
        self.seeds.map_or(usual, Seeds::exactly)
    }
}
