//! The study of the trade-off.

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Defence, ParamGroup};
use unmask_data::{
    Picture,
    datasets::{DataSet, Source},
};
use unmask_simulation::{Config, ConfigError};

use super::{
    findings::findings,
    leakage::{Leaks, Target, gathered, methods},
    outcome::{DataOutcome, Outcome},
    plans::{PLANS, architecture, cases, data_sets, photographs},
};
use crate::{
    attacks::matching_steps,
    catalogue::{About, Scale},
    error::ExperimentError,
    metric::Metric,
    plan::{Case, TrainingPlan},
    report::Findings,
    request::ExperimentRequest,
    run::{ExperimentEvent, ExperimentRun},
    store,
    study::{Study, describe_plans},
    training::{TrainingRun, train},
};

pub(in crate::studies) static STUDY: TradeOff = TradeOff {
    about: About {
        name: "trade-off",
        title: "Accuracy beside what the best attacker sees",
        repeats: "RBW Fig. 5 beside FLRSP Figs. 8 to 12",
        question: "What does each defence cost in accuracy, and what does it leave to the best attacker?",
        takes_weights: false,
        adds_cifar10: true,
        metrics: &[Metric::Accuracy, Metric::Leak],
    },
};

pub(in crate::studies) struct TradeOff {
    about: About,
}

impl Study for TradeOff {
    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, scale: Scale) -> Option<TrainingPlan> {
        Some(PLANS.at(scale))
    }

    fn cases(&self) -> Vec<String> {
        cases()
    }

    fn describe(&self, request: &ExperimentRequest<'_>) -> Result<Option<String>, ConfigError> {
        describe_plans(request, &data_sets(request.scale, request.has_cifar10()))
    }

    /// Attacks new models under each defence, trains them, and attacks them again.
    fn run(&self, run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
        let photographs = photographs(run.request.scale)?;
        let (plan, plans) = (PLANS.at(run.request.scale), data_sets(run.request.scale, run.has_cifar10()));
        let trials = trials(run, &plan, &plans)?;
        run.plan(trials.iter().map(|trial| store::file(&trial.key)))?;
        let trials: Vec<Trial<'_>> = trials
            .into_iter()
            .enumerate()
            .filter(|(position, _)| run.takes(*position))
            .map(|(_, trial)| trial)
            .collect();
        let settings = |trial: &Trial<'_>| {
            let names: Vec<&str> = photographs.iter().map(|(name, _)| name.as_str()).collect();
            let methods: Vec<&str> = trial.methods.iter().map(|method| method.name()).collect();
            let scale = run.request.scale;
            let tested = trial.plan.map(|plan| plan.test_pictures);
            (trial.config.to_toml(), tested, methods.join(","), names.join(","), gathered(scale), matching_steps(scale))
        };
        let settings: Vec<_> = trials.iter().map(settings).collect();
        let mut results = Vec::new();
        for (trial, settings) in trials.iter().zip(&settings) {
            results.push(run.store.get::<TrialResult>(&trial.key, settings)?);
        }
        let left = results.iter().filter(|result| result.is_none()).count();
        run.notify(ExperimentEvent::Started { cases: trials.len(), left })?;
        let mut data = Vec::new();
        for ((trial, settings), result) in trials.iter().zip(&settings).zip(&mut results) {
            if result.is_some() {
                continue;
            }
            run.check_due(&trial.key)?;
            run.notify(ExperimentEvent::CaseStarted { name: &trial.name })?;
            let found = compute(run, trial, &photographs, &mut data)?;
            run.store.put(&trial.key, settings, &found)?;
            *result = Some(found);
            run.notify(ExperimentEvent::CaseFinished)?;
        }
        if run.is_part() {
            return Ok(None);
        }
        let outcome = outcome(run, &plans, photographs.len(), results.into_iter().flatten())?;
        findings(run, &outcome).map(Some)
    }
}

/// A training with attacks at its end, or only attacks at the initial weights.
#[derive(Debug)]
struct Trial<'a> {
    name: String,
    key: String,
    case: &'a Case,
    defence: Defence,
    config: Config,
    /// `None` if nothing is trained.
    plan: Option<&'a TrainingPlan>,
    methods: Vec<AttackMethod>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TrialResult {
    training: Option<TrainingRun>,
    leaks: Leaks,
}

