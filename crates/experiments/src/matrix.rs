//! Every attack on every picture under every defence.
//!
//! [`run`] acts as a client: it computes updates of the pictures, protects them, and passes them to every attack. A
//! finished row is saved immediately, so that an interrupted run continues where it stopped. At the end the folder has
//! the rows as `matrix.json` and `matrix.csv`, and the page `matrix.html`.
//!
//! Every random choice is derived from the row's seed and its purpose, so that a row does not depend on other rows,
//! their order, or the number of threads.

mod cell;
mod client;
mod dishonest;
mod means;
mod page;
mod plan;
mod progress;
mod rows;
mod tables;

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use unmask_attack::Needs;
use unmask_core::{Defence, ModelState, ThreatModel, Verdict};
use unmask_data::Picture;
use unmask_inversion::InferenceAttack;
use unmask_matching::GradientMatching;
use unmask_model::{
    Network,
    device::{Compute, OpenDevice},
};
use unmask_simulation::Commit;

pub(crate) use self::rows::PICTURES;
use self::{
    client::{AttackedClient, Observed},
    plan::{Cell, MatrixPlan, truth_file},
    progress::Progress,
    rows::Rows,
};
pub use self::{
    means::{Interval, MatrixMean},
    plan::MatrixSettings,
};
use crate::{
    error::ExperimentError,
    parts::{Machine, MergedRun, PartFolder, RunKind},
    request::pool,
    store::{RUN, at, damaged},
};

const PAGE: &str = "matrix.html";

#[derive(Debug, Clone)]
pub struct MatrixRequest<'a> {
    pub settings: &'a MatrixSettings,
    /// The pictures with their names.
    pub pictures: &'a [(String, Picture)],
    /// The model's weights, if not its initial ones.
    pub start: Option<&'a ModelState>,
    pub device: &'a OpenDevice,
    /// Number of rows computed in parallel; one per processor if absent. A GPU uses one.
    pub threads: Option<usize>,
    pub commit: Option<Commit>,
    pub out: &'a Path,
}

/// One attack on one picture, or one batch of pictures, under one defence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixRow {
    pub attack: InferenceAttack,
    pub defence: Defence,
    /// What the relay did with the weights.
    #[serde(default, skip_serializing_if = "ThreatModel::is_honest")]
    pub threat: ThreatModel,
    /// Name of the picture, or the names of a batch joined by `+`.
    pub image: String,
    pub seed: u64,
    /// `verdict`, and `because` if it cannot be told.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// There is no picture because the update left the attack nothing to solve, not because the attack failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_nothing_to_solve: bool,
    pub reason: Option<String>,
    /// In dB, at most 99.
    pub psnr: Option<f64>,
    /// For a jigsaw, of the best arrangement of its pieces.
    pub ssim: Option<f64>,
    /// The share of the update that the pictures do not explain, as a [`Misfit`](unmask_attack::Misfit): 0 is none, 1
    /// is all.
    pub misfit: Option<f64>,
    /// Wall-clock time, with other rows running in parallel.
    pub seconds: f64,
    /// Steps of a search or of alternating least squares.
    pub iterations: Option<usize>,
    /// Files of the reconstructions, in the folder `pictures`; for a jigsaw also its best arrangement.
    pub pictures: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
