//! Every attack on every picture under every defence.
//!
//! [`run`] plays a client: it computes updates of the pictures, protects them, and lets every attack have them. Finished rows
//! are kept in the output folder at once, so that a run that was cut off goes on where it stopped; in the end the folder
//! holds the rows as `matrix.json` and `matrix.csv`, and `matrix.html` to look at.
//!
//! Every random choice follows from the run's seed and from what it is for, so that a row does not depend on which rows are
//! computed beside it or in which order.

mod cell;
mod client;
mod page;
mod plan;
mod rows;
mod tables;

use std::{ops::ControlFlow, path::Path};

use serde::{Deserialize, Serialize};
use unmask_attack::{Needs, Searches};
use unmask_core::Defence;
use unmask_data::Picture;
use unmask_model::{Device, Network};

pub use self::plan::Settings;
use self::{
    client::Client,
    plan::{MatrixPlan, truth_file},
    rows::Rows,
};
use crate::{error::ExperimentError, inference::InferenceAttack, score::AttackVerdict};

/// One attack on one picture (or one batch of them) under one defence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was computed.
    pub attack: InferenceAttack,
    /// The client's defence.
    pub defence: Defence,
    /// The picture's name; several names joined by `+` are one batch.
    pub image: String,
    /// How far it came.
    pub verdict: AttackVerdict,
    /// Why it could not work, or what to know about the result.
    pub reason: Option<String>,
    /// In dB, at most 99.
    pub psnr: Option<f64>,
    /// Of a jigsaw, that of the best order of its pieces.
    pub ssim: Option<f64>,
    /// Time of the attack.
    pub seconds: f64,
    /// Steps of a search or of alternating least squares.
    pub iterations: Option<usize>,
    /// The reconstructions, in the folder `pictures`; after a jigsaw, its pieces in their best order.
    pub pictures: Vec<String>,
}

/// What happens while a matrix is computed.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The run starts: how many rows there are, how many of them are left to do, and how much work that is.
    Started {
        /// All rows.
        rows: usize,
        /// Those not yet done.
        left: usize,
        /// In the unit of [`Event::Progress`] and [`Event::RowFinished`].
        work: u64,
    },
    /// A row starts.
    RowStarted {
        /// The attack.
        attack: InferenceAttack,
        /// The defence.
        defence: Defence,
        /// The picture's name.
        image: &'a str,
    },
    /// A row's attack has come this far.
    Progress {
        /// Of the row's work.
        done: u64,
    },
    /// A row is finished and kept.
    RowFinished {
        /// The row.
        row: &'a Row,
        /// What it was expected to take.
        work: u64,
    },
}

/// What a run computes with.
#[derive(Debug, Clone, Copy)]
pub struct Backend<'a> {
    /// Where the client's model runs.
    pub device: &'a Device,
    /// Where searches come from.
    pub searches: &'a dyn Searches,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All finished rows, ordered by picture, defence and attack.
    pub rows: Vec<Row>,
    /// How many a whole matrix has.
    pub planned: usize,
}

/// Computes the rows that `folder` does not hold yet, and writes its tables and its page. `on_event` is told of every step and
/// may end the run; the row at hand is dropped then.
///
/// # Errors
/// [`ExperimentError`]: the settings do not fit the pictures, the folder holds rows of another run or cannot be written, or a
/// client's model fails.
pub fn run(
    settings: &Settings,
    pictures: &[(String, Picture)],
    backend: Backend<'_>,
    folder: &Path,
    on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Outcome, ExperimentError> {
    let plan = MatrixPlan::new(settings, pictures)?;
    let network = Network::new(settings.architecture(), backend.device)?;
    let client = Client::new(&network, settings);
    let files = Rows::open(folder, &plan.run)?;
    for (number, group) in plan.groups.iter().enumerate() {
        for (index, truth) in group.truths.iter().enumerate() {
            files.save_picture(&truth_file(number, index), network.architecture().side(), truth)?;
        }
    }
    let finished = |cell| files.get(&plan.file(&cell), &plan.key(&cell));
    let mut rows: Vec<Option<Row>> = plan.cells().map(finished).collect::<Result<_, _>>()?;
    let left: Vec<_> = plan.cells().filter(|cell| rows[cell.number].is_none()).collect();
    let work = left.iter().map(|cell| plan.work(cell)).sum();
    let needs = settings.attacks.iter().map(|&attack| attack.needs(network.layout())).reduce(Needs::and);
    let needs = needs.unwrap_or_default();
    let mut observed = None;
    let mut is_stopped = on_event(Event::Started { rows: rows.len(), left: left.len(), work }).is_break();
    for cell in &left {
        let (attack, defence) = (cell.attack, cell.defence);
        let image = plan.groups[cell.group].name.as_str();
        is_stopped = is_stopped || on_event(Event::RowStarted { attack, defence, image }).is_break();
        if is_stopped {
            break;
        }
        let at = (cell.group, defence);
        if observed.as_ref().is_none_or(|(of, _)| *of != at) {
            // What was held before is of no use any more, and large.
            drop(observed.take());
            observed = Some((at, client.observe(defence, &plan.groups[cell.group], &needs)?));
        }
        let Some((_, observation)) = &observed else { continue };
        let work = plan.work(cell);
        let computed = cell::compute(&plan, cell, observation, backend.searches, &mut |iteration, iterations| {
            let done = work * iteration as u64 / iterations.max(1) as u64;
            is_stopped = is_stopped || on_event(Event::Progress { done }).is_break();
            if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if is_stopped {
            break;
        }
        let row = files.put(&plan.file(cell), &plan.key(cell), network.architecture().side(), computed)?;
        is_stopped = on_event(Event::RowFinished { row: &row, work }).is_break();
        rows[cell.number] = Some(row);
    }
    let planned = rows.len();
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    tables::write(&files, &plan, &rows)?;
    page::write(&files, &plan, &rows)?;
    Ok(Outcome { rows, planned })
}
