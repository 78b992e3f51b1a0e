//! The results of an experiment: a page to read, and tables for programs.

mod page;

use serde::{Deserialize, Serialize};
use unmask_core::{CurvePoint, CurveProvenance, CurveSetup};
use unmask_simulation::files;

pub(crate) use self::page::{duration, report_page};
use crate::{
    catalogue::{Experiment, Scale},
    claim::Claim,
    error::ExperimentError,
    figure::SeriesStyle,
};

/// Provenance of the numbers: enough to reproduce them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Provenance {
    pub(crate) experiment: Experiment,
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    /// Number of seeds, counted up from the first; the largest number if cases differ.
    pub(crate) seeds: u64,
    pub(crate) version: String,
    pub(crate) commit: Option<String>,
    pub(crate) has_local_changes: bool,
    pub(crate) device: String,
    /// Name of the processor, if the system provides it.
    #[serde(default)]
    pub(crate) processor: Option<String>,
    pub(crate) threads: usize,
    /// When the report was written, in seconds since 1970.
    pub(crate) finished: i64,
    /// Sum of the times of all cases, even if they ran in parallel.
    pub(crate) seconds: f64,
    pub(crate) command: String,
}

impl From<&Provenance> for CurveProvenance {
    fn from(provenance: &Provenance) -> Self {
        let Provenance { version, commit, has_local_changes, processor, threads, finished, seconds, command, .. } =
            provenance.clone();
        Self { command, version, commit, has_local_changes, processor, threads, seconds, finished }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) caption: String,
    pub(crate) svg: String,
    pub(crate) legend: Vec<(SeriesStyle, String)>,
}

/// A table. The first column names its rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<String>,
    /// Each row has as many cells as there are columns.
    pub(crate) rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Findings {
    /// Number of seeds, counted up from the first; the largest number if cases differ.
    pub(crate) seeds: u64,
    pub(crate) seconds: f64,
    pub(crate) lead: String,
    pub(crate) claims: Vec<Claim>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) tables: Vec<Table>,
    /// What to know before quoting a number, one paragraph each.
    pub(crate) notes: Vec<String>,
    /// Cost of the papers' scale, if measured.
    pub(crate) cost: Option<String>,
    pub(crate) commands: Vec<String>,
    pub(crate) records: Vec<u8>,
    pub(crate) results: serde_json::Value,
    /// The points of the trade-off curve, if the experiment measures it, with their common settings.
    pub(crate) curve: Option<(CurveSetup, Vec<CurvePoint>)>,
}

pub(crate) fn csv<R: Serialize>(
    columns: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> Result<Vec<u8>, ExperimentError> {
    files::csv(columns, rows)
        .map_err(|error| ExperimentError::Encode { what: "the table".to_owned(), reason: error.to_string() })
}
