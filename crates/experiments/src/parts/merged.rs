//! A run that several machines computed.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Machine, record::PART};
use crate::{error::ExperimentError, store::damaged};

/// A run with all its cases in one folder.
#[derive(Debug)]
pub(crate) struct MergedRun<'a> {
    /// The folder of the cases and of the report.
    pub(crate) folder: &'a Path,
    run: &'a Value,
    machines: Vec<Machine>,
}

impl<'a> MergedRun<'a> {
    pub(crate) fn new(folder: &'a Path, run: &'a Value, machines: Vec<Machine>) -> Self {
        Self { folder, run, machines }
    }

    /// The settings that determine the cases.
    ///
    /// # Errors
    /// They are not in the form that this program writes.
    pub(crate) fn run<T: DeserializeOwned>(&self) -> Result<T, ExperimentError> {
        T::deserialize(self.run).map_err(damaged(&self.folder.join(PART)))
    }

    /// Threads of the first part, and the processors of all parts.
    pub(crate) fn machine(&self) -> Machine {
        let threads = self.machines.first().map_or(1, |machine| machine.threads);
        Machine { processor: Machine::processors(&self.machines), threads }
    }
}
