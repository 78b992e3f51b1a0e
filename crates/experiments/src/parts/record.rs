//! `part.json`: the run that the cases in a folder belong to.

use std::{fs, thread};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unmask_core::processor_name;
use unmask_model::device::OpenDevice;
use unmask_simulation::Commit;

use super::Part;
use crate::store::{Difference, difference};

pub(crate) const PART: &str = "part.json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunKind {
    Matrix,
    Sweep,
    Reproduce,
}

/// The program and its device. Another build may compute other results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Build {
    pub(crate) version: String,
    /// The commit that the program was built from, with `-dirty` if files differed from it; unknown outside a checkout.
    pub(crate) commit: Option<String>,
    /// The compute device. Another one rounds differently.
    pub(crate) device: String,
}

impl Build {
    pub(crate) fn new(commit: Option<&Commit>, device: &OpenDevice) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit.map(ToString::to_string),
            device: device.description(),
        }
    }
}

/// The machine of a computation. It does not affect the results.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Name of the processor, if the system provides it.
    pub(crate) processor: Option<String>,
    pub(crate) threads: usize,
}

impl Machine {
    /// This machine; all its threads if `threads` is absent.
    pub(crate) fn here(threads: Option<usize>) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok();
        Self {
            processor: cpuinfo.as_deref().and_then(processor_name).map(str::to_owned),
            threads: threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        }
    }

    /// The processors of several machines, without duplicates.
    pub(crate) fn processors(machines: &[Self]) -> Option<String> {
        let mut names: Vec<&str> = machines.iter().filter_map(|machine| machine.processor.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| names.join("; "))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartRecord {
    pub(crate) part: Part,
    /// The arguments after the program's name that compute the whole run: the same for all parts, except for paths.
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) kind: RunKind,
    /// The settings that determine the cases, including the program's build.
    pub(crate) run: Value,
    /// All cases of the whole run in order, as file paths relative to `part.json`.
    pub(crate) cases: Vec<String>,
}

impl PartRecord {
    /// The first difference that makes these parts of different runs.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let of = |record: &Self| {
            serde_json::json!({
                "kind": record.kind, "run": record.run, "parts": record.part.of(), "cases": record.cases,
            })
        };
        let (held, wanted) = (of(self), of(other));
        // Another run also has other cases, but that difference explains less, so it comes last.
        ["kind", "run", "parts", "cases"]
            .iter()
            .find_map(|&name| difference(if name == "run" { "" } else { name }, &held[name], &wanted[name]))
    }
}
