//! What an experiment says in the end: a page to read, and tables for programs.

mod page;

use serde::{Deserialize, Serialize};
use unmask_simulation::files;

pub(crate) use self::page::duration;
pub use self::page::page;
use crate::{
    catalogue::{Experiment, Scale},
    claim::Claim,
    error::PapersError,
    figure::Look,
};

/// Where numbers come from: enough to get them again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The experiment.
    pub experiment: Experiment,
    /// Its scale.
    pub scale: Scale,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, counted up from the first.
    pub seeds: u64,
    /// Version of the program.
    pub version: String,
    /// The git commit the program was built from, where that is known.
    pub commit: Option<String>,
    /// Whether files differed from that commit.
    pub has_local_changes: bool,
    /// What computed.
    pub device: String,
    /// Threads that were there to compute.
    pub threads: usize,
    /// When the report was written, in seconds since 1970.
    pub finished: i64,
    /// Times of all parts added up, also of those that ran side by side.
    pub seconds: f64,
    /// The command that does it again.
    pub command: String,
}

/// A drawing with its caption and legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What is seen, in a sentence or two.
    pub caption: String,
    /// The SVG element.
    pub svg: String,
    /// Each series by its look.
    pub legend: Vec<(Look, String)>,
}

/// A table; the first column names its rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// As many cells in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// All that a report says.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How the numbers came about.
    pub provenance: Provenance,
    /// What was done, in a few sentences.
    pub lead: String,
    /// What was expected and what was found.
    pub claims: Vec<Claim>,
    /// What is seen.
    pub figures: Vec<Figure>,
    /// What is read.
    pub tables: Vec<Table>,
    /// What to know before quoting a number, a paragraph each.
    pub notes: Vec<String>,
    /// What the papers' scale would take, where it was measured.
    pub cost: Option<String>,
    /// Commands that repeat single parts.
    pub commands: Vec<String>,
}

/// `results.csv`: every number, for programs.
pub(crate) fn csv<R: Serialize>(columns: &[&str], rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>, PapersError> {
    files::csv(columns, rows).map_err(PapersError::Table)
}