pub enum MatrixEvent<'a> {
    /// The run starts. `left` of the `rows` rows are still to be computed; they take `work` units.
    Started {
        rows: usize,
        left: usize,
        work: u64,
    },
    RowStarted {
        attack: InferenceAttack,
        defence: Defence,
        threat: ThreatModel,
        image: &'a str,
        seed: u64,
    },
    /// `done` units of work are done.
    Progress {
        done: u64,
    },
    /// A row was saved, and `done` units of work are done.
    RowFinished {
        done: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct MatrixOutcome {
    /// All finished rows, ordered by seed, picture, threat model, defence and attack.
    pub rows: Vec<MatrixRow>,
    /// Number of rows in the whole matrix, or in the part.
    pub planned: usize,
}

/// Receives events, from one thread at a time, and may end the run.
pub type OnMatrixEvent<'a> = &'a mut (dyn FnMut(MatrixEvent<'_>) -> ControlFlow<()> + Send);

/// Computes the rows that are missing in the folder, in parallel, and writes the tables and the page. `on_event` may
/// end the run; unfinished searches are then discarded.
///
/// # Errors
/// [`ExperimentError`]: the settings do not fit the pictures, the folder has rows of another run or cannot be written,
/// or a client's model fails.
pub fn run(request: &MatrixRequest<'_>, on_event: OnMatrixEvent<'_>) -> Result<MatrixOutcome, ExperimentError> {
    let (plan, outcome) = compute(request, &|_| true, on_event)?;
    let files = Rows::open(request.out, &plan.run)?;
    write(&files, &plan, machine(request).threads, &outcome.rows)?;
    Ok(outcome)
}

/// Computes the rows of one part in the part's folder, ignoring [`MatrixRequest::out`]. Use [`merge`](crate::merge) to
/// create the tables and the page from all parts. The outcome covers only this part.
///
/// # Errors
/// As [`run`].
pub fn run_part(
    request: &MatrixRequest<'_>,
    part: &PartFolder,
    on_event: OnMatrixEvent<'_>,
) -> Result<MatrixOutcome, ExperimentError> {
    let request = MatrixRequest { out: part.path(), ..request.clone() };
    let plan = MatrixPlan::new(&request)?;
    part.record("", RunKind::Matrix, machine(&request), &plan.run, plan.files())?;
    run_rows(&request, &|position| part.part().takes(position), on_event)
}

/// Writes tables and page of a merged run and returns the page's path.
///
/// # Errors
/// A file cannot be read or written, or does not match its part.
pub(crate) fn report(merged: &MergedRun<'_>) -> Result<PathBuf, ExperimentError> {
    let plan = MatrixPlan::finished(merged.run()?);
    let files = Rows::open(merged.folder, &plan.run)?;
    let rows = all_rows(&files, &plan)?;
    write(&files, &plan, merged.machine().threads, &rows)?;
    Ok(merged.folder.join(PAGE))
}

/// The rows of a folder in which all are finished.
///
/// # Errors
/// A row is missing or belongs to another run.
pub(crate) fn finished(folder: &Path) -> Result<Vec<MatrixRow>, ExperimentError> {
    let path = folder.join(RUN);
    let bytes = fs::read(&path).map_err(at(&path))?;
    let plan = MatrixPlan::finished(serde_json::from_slice(&bytes).map_err(damaged(&path))?);
    all_rows(&Rows::open(folder, &plan.run)?, &plan)
}

/// The files of the first attacked picture, and of the first one in `row`, in a matrix's folder.
pub fn example(folder: &Path, row: &MatrixRow) -> Option<[PathBuf; 2]> {
    let pictures = folder.join(PICTURES);
    Some([pictures.join(truth_file(0, 0)), pictures.join(row.pictures.first()?)])
}

fn all_rows(files: &Rows, plan: &MatrixPlan) -> Result<Vec<MatrixRow>, ExperimentError> {
    let row = |cell: Cell| {
        let name = plan.file(&cell);
        files.get(&name, &plan.key(&cell))?.ok_or_else(|| ExperimentError::OtherCase { path: files.file(&name) })
    };
    plan.cells().map(row).collect()
}

/// The files of all rows, relative to the matrix's folder.
///
/// # Errors
/// The settings do not fit the pictures.
pub(crate) fn row_files(request: &MatrixRequest<'_>) -> Result<Vec<String>, ExperimentError> {
    Ok(MatrixPlan::new(request)?.files())
}

fn write(files: &Rows, plan: &MatrixPlan, threads: usize, rows: &[MatrixRow]) -> Result<(), ExperimentError> {
    tables::write(files, plan, threads, rows)?;
    page::write(files, plan, rows)
}

/// Computes only the rows at the positions that `takes` selects, without tables and page.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_rows(
    request: &MatrixRequest<'_>,
    takes: &(dyn Fn(usize) -> bool + Sync),
    on_event: OnMatrixEvent<'_>,
) -> Result<MatrixOutcome, ExperimentError> {
    Ok(compute(request, takes, on_event)?.1)
}

/// Computes the rows that are missing in the folder, at the positions that `takes` selects. The outcome covers the
/// selected rows.
fn compute(
    request: &MatrixRequest<'_>,
    takes: &(dyn Fn(usize) -> bool + Sync),
    on_event: OnMatrixEvent<'_>,
) -> Result<(MatrixPlan, MatrixOutcome), ExperimentError> {
    let MatrixRequest { settings, start, device, .. } = *request;
    let plan = MatrixPlan::new(request)?;
    // For the rows, and for the parallel parts of the model's passes.
    let pool = pool(row_threads(request))?;
    let computing = Computing {
        plan: &plan,
        start,
        network: Network::new(settings.model, device.device())?,
        searches: GradientMatching::new(device.clone()),
        // Attacks that do not work on the model need nothing. Their rows say that they do not work.
        needs: settings
            .attacks
            .iter()
            .flat_map(|attack| attack.needs(settings.model))
            .fold(Needs::default(), Needs::and),
        files: Rows::open(request.out, &plan.run)?,
        progress: Progress::new(on_event),
    };
    let files = &computing.files;
    for (number, batch) in plan.batches.iter().enumerate() {
        for (index, truth) in batch.truths.iter().enumerate() {
            files.save_picture(&truth_file(number, index), settings.model.side(), truth)?;
        }
    }
    let kept = |cell: Cell| files.get(&plan.file(&cell), &plan.key(&cell));
    let taken: Vec<Cell> = plan.cells().filter(|cell| takes(cell.number)).collect();
    let mut rows: BTreeMap<usize, MatrixRow> = BTreeMap::new();
    let mut left = Vec::new();
    for &cell in &taken {
        match kept(cell)? {
            Some(row) => drop(rows.insert(cell.number, row)),
            None => left.push(cell),
        }
    }
    let work = left.iter().map(|cell| plan.work(cell)).sum();
    if computing.progress.tell(MatrixEvent::Started { rows: taken.len(), left: left.len(), work }).is_continue() {
        let updates: Vec<&[Cell]> = left.chunk_by(|one, next| one.update() == next.update()).collect();
        let computed = pool.install(|| {
            let computed = updates.into_par_iter().map(|cells| computing.update(cells)).collect::<Result<Vec<_>, _>>();
            computed.inspect_err(|_| computing.progress.stop())
        })?;
        rows.extend(computed.into_iter().flatten());
    }
    drop(computing);
    Ok((plan, MatrixOutcome { rows: rows.into_values().collect(), planned: taken.len() }))
}

/// Number of rows computed in parallel; one per processor if absent.
fn row_threads(request: &MatrixRequest<'_>) -> Option<usize> {
    match request.device.compute() {
        Compute::Gpu if request.threads != Some(0) => Some(1),
        Compute::Gpu | Compute::Cpu => request.threads,
    }
}

fn machine(request: &MatrixRequest<'_>) -> Machine {
    Machine::here(row_threads(request))
}

struct Computing<'a> {
    plan: &'a MatrixPlan,
    start: Option<&'a ModelState>,
    network: Network,
    searches: GradientMatching,
    needs: Needs,
    files: Rows,
    progress: Progress<'a>,
}

impl Computing<'_> {
    /// Computes the rows of all attacks on one update, or fewer if the run was stopped.
    fn update(&self, cells: &[Cell]) -> Result<Vec<(usize, MatrixRow)>, ExperimentError> {
        let Some(first) = cells.first().filter(|_| !self.progress.is_stopped()) else { return Ok(Vec::new()) };
        let client = AttackedClient {
            network: &self.network,
            settings: self.plan.settings(),
            start: self.start,
            seed: first.seed,
        };
        let observed = client.observe((first.threat, first.defence), &self.plan.batches[first.batch], &self.needs);
        let observed = observed.inspect_err(|_| self.progress.stop())?;
        let row = |cell: &Cell| {
            let row = self.row(cell, &observed).inspect_err(|_| self.progress.stop());
            row.transpose().map(|row| row.map(|row| (cell.number, row)))
        };
        cells.par_iter().filter_map(row).collect()
    }

    /// Computes and saves one row; `None` if the run was stopped before the row was finished.
    fn row(&self, cell: &Cell, observed: &Observed) -> Result<Option<MatrixRow>, ExperimentError> {
        let Self { plan, searches, files, progress, .. } = self;
        let (attack, defence, threat, seed) = (cell.attack, cell.defence, cell.threat, cell.seed);
        let image = plan.batches[cell.batch].name.as_str();
        if progress.tell(MatrixEvent::RowStarted { attack, defence, threat, image, seed }).is_break() {
            return Ok(None);
        }
        let work = plan.work(cell);
        let mut is_cut = false;
        let computed = cell::compute(plan, cell, observed, searches, &mut |at| {
            let flow = progress.reached(cell, work * at.iteration as u64 / at.iterations.max(1) as u64);
            is_cut = flow.is_break();
            flow
        })?;
        if is_cut {
            return Ok(None);
        }
        let row = files.put(&plan.file(cell), &plan.key(cell), plan.settings().model.side(), computed)?;
        // The row is saved, so a stop does not matter here.
        let _ = progress.finished(cell, work);
        Ok(Some(row))
    }
}
