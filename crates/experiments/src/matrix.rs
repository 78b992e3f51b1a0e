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
use unmask_attack::Needs;
use unmask_core::Defence;
use unmask_data::Picture;
use unmask_matching::GradientMatching;
use unmask_model::{Network, device::OpenDevice};

pub use self::plan::MatrixSettings;
use self::{
    client::AttackedClient,
    plan::{MatrixPlan, truth_file},
    rows::Rows,
};
use crate::{error::ExperimentError, inference::InferenceAttack, score::AttackVerdict};

/// One attack on one picture (or one batch of them) under one defence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixRow {
    pub attack: InferenceAttack,
    pub defence: Defence,
    /// The picture's name; several names joined by `+` are one batch.
    pub image: String,
    pub verdict: AttackVerdict,
    /// Why it could not work, or what to know about the result.
    pub reason: Option<String>,
    /// In dB, at most 99.
    pub psnr: Option<f64>,
    /// Of a jigsaw, that of the best order of its pieces.
    pub ssim: Option<f64>,
    pub seconds: f64,
    /// Steps of a search or of alternating least squares.
    pub iterations: Option<usize>,
    /// The reconstructions, in the folder `pictures`; after a jigsaw, its pieces in their best order.
    pub pictures: Vec<String>,
}

/// What happens while a matrix is computed.
#[derive(Debug, Clone, Copy)]
pub enum MatrixEvent<'a> {
    /// The run starts; `left` of `rows` are not done yet, and are so much `work`.
    Started {
        rows: usize,
        left: usize,
        work: u64,
    },
    RowStarted {
        attack: InferenceAttack,
        defence: Defence,
        image: &'a str,
    },
    /// So much of the work is done.
    Progress {
        done: u64,
    },
    /// A row is kept, and so much of the work is done.
    RowFinished {
        done: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct MatrixOutcome {
    /// All finished rows, ordered by picture, defence and attack.
    pub rows: Vec<MatrixRow>,
    /// How many a whole matrix has.
    pub planned: usize,
}

/// Computes the rows that `folder` does not hold yet, and writes its tables and its page. The client's model and the
/// searches run on `device`. `on_event` is told of every step and may end the run; the row at hand is dropped then.
///
/// # Errors
/// [`ExperimentError`]: the settings do not fit the pictures, the folder holds rows of another run or cannot be written, or a
/// client's model fails.
pub fn run(
    settings: &MatrixSettings,
    pictures: &[(String, Picture)],
    device: &OpenDevice,
    folder: &Path,
    on_event: &mut dyn FnMut(MatrixEvent<'_>) -> ControlFlow<()>,
) -> Result<MatrixOutcome, ExperimentError> {
    let plan = MatrixPlan::new(settings, pictures)?;
    let network = Network::new(settings.model, device.device())?;
    let searches = GradientMatching::new(device.clone());
    let client = AttackedClient { network: &network, settings };
    let (files, side) = (Rows::open(folder, &plan.run)?, settings.model.side());
    for (number, batch) in plan.batches.iter().enumerate() {
        for (index, truth) in batch.truths.iter().enumerate() {
            files.save_picture(&truth_file(number, index), side, truth)?;
        }
    }
    let kept = |cell| files.get(&plan.file(&cell), &plan.key(&cell));
    let mut rows: Vec<Option<MatrixRow>> = plan.cells().map(kept).collect::<Result<_, _>>()?;
    let left: Vec<_> = plan.cells().filter(|cell| rows[cell.number].is_none()).collect();
    let work = left.iter().map(|cell| plan.work(cell)).sum();
    // Attacks that do not work on the model need nothing: they say so in their rows.
    let needs = settings.attacks.iter().flat_map(|attack| attack.needs(settings.model));
    let needs = needs.fold(Needs::default(), Needs::and);
    let (mut observed, mut finished) = (None, 0);
    let mut is_stopped = on_event(MatrixEvent::Started { rows: rows.len(), left: left.len(), work }).is_break();
    for cell in &left {
        let (attack, defence) = (cell.attack, cell.defence);
        let image = plan.batches[cell.batch].name.as_str();
        is_stopped = is_stopped || on_event(MatrixEvent::RowStarted { attack, defence, image }).is_break();
        if is_stopped {
            break;
        }
        let at = (cell.batch, defence);
        if observed.as_ref().is_none_or(|(of, _)| *of != at) {
            // What was held before is of no use any more, and large.
            drop(observed.take());
            observed = Some((at, client.observe(defence, &plan.batches[cell.batch], &needs)?));
        }
        let Some((_, observation)) = &observed else { continue };
        let work = plan.work(cell);
        let computed = cell::compute(&plan, cell, observation, &searches, &mut |at| {
            let done = finished + work * at.iteration as u64 / at.iterations.max(1) as u64;
            is_stopped = is_stopped || on_event(MatrixEvent::Progress { done }).is_break();
            if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if is_stopped {
            break;
        }
        let row = files.put(&plan.file(cell), &plan.key(cell), side, computed)?;
        rows[cell.number] = Some(row);
        finished += work;
        is_stopped = on_event(MatrixEvent::RowFinished { done: finished }).is_break();
    }
    let planned = rows.len();
    let rows: Vec<MatrixRow> = rows.into_iter().flatten().collect();
    tables::write(&files, &plan, &rows)?;
    page::write(&files, &plan, &rows)?;
    Ok(MatrixOutcome { rows, planned })
}
