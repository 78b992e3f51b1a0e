//! Training experiments: each case with its seeds, then figures, tables and claims.

mod comparison;
mod findings;
mod run;

use unmask_data::datasets::DataSet;
use unmask_simulation::Config;

use self::comparison::wide_cases;
pub(crate) use self::{
    comparison::{CaseRuns, Comparison, undefended},
    run::{TestPoint, TrainingRun, train},
};
use crate::{
    claim::conditions,
    error::ExperimentError,
    report::Findings,
    request::ExperimentRequest,
    run::{ExperimentEvent, ExperimentRun},
    store,
    study::{Case, Seeds, Study},
};

pub(crate) fn run(run: &mut ExperimentRun<'_, '_>, study: &Study) -> Result<Option<Findings>, ExperimentError> {
    let trained = train_all(run, study)?;
    if run.is_part() { Ok(None) } else { findings::findings(run, study, &trained).map(Some) }
}

fn config(request: &ExperimentRequest<'_>, study: &Study, case: &Case, seed: u64) -> Result<Config, ExperimentError> {
    Ok(study.config(case, seed, request.start().as_slice())?)
}

/// Trains seed by seed, so that a partial run can already be compared. Cases with intervals wider than their margins
/// get more seeds.
fn train_all(run: &mut ExperimentRun<'_, '_>, study: &Study) -> Result<Vec<TrainingRun>, ExperimentError> {
    let conditions = conditions(run.request.experiment)?;
    let (first, Seeds { least, most }) = (run.request.seed, run.request.seeds(study));
    let mut data = None;
    let planned: Vec<Planned<'_>> =
        (first..).take(least as usize).flat_map(|seed| study.cases.iter().map(move |case| (case, seed))).collect();
    run.plan(planned.iter().map(|(case, seed)| store::file(&run.file(&case.key, *seed))))?;
    let planned: Vec<Planned<'_>> =
        planned.into_iter().enumerate().filter(|(position, _)| run.takes(*position)).map(|(_, case)| case).collect();
    let mut trained =
        train_planned(run, study, &planned, &mut data, |cases, left| ExperimentEvent::Started { cases, left })?;
    for seed in (first..).take(most as usize).skip(least as usize) {
        let wide = wide_cases(study, &conditions, &trained);
        if wide.is_empty() {
            break;
        }
        let planned: Vec<Planned<'_>> = wide.into_iter().map(|case| (case, seed)).collect();
        trained
            .extend(train_planned(run, study, &planned, &mut data, |_, cases| ExperimentEvent::CasesAdded { cases })?);
    }
    Ok(trained)
}

type Planned<'a> = (&'a Case, u64);

/// Runs the missing trainings. `data` is loaded on first use. `begin` creates the event with the numbers of all cases
/// and of unfinished ones.
fn train_planned(
    run: &mut ExperimentRun<'_, '_>,
    study: &Study,
    planned: &[Planned<'_>],
    data: &mut Option<DataSet>,
    begin: fn(usize, usize) -> ExperimentEvent<'static>,
) -> Result<Vec<TrainingRun>, ExperimentError> {
    let mut trained = Vec::new();
    for &(case, seed) in planned {
        let config = config(run.request, study, case, seed)?;
        let kept = run.store.get::<TrainingRun>(&run.file(&case.key, seed), &settings(&config, study))?;
        trained.push((case, seed, config, kept));
    }
    let left = trained.iter().filter(|(_, _, _, kept)| kept.is_none()).count();
    run.notify(begin(planned.len(), left))?;
    for (case, seed, config, place) in &mut trained {
        if place.is_some() {
            continue;
        }
        let file = run.file(&case.key, *seed);
        run.check_due(&file)?;
        let data = match &mut *data {
            Some(data) => data,
            None => data.insert(run.request.load(&config.data)?),
        };
        run.notify(ExperimentEvent::CaseStarted { name: &format!("{}, seed {seed}", case.name) })?;
        let (found, _) = train(run.trainer(), &case.key, config, data, study.test_pictures)?;
        run.store.put(&file, &settings(config, study), &found)?;
        *place = Some(found);
        run.notify(ExperimentEvent::CaseFinished)?;
    }
    Ok(trained.into_iter().filter_map(|(_, _, _, found)| found).collect())
}

/// The settings that determine a training's result. The tag invalidates results that were saved without a first test.
fn settings(config: &Config, study: &Study) -> (String, usize, &'static str) {
    (config.to_toml(), study.test_pictures, "first test")
}
