//! `part.json`: what the cases of a folder are cases of.

use std::{fs, thread};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unmask_core::processor_name;
use unmask_model::device::OpenDevice;
use unmask_simulation::Commit;

use super::Part;
use crate::store::{Difference, difference};

/// The name of its file.
pub(crate) const PART: &str = "part.json";

/// What is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunKind {
    Matrix,
    Sweep,
    Reproduce,
}

/// The program and what it computes with: another one may compute other rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Build {
    pub(crate) version: String,
    /// What the program was built from, `-dirty` where files differed from it; unknown outside a checkout.
    pub(crate) commit: Option<String>,
    /// What computed: another one rounds otherwise.
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

/// Where something was computed. It decides no row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name, where the system tells it.
    pub(crate) processor: Option<String>,
    /// Threads that were there to compute.
    pub(crate) threads: usize,
}

impl Machine {
    /// This one; `threads` are all of it if absent.
    pub(crate) fn here(threads: Option<usize>) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok();
        Self {
            processor: cpuinfo.as_deref().and_then(processor_name).map(str::to_owned),
            threads: threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        }
    }

    /// The processors of several, each once.
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
    /// The words behind the program's name that compute the whole: the same for all parts, but for their paths.
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) kind: RunKind,
    /// What decides the rows, the program's build among it.
    pub(crate) run: Value,
    /// All cases of the whole in their order, as the files that keep them, beside `part.json`.
    pub(crate) cases: Vec<String>,
}

impl PartRecord {
    /// Where the two are not of one whole.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let of = |record: &Self| {
            serde_json::json!({
                "kind": record.kind, "run": record.run, "parts": record.part.of(), "cases": record.cases,
            })
        };
        let (held, wanted) = (of(self), of(other));
        // What is of another run has other cases too, which tells less.
        ["kind", "run", "parts", "cases"]
            .iter()
            .find_map(|&name| difference(if name == "run" { "" } else { name }, &held[name], &wanted[name]))
    }
}
