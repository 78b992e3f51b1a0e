//! Experiments that train: each case with each seed, then figures, tables and claims.

mod claims;
mod findings;
mod run;

use unmask_data::datasets::DataSet;
use unmask_simulation::Config;

pub(crate) use self::{
    claims::{CaseRuns, Comparison, claims},
    run::{TrainingRun, train},
};
use crate::{
    error::ExperimentError,
    report::Findings,
    request::ExperimentRequest,
    run::{ExperimentEvent, ExperimentRun},
    study::{Case, Study},
};

/// Trains all cases with all seeds and says what came out.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>, study: &Study) -> Result<Findings, ExperimentError> {
    let trained = train_all(run, study)?;
    findings::findings(run, study, &trained)
}

/// The config of one training of `study`.
fn config(request: &ExperimentRequest<'_>, study: &Study, case: &Case, seed: u64) -> Result<Config, ExperimentError> {
    Ok(study.config(case, seed, request.start().as_slice())?)
}

/// Seed by seed, so that what is finished can be compared even if the last seed is not.
fn train_all(run: &mut ExperimentRun<'_, '_>, study: &Study) -> Result<Vec<TrainingRun>, ExperimentError> {
    let mut planned = Vec::new();
    for seed in (run.request.seed..).take(run.request.seed_count(study) as usize) {
        for case in &study.cases {
            planned.push((case, seed, config(run.request, study, case, seed)?));
        }
    }
    let mut trained = Vec::new();
    for (case, seed, config) in &planned {
        trained.push(run.store.get::<TrainingRun>(&run.part(&case.key, *seed), &settings(config, study))?);
    }
    let left = trained.iter().filter(|trained| trained.is_none()).count();
    run.notify(ExperimentEvent::Started { parts: planned.len(), left })?;
    let mut data: Option<DataSet> = None;
    for ((case, seed, config), place) in planned.iter().zip(&mut trained) {
        if place.is_some() {
            continue;
        }
        let data = match &mut data {
            Some(data) => data,
            None => data.insert(run.request.load(&config.data)?),
        };
        run.notify(ExperimentEvent::PartStarted { name: &format!("{}, seed {seed}", case.name) })?;
        let (found, _) = train(run, case, config, data, study.test_pictures)?;
        run.store.put(&run.part(&case.key, *seed), &settings(config, study), &found)?;
        *place = Some(found);
        run.notify(ExperimentEvent::PartFinished)?;
    }
    Ok(trained.into_iter().flatten().collect())
}

/// What decides the result of a training.
fn settings(config: &Config, study: &Study) -> (String, usize) {
    (config.to_toml(), study.test_pictures)
}
