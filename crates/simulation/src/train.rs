//! A run with files, which can be watched, interrupted and resumed.

mod resume;

use std::{fs, io, ops::ControlFlow, path::PathBuf};

use unmask_data::datasets::DataSet;
use unmask_model::{
    device::OpenDevice,
    weights::{Storage, encode_state},
};

use crate::{
    CheckpointError, Commit, Config, Metrics, RunEvent, RunOutcome, Simulation, SimulationError, checkpoint, curves,
    files::{self, append, write_whole},
    metrics::{COLUMNS, csv},
    record::{DataRecord, RunRecord},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The run's folder; created if needed.
    pub out: PathBuf,
    /// Whether to resume from the last checkpoint in the folder.
    pub resume: bool,
    /// Whether to write `order.csv` (which client trained on which pictures) and `start.safetensors` (the initial
    /// weights), so that another program can repeat the run. A resumed run does not continue `order.csv`.
    pub write_order: bool,
    pub storage: Storage,
    /// The commit that the program was built from, for `run.json`.
    pub commit: Option<Commit>,
}

#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("{} already holds a run; continue it with --resume, or give another --out", out.display())]
    Taken { out: PathBuf },
    #[error("{} cannot be written ({source})", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} cannot be drawn ({reason})", path.display())]
    Draw { path: PathBuf, reason: String },
}

impl TrainError {
    /// Whether the input is at fault, and not the machine.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Simulation(error) => error.is_input(),
            Self::Checkpoint(error) => !matches!(error, CheckpointError::Write { .. } | CheckpointError::Read { .. }),
            Self::Taken { .. } => true,
            Self::Write { .. } | Self::Draw { .. } => false,
        }
    }
}

/// Runs `config` like [`Simulation::run`] and writes to `files.out`: `metrics.csv` line by line, `run.json`, `loss.svg`
/// and `accuracy.svg`, the last two checkpoints in `checkpoints/`, and `model.safetensors` at the end. If `on_event`
/// breaks, writes the current checkpoint and model, and returns the outcome so far.
///
/// A resumed run gives the same weights as an uninterrupted one, bit for bit.
///
/// # Errors
/// [`TrainError`]. The last complete checkpoint always remains.
pub fn train(
    config: &Config,
    data: &DataSet,
    device: &OpenDevice,
    files: &Files,
    on_event: &mut dyn FnMut(RunEvent<'_>) -> ControlFlow<()>,
) -> Result<RunOutcome, TrainError> {
    let mut simulation = Simulation::new(config, data, device)?;
    let folder = Folder::open(files)?;
    let pictures = DataRecord::new(data);
    let (fingerprint, rounds) = (pictures.sha256.clone(), simulation.rounds());
    let mut record = RunRecord::new(config, pictures, device.description(), simulation.threads(), rounds);
    record.commit = files.commit.as_ref().map(ToString::to_string);
    let left_aside = match files.resume {
        true => Some(simulation.resume(&folder.checkpoints(), &fingerprint)?),
        false => None,
    };
    let mut flow = on_event(RunEvent::Started { rounds, notes: simulation.notes() });
    if let Some(problems) = left_aside {
        record.started = RunRecord::started(&folder.path("run.json")).unwrap_or(record.started);
        flow = on_event(RunEvent::Resumed { round: simulation.round(), problems: &problems });
    }
    let table = csv(&COLUMNS, simulation.metrics()).map_err(|source| folder.failed("metrics.csv", source))?;
    folder.write("metrics.csv", &table)?;
    folder.record(&record, &simulation.outcome()?)?;
    let writes_order = files.write_order && !files.resume;
    if writes_order {
        folder.write("order.csv", b"round,client,position,picture\n")?;
        folder.model("start.safetensors", &simulation, Storage::F32)?;
    }
    let mut kept = simulation.round();
    while flow.is_continue() {
        let order = writes_order.then(|| simulation.next_pictures());
        let Some(metrics) = simulation.advance()? else { break };
        if let Some(order) = order.filter(|_| metrics.round > 0) {
            folder.order(metrics.round, &order)?;
        }
        folder.append("metrics.csv", csv(&[], &[metrics]))?;
        flow = on_event(RunEvent::Round(&metrics));
        if config.checkpoint_every > 0 && metrics.round > kept && metrics.round.is_multiple_of(config.checkpoint_every)
        {
            kept = folder.keep(&simulation, &fingerprint)?;
            folder.curves(simulation.metrics())?;
            folder.record(&record, &simulation.outcome()?)?;
        }
    }
    if simulation.round() > kept {
        folder.keep(&simulation, &fingerprint)?;
    }
    let outcome = simulation.outcome()?;
    folder.curves(&outcome.metrics)?;
    folder.model("model.safetensors", &simulation, files.storage)?;
    folder.record(&record, &outcome)?;
    Ok(outcome)
}

struct Folder(PathBuf);

impl Folder {
    fn open(files: &Files) -> Result<Self, TrainError> {
        let folder = Self(files.out.clone());
        if files.resume {
            // Do not create the folder: without it there is no checkpoint to resume from.
            return Ok(folder);
        }
        if checkpoint::exists(&folder.checkpoints()) {
            return Err(TrainError::Taken { out: folder.0 });
        }
        fs::create_dir_all(&folder.0).map_err(|source| TrainError::Write { path: folder.0.clone(), source })?;
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn checkpoints(&self) -> PathBuf {
        self.path("checkpoints")
    }

    fn failed(&self, name: &str, source: io::Error) -> TrainError {
        TrainError::Write { path: self.path(name), source }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), TrainError> {
        write_whole(&self.path(name), bytes).map_err(|source| self.failed(name, source))
    }

    fn record(&self, record: &RunRecord, outcome: &RunOutcome) -> Result<(), TrainError> {
        let record = record.clone().with_outcome(outcome);
        let text = serde_json::to_string_pretty(&record).map_err(|error| self.failed("run.json", error.into()))?;
        self.write("run.json", (text + "\n").as_bytes())
    }

    fn curves(&self, metrics: &[Metrics]) -> Result<(), TrainError> {
        for (name, svg) in [("loss.svg", curves::loss(metrics)), ("accuracy.svg", curves::accuracy(metrics))] {
            let draw =
                |error: curves::CurveError| TrainError::Draw { path: self.path(name), reason: error.to_string() };
            self.write(name, svg.map_err(draw)?.as_bytes())?;
        }
        Ok(())
    }

    fn model(&self, name: &str, simulation: &Simulation<'_>, storage: Storage) -> Result<(), TrainError> {
        let bytes = encode_state(simulation.architecture(), &simulation.state()?, storage);
        self.write(name, &bytes.map_err(SimulationError::from)?)
    }

    fn keep(&self, simulation: &Simulation<'_>, fingerprint: &str) -> Result<u32, TrainError> {
        simulation.checkpoint(fingerprint).write(&self.checkpoints())?;
        Ok(simulation.round())
    }

    fn append(&self, name: &str, lines: io::Result<Vec<u8>>) -> Result<(), TrainError> {
        lines.and_then(|lines| append(&self.path(name), &lines)).map_err(|source| self.failed(name, source))
    }

    /// Appends the pictures of a round to `order.csv`.
    fn order(&self, round: u32, order: &[Vec<usize>]) -> Result<(), TrainError> {
        let places = order.iter().enumerate().flat_map(|(client, pictures)| {
            pictures.iter().enumerate().map(move |(position, picture)| (round, client, position, picture))
        });
        self.append("order.csv", files::csv(&[], places))
    }
}
