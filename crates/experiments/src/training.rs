//! Experiments that train: each case with each seed, then figures, tables and claims.

mod claims;
mod findings;
mod run;

use unmask_data::datasets::DataSet;
use unmask_simulation::Config;

pub(crate) use self::run::TrainingRun;
use self::run::{TrainingContext, train};
use crate::{
    error::ExperimentError,
    report::Findings,
    request::Request,
    run::{Event, Run},
    study::{Case, Study},
};

/// Trains all cases with all seeds and says what came out; `None` if it was ended before.
pub(crate) fn run(run: &mut Run<'_, '_>, study: &Study) -> Result<Option<Findings>, ExperimentError> {
    let Some(trained) = train_all(run, study)? else { return Ok(None) };
    findings::findings(run, study, &trained).map(Some)
}

/// The config of one training of `study`.
fn config(request: &Request<'_>, study: &Study, case: &Case, seed: u64) -> Result<Config, ExperimentError> {
    Ok(study.config(case, seed, request.start().as_slice())?)
}

/// Seed by seed, so that what is finished can be compared even if the last seed is not.
fn train_all(run: &mut Run<'_, '_>, study: &Study) -> Result<Option<Vec<TrainingRun>>, ExperimentError> {
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
    if run.notify(Event::Started { parts: planned.len(), left }).is_break() {
        return Ok(None);
    }
    let mut data: Option<DataSet> = None;
    for ((case, seed, config), place) in planned.iter().zip(&mut trained) {
        if place.is_some() {
            continue;
        }
        let data = match &mut data {
            Some(data) => data,
            None => data.insert(run.request.load(&config.data)?),
        };
        if run.notify(Event::PartStarted { name: &format!("{}, seed {seed}", case.name) }).is_break() {
            return Ok(None);
        }
        let context = TrainingContext {
            data,
            device: run.request.device,
            threads: run.request.threads,
            test_pictures: study.test_pictures,
        };
        let Some(found) = train(case, config, context, &mut *run.on_event)? else { return Ok(None) };
        run.store.put(&run.part(&case.key, *seed), &settings(config, study), &found)?;
        *place = Some(found);
        if run.notify(Event::PartFinished).is_break() {
            return Ok(None);
        }
    }
    Ok(Some(trained.into_iter().flatten().collect()))
}

/// What decides the result of a training.
fn settings(config: &Config, study: &Study) -> (String, usize) {
    (config.to_toml(), study.test_pictures)
}