/// Seed by seed, so that a partial run can already be compared.
fn trials<'a>(
    run: &ExperimentRun<'_, '_>,
    plan: &'a TrainingPlan,
    plans: &'a [TrainingPlan],
) -> Result<Vec<Trial<'a>>, ExperimentError> {
    let first = run.request.seed;
    let mut trials = Vec::new();
    for seed in (first..).take(run.request.seeds(plan.seeds).least as usize) {
        for trained in std::iter::once(None).chain(plans.iter().map(Some)) {
            for case in &trained.unwrap_or(plan).cases {
                let config = trained.unwrap_or(plan).config(case, seed, &[])?;
                let defence = config.defence;
                let (on, key) = match trained {
                    Some(_) => (format!(" on {}", config.data), config.data.to_string()),
                    None => (", fresh model".to_owned(), "initial".to_owned()),
                };
                // A search rarely finds anything on a trained model and takes a minute per picture. The small scale has
                // time for one only where closed forms have nothing to solve.
                let is_worth_it =
                    !matches!(run.request.scale, Scale::Quick | Scale::Small) || defence.fixes(ParamGroup::Position);
                let has_search = trained.is_none() && seed == first && is_worth_it;
                trials.push(Trial {
                    name: format!("{}{on}, seed {seed}", case.name),
                    key: run.file(&format!("{key}-{}", case.key), seed),
                    case,
                    defence,
                    methods: methods(architecture(&config)?, defence, has_search),
                    config,
                    plan: trained,
                });
            }
        }
    }
    Ok(trials)
}

/// `data` caches the sets loaded so far.
fn compute(
    run: &mut ExperimentRun<'_, '_>,
    trial: &Trial<'_>,
    photographs: &[(String, Picture)],
    data: &mut Vec<(Source, DataSet)>,
) -> Result<TrialResult, ExperimentError> {
    let (training, state) = match trial.plan {
        None => (None, None),
        Some(plan) => {
            let source = &trial.config.data;
            if !data.iter().any(|(loaded, _)| loaded == source) {
                data.push((source.clone(), run.request.load(source)?));
            }
            let Some((_, data)) = data.iter().find(|(loaded, _)| loaded == source) else {
                return Err(ExperimentError::TooFewPictures { name: source.to_string(), wanted: 1, found: 0 });
            };
            let (training, state) = train(run.trainer(), &trial.case.key, &trial.config, data, plan.test_pictures)?;
            (Some(training), Some(state))
        }
    };
    let target = Target {
        key: &trial.key,
        data: trial.plan.map(|_| trial.config.data.to_string()),
        case: &trial.case.key,
        defence: trial.defence,
        architecture: architecture(&trial.config)?,
        start: state.as_ref(),
        methods: &trial.methods,
        seed: trial.config.seed,
    };
    // Diverged weights give no update to attack.
    let leaks = match &training {
        Some(TrainingRun { diverged: Some(_), .. }) => target.nothing(),
        _ => target.attack(run, photographs)?,
    };
    Ok(TrialResult { training, leaks })
}

fn outcome<'a>(
    run: &ExperimentRun<'_, '_>,
    plans: &'a [TrainingPlan],
    photographs: usize,
    results: impl Iterator<Item = TrialResult>,
) -> Result<Outcome<'a>, ExperimentError> {
    let mut trained = Vec::new();
    for plan in plans {
        let Some(config) = plan.first_config(run.request.seed, &[])? else { continue };
        trained.push(DataOutcome { data: config.data.to_string(), config, runs: Vec::new(), leaks: Vec::new() });
    }
    let mut initial = Vec::new();
    for TrialResult { training, leaks } in results {
        let Some(training) = training else {
            initial.push(leaks);
            continue;
        };
        if let Some(outcome) = trained.iter_mut().find(|outcome| leaks.data.as_ref() == Some(&outcome.data)) {
            outcome.runs.push(training);
            outcome.leaks.push(leaks);
        }
    }
    Ok(Outcome { plans, photographs, initial, trained })
}
