//! A study that compares trainings, as data.

use unmask_data::datasets::DataSet;
use unmask_simulation::Config;

use super::{
    comparison::wide_cases,
    findings::{Reported, findings},
    run::{TrainingRun, train},
};
use crate::{
    catalogue::{About, Scale},
    claim::conditions,
    error::ExperimentError,
    metric::Metric,
    plan::{Case, TrainingPlan, TrainingPlans},
    report::Findings,
    request::Seeds,
    run::{ExperimentEvent, ExperimentRun},
    store,
    study::Study,
};

/// The metrics of every [`TrainingStudy`].
pub(crate) const MEASURED: &[Metric] = &[Metric::Accuracy, Metric::Early, Metric::Apart];

pub(crate) struct TrainingStudy {
    pub(crate) about: About,
    pub(crate) plans: TrainingPlans,
    pub(crate) reported: Option<Reported>,
}

impl Study for TrainingStudy {
    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, scale: Scale) -> Option<TrainingPlan> {
        Some(self.plans.at(scale))
    }

    fn run(&self, run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
        let plan = self.plans.at(run.request.scale);
        let trained = train_all(run, &plan)?;
        if run.is_part() {
            return Ok(None);
        }
        findings(run, &plan, &self.plans.at(Scale::Paper), self.reported.as_ref(), &trained).map(Some)
    }
}

/// Trains seed by seed, so that a partial run can already be compared. Cases with intervals wider than their margins
/// get more seeds.
fn train_all(run: &mut ExperimentRun<'_, '_>, plan: &TrainingPlan) -> Result<Vec<TrainingRun>, ExperimentError> {
    let conditions = conditions(run.request.experiment)?;
    let (first, Seeds { least, most }) = (run.request.seed, run.request.seeds(plan.seeds));
    let mut data = None;
    let planned: Vec<Planned<'_>> =
        (first..).take(least as usize).flat_map(|seed| plan.cases.iter().map(move |case| (case, seed))).collect();
    run.plan(planned.iter().map(|(case, seed)| store::file(&run.file(&case.key, *seed))))?;
    let planned: Vec<Planned<'_>> =
        planned.into_iter().enumerate().filter(|(position, _)| run.takes(*position)).map(|(_, case)| case).collect();
    let mut trained =
        train_planned(run, plan, &planned, &mut data, |cases, left| ExperimentEvent::Started { cases, left })?;
    for seed in (first..).take(most as usize).skip(least as usize) {
        let wide = wide_cases(plan, &conditions, &trained);
        if wide.is_empty() {
            break;
        }
        let planned: Vec<Planned<'_>> = wide.into_iter().map(|case| (case, seed)).collect();
        trained
            .extend(train_planned(run, plan, &planned, &mut data, |_, cases| ExperimentEvent::CasesAdded { cases })?);
    }
    Ok(trained)
}

type Planned<'a> = (&'a Case, u64);

/// Runs the missing trainings. `data` is loaded on first use. `begin` creates the event with the numbers of all cases
/// and of unfinished ones.
fn train_planned(
    run: &mut ExperimentRun<'_, '_>,
    plan: &TrainingPlan,
    planned: &[Planned<'_>],
    data: &mut Option<DataSet>,
    begin: fn(usize, usize) -> ExperimentEvent<'static>,
) -> Result<Vec<TrainingRun>, ExperimentError> {
    let (start, mut trained) = (run.request.start(), Vec::new());
    for &(case, seed) in planned {
        let config = plan.config(case, seed, start.as_slice())?;
        let kept = run.store.get::<TrainingRun>(&run.file(&case.key, seed), &settings(&config, plan))?;
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
        let (found, _) = train(run.trainer(), &case.key, config, data, plan.test_pictures)?;
        run.store.put(&file, &settings(config, plan), &found)?;
        *place = Some(found);
        run.notify(ExperimentEvent::CaseFinished)?;
    }
    Ok(trained.into_iter().filter_map(|(_, _, _, found)| found).collect())
}

/// The settings that determine a training's result. The tag invalidates results that were saved without a first test.
fn settings(config: &Config, plan: &TrainingPlan) -> (String, usize, &'static str) {
    (config.to_toml(), plan.test_pictures, "first test")
}
