use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ExperimentRequest;
use crate::{
    catalogue::{Experiment, Scale},
    error::ExperimentError,
    parts::Build,
    store::{at, hexadecimal},
};

/// The settings that determine the cases of an experiment, for its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    #[serde(flatten)]
    pub(crate) build: Build,
    pub(crate) settings: ReproduceSettings,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReproduceSettings {
    pub(crate) experiment: Experiment,
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    pub(crate) seeds: Option<u64>,
    /// Whether cases on CIFAR-10 are added if the experiment has them.
    pub(crate) has_cifar10: bool,
    /// Path of the initial weights; cases are identified by it.
    pub(crate) weights: Option<PathBuf>,
    /// SHA-256 of that file.
    pub(crate) weights_sha256: Option<String>,
}

impl RunRecord {
    /// # Errors
    /// The weights cannot be read.
    pub(crate) fn new(request: &ExperimentRequest<'_>) -> Result<Self, ExperimentError> {
        let &ExperimentRequest { experiment, scale, seed, seeds, ref weights, .. } = request;
        let digest = |path: &PathBuf| -> Result<String, ExperimentError> {
            Ok(hexadecimal(Sha256::new_with_prefix(fs::read(path).map_err(at(path))?)))
        };
        let settings = ReproduceSettings {
            experiment,
            scale,
            seed,
            seeds,
            has_cifar10: experiment.adds_cifar10() && request.has_cifar10(),
            weights: weights.clone(),
            weights_sha256: weights.as_ref().map(digest).transpose()?,
        };
        Ok(Self { build: Build::new(request.commit.as_ref(), request.device), settings })
    }
}
