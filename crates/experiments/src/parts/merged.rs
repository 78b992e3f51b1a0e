//! A run that several machines have computed.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Machine, record::PART};
use crate::{error::ExperimentError, store::damaged};

/// A run whose cases lie together.
#[derive(Debug)]
pub(crate) struct MergedRun<'a> {
    /// Where they are, and where the report goes.
    pub(crate) folder: &'a Path,
    run: &'a Value,
    /// Those of all parts.
    machines: Vec<Machine>,
}

impl<'a> MergedRun<'a> {
    pub(crate) fn new(folder: &'a Path, run: &'a Value, machines: Vec<Machine>) -> Self {
        Self { folder, run, machines }
    }

    /// What decides the rows.
    ///
    /// # Errors
    /// It is not what this program writes.
    pub(crate) fn run<T: DeserializeOwned>(&self) -> Result<T, ExperimentError> {
        T::deserialize(self.run).map_err(damaged(&self.folder.join(PART)))
    }

    /// Threads of the first part, and the processors of all.
    pub(crate) fn machine(&self) -> Machine {
        let threads = self.machines.first().map_or(1, |machine| machine.threads);
        Machine { processor: Machine::processors(&self.machines), threads }
    }
}
