//! Experiments that train: each case with each seed, then figures, tables and claims.

mod claims;
mod conditions;
mod findings;
mod trial;

use unmask_data::datasets::DataSet;
use unmask_simulation::Config;

use self::trial::{Sitting, train};
pub(crate) use self::{
    conditions::{check_weights, start},
    trial::Trained,
};
use crate::{
    bench::{Bench, Event, Findings},
    error::PapersError,
    study::{Case, Study},
};

/// Trains all cases with all seeds and says what came out; `None` if it was ended before.
pub(crate) fn run(bench: &mut Bench<'_, '_>, study: &Study) -> Result<Option<Findings>, PapersError> {
    let Some(trained) = train_all(bench, study)? else { return Ok(None) };
    findings::findings(bench, study, &trained).map(Some)
}

/// The config of one training of `study`.
pub(crate) fn config(bench: &Bench<'_, '_>, study: &Study, case: &Case, seed: u64) -> Result<Config, PapersError> {
    let start = start(bench.request)?;
    Ok(study.config(case, seed, start.as_slice())?)
}

/// Seed by seed, so that what is finished can be compared even if the last seed is not.
fn train_all(bench: &mut Bench<'_, '_>, study: &Study) -> Result<Option<Vec<Trained>>, PapersError> {
    let mut planned = Vec::new();
    for seed in bench.seeds(study.seeds)? {
        for case in &study.cases {
            planned.push((case, seed, config(bench, study, case, seed)?));
        }
    }
    let mut trained = Vec::new();
    for (case, seed, config) in &planned {
        trained.push(bench.kept.get::<Trained>(&bench.part(&case.key, *seed), &settings(config, study))?);
    }
    let left = trained.iter().filter(|trained| trained.is_none()).count();
    if bench.is_stopped(Event::Begins { parts: planned.len(), left }) {
        return Ok(None);
    }
    let mut data: Option<DataSet> = None;
    for ((case, seed, config), place) in planned.iter().zip(&mut trained) {
        if place.is_some() {
            continue;
        }
        let data = match &mut data {
            Some(data) => data,
            None => data.insert(bench.load(&config.data)?),
        };
        if bench.is_stopped(Event::Part { name: &format!("{}, seed {seed}", case.name) }) {
            return Ok(None);
        }
        let sitting = Sitting {
            data,
            device: bench.request.device,
            threads: bench.request.threads,
            test_pictures: study.test_pictures,
        };
        let Some(found) = train(case, config, sitting, &mut *bench.hear)? else { return Ok(None) };
        bench.kept.put(&bench.part(&case.key, *seed), &settings(config, study), &found)?;
        *place = Some(found);
        if bench.is_stopped(Event::Ends) {
            return Ok(None);
        }
    }
    Ok(Some(trained.into_iter().flatten().collect()))
}

/// What decides the result of a training.
fn settings(config: &Config, study: &Study) -> (String, usize) {
    (config.to_toml(), study.test_pictures)
}
