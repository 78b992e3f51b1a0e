//! Trainings of one config with every combination of some of its values, each with several seeds.
//!
//! [`run`] runs the trainings that are missing in the folder, and writes the results as `sweep.json` and `sweep.csv`,
//! and the page `sweep.html`. Each training is identical to `unmask train` with the same `--set`.

mod plan;
mod report;

use std::path::{Path, PathBuf};

use unmask_data::datasets::{DataSet, Source};
use unmask_model::device::OpenDevice;
use unmask_simulation::{Commit, Config};

pub use self::plan::{Axis, ParseAxisError};
use self::plan::{SweepCase, SweepPlan};
use crate::{
    error::ExperimentError,
    parts::{Machine, MergedRun, PartFolder, RunKind},
    run::{ExperimentEvent, OnEvent, Trainer, notify},
    store::Store,
    training::{TrainingRun, train},
};

#[derive(Debug, Clone)]
pub struct SweepRequest<'a> {
    /// A config in the form that `unmask train` reads.
    pub config: &'a str,
    /// `KEY=VALUE` overrides for all trainings.
    pub set: &'a [String],
    /// The keys that differ between trainings, with their values.
    pub vary: &'a [Axis],
    /// Number of seeds for each combination, counted up from the config's seed.
    pub seeds: u64,
    /// Folder of the CIFAR-10 files, if the config has none.
    pub cifar10: PathBuf,
    pub device: &'a OpenDevice,
    /// Number of threads; the config's if absent. Does not affect the results.
    pub threads: Option<usize>,
    /// The commit that the program was built from.
    pub commit: Option<Commit>,
    pub out: &'a Path,
}

/// Runs the missing trainings, writes the tables and the page, and returns the page's path. Returns `None` if
/// `on_event` ended the run before the last training. Finished trainings are saved in any case.
///
/// # Errors
/// [`ExperimentError`]: a config is invalid, pictures are missing, the folder has another sweep or cannot be written,
/// or a training failed.
pub fn run(request: &SweepRequest<'_>, on_event: OnEvent<'_>) -> Result<Option<PathBuf>, ExperimentError> {
    let plan = SweepPlan::new(request)?;
    let store = Store::of_run(request.out, &plan.run)?;
    match compute(request, &plan, &store, |_| true, on_event) {
        Err(ExperimentError::Stopped) => Ok(None),
        trained => report::write(request.out, &plan, &trained?, &machine(request, &plan)).map(Some),
    }
}

/// Runs the trainings of one part in the part's folder, ignoring [`SweepRequest::out`]. Use [`merge`](crate::merge())
/// to create the tables and the page from all parts. Returns `false` if `on_event` ended the run before the last
/// training.
///
/// # Errors
/// As [`run`].
pub fn run_part(request: &SweepRequest<'_>, part: &PartFolder, on_event: OnEvent<'_>) -> Result<bool, ExperimentError> {
    let request = SweepRequest { out: part.path(), ..request.clone() };
    let plan = SweepPlan::new(&request)?;
    part.record("", RunKind::Sweep, machine(&request, &plan), &plan.run, plan.files())?;
    let store = Store::of_run(part.path(), &plan.run)?;
    match compute(&request, &plan, &store, |position| part.part().takes(position), on_event) {
        Err(ExperimentError::Stopped) => Ok(false),
        trained => trained.map(|_| true),
    }
}

/// Writes tables and page of a merged run and returns the page's path.
///
/// # Errors
/// A file cannot be read or written, or does not match its part.
pub(crate) fn report(merged: &MergedRun<'_>) -> Result<PathBuf, ExperimentError> {
    let plan = SweepPlan::finished(merged.run()?)?;
    let store = Store::of_run(merged.folder, &plan.run)?;
    let kept = |case: &SweepCase| {
        let kept = store.get(&case.file, &case.settings())?;
        kept.ok_or_else(|| ExperimentError::OtherCase { path: store.file(&case.file) })
    };
    let trained = plan.cases.iter().map(kept).collect::<Result<Vec<TrainingRun>, _>>()?;
    report::write(merged.folder, &plan, &trained, &merged.machine())
}

fn machine(request: &SweepRequest<'_>, plan: &SweepPlan) -> Machine {
    Machine::here(threads(request, &plan.base))
}

fn threads(request: &SweepRequest<'_>, config: &Config) -> Option<usize> {
    request.threads.or(config.threads)
}

/// Runs the missing trainings at the positions that `takes` selects.
fn compute(
    request: &SweepRequest<'_>,
    plan: &SweepPlan,
    store: &Store,
    takes: impl Fn(usize) -> bool,
    on_event: OnEvent<'_>,
) -> Result<Vec<TrainingRun>, ExperimentError> {
    let mut trained = Vec::new();
    for (_, case) in plan.cases.iter().enumerate().filter(|(position, _)| takes(*position)) {
        trained.push((case, store.get::<TrainingRun>(&case.file, &case.settings())?));
    }
    let left = trained.iter().filter(|(_, kept)| kept.is_none()).count();
    notify(on_event, ExperimentEvent::Started { cases: trained.len(), left })?;
    let mut pictures = Pictures::default();
    for (case, place) in trained.iter_mut().filter(|(_, place)| place.is_none()) {
        notify(on_event, ExperimentEvent::CaseStarted { name: &case.name })?;
        let data = pictures.of(&case.config, &request.cifar10)?;
        let threads = threads(request, &case.config);
        let trainer = Trainer { device: request.device, threads, on_event: &mut *on_event };
        let (found, _) = train(trainer, &case.key, &case.config, data, case.config.test_pictures)?;
        store.put(&case.file, &case.settings(), &found)?;
        *place = Some(found);
        notify(on_event, ExperimentEvent::CaseFinished)?;
    }
    Ok(trained.into_iter().filter_map(|(_, found)| found).collect())
}

/// The pictures of the last training, because the next one usually has the same.
#[derive(Default)]
struct Pictures(Option<Loaded>);

struct Loaded {
    source: Source,
    folder: Option<PathBuf>,
    seed: u64,
    data: DataSet,
}

impl Pictures {
    fn of(&mut self, config: &Config, cifar10: &Path) -> Result<&DataSet, ExperimentError> {
        let Config { data: source, data_dir: folder, seed, .. } = config;
        let is_held = |held: &Loaded| (&held.source, &held.folder, held.seed) == (source, folder, *seed);
        let loaded = match self.0.take().filter(is_held) {
            Some(held) => held,
            None => Loaded {
                source: source.clone(),
                folder: folder.clone(),
                seed: *seed,
                data: DataSet::load(source, folder.as_deref().unwrap_or(cifar10), *seed)?,
            },
        };
        Ok(&self.0.insert(loaded).data)
    }
}
