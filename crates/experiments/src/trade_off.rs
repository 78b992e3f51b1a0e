//! Accuracy under each defence against what the defence leaks to the best attacker.
//!
//! Accuracy is that of the trained models on held-out pictures. Leakage is the SSIM of an attacker's reconstruction of
//! a sample photograph that is alone in its update, at the initial weights and at the final weights of the training
//! under the same defence. The best attacker has the largest mean over photographs and seeds, regardless of its
//! knowledge and of the weights it attacks.

mod curve;
mod findings;
mod leakage;
mod live;

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, AttackMethod, Defence, ParamGroup};
use unmask_data::{
    CLASSES, Picture,
    datasets::{DataSet, Source},
    sample_photographs,
};
use unmask_simulation::{Config, ConfigError};

use self::leakage::{Leaks, Target, gathered, methods};
pub use self::live::{LiveTradeOff, OnPoint};
use crate::{
    attacks::matching_steps,
    catalogue::Scale,
    defences::{ComparedDefence, TRADE_OFF, TRADE_OFF_IN_SHORT},
    error::ExperimentError,
    report::Findings,
    run::{ExperimentEvent, ExperimentRun},
    store,
    study::{Case, Study},
    training::{TrainingRun, train},
};

/// The study for each data set: generated shapes, and CIFAR-10 with fewer cases if it is available.
pub(crate) fn studies(scale: Scale, has_cifar10: bool, study: &Study) -> Vec<Study> {
    let on = |source: Source, keeps: &dyn Fn(&Case) -> bool| {
        let mut study = study.clone();
        study.set.push(format!("data={source}"));
        study.cases.retain(|case| keeps(case));
        study
    };
    let is_on_photographs = |case: &Case| TRADE_OFF_IN_SHORT.iter().any(|defence| defence.key == case.key);
    match scale {
        Scale::Tiny => vec![on(Source::Generated, &|_| true)],
        Scale::Quick | Scale::Small if has_cifar10 => {
            vec![on(Source::Generated, &|_| true), on(Source::Cifar10, &is_on_photographs)]
        }
        Scale::Quick | Scale::Small => vec![on(Source::Generated, &|_| true)],
        Scale::Paper => vec![on(Source::Cifar10, &|_| true)],
    }
}

/// The cases of all data sets, as formulas name them.
pub(crate) fn cases() -> Vec<String> {
    let on = |source: Source, defences: &[ComparedDefence]| {
        defences.iter().map(|defence| format!("{source}/{}", defence.key)).collect::<Vec<_>>()
    };
    [on(Source::Generated, &TRADE_OFF), on(Source::Cifar10, &TRADE_OFF_IN_SHORT)].concat()
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
    study: Option<&'a Study>,
    methods: Vec<AttackMethod>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TrialResult {
    training: Option<TrainingRun>,
    leaks: Leaks,
}

struct Outcome<'a> {
    /// The first study has all cases.
    studies: &'a [Study],
    photographs: usize,
    initial: Vec<Leaks>,
    trained: Vec<StudyOutcome>,
}

struct StudyOutcome {
    data: String,
    config: Config,
    runs: Vec<TrainingRun>,
    leaks: Vec<Leaks>,
}

/// Attacks new models under each defence, trains them, and attacks them again.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>, study: &Study) -> Result<Option<Findings>, ExperimentError> {
    let photographs = photographs(run.request.scale)?;
    let studies = studies(run.request.scale, run.has_cifar10(), study);
    let trials = trials(run, study, &studies)?;
    run.plan(trials.iter().map(|trial| store::file(&trial.key)))?;
    let trials: Vec<Trial<'_>> =
        trials.into_iter().enumerate().filter(|(position, _)| run.takes(*position)).map(|(_, trial)| trial).collect();
    let settings = |trial: &Trial<'_>| {
        let names: Vec<&str> = photographs.iter().map(|(name, _)| name.as_str()).collect();
        let methods: Vec<&str> = trial.methods.iter().map(|method| method.name()).collect();
        let scale = run.request.scale;
        let tested = trial.study.map(|study| study.test_pictures);
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
    let outcome = outcome(run, &studies, photographs.len(), results.into_iter().flatten())?;
    findings::findings(run, &outcome).map(Some)
}

/// The sample photographs; only the first two at the tiny scale.
fn photographs(scale: Scale) -> Result<Vec<(String, Picture)>, ExperimentError> {
    let refused = |error: unmask_data::NotAPicture| ExperimentError::Attack {
        what: "the sample photographs".to_owned(),
        reason: error.to_string(),
    };
    let mut all = sample_photographs().map_err(refused)?;
    if scale == Scale::Tiny {
        all.truncate(2);
    }
    Ok(all)
}

/// Seed by seed, so that a partial run can already be compared.
fn trials<'a>(
    run: &ExperimentRun<'_, '_>,
    study: &'a Study,
    studies: &'a [Study],
) -> Result<Vec<Trial<'a>>, ExperimentError> {
    let first = run.request.seed;
    let mut trials = Vec::new();
    for seed in (first..).take(run.request.seeds(study).least as usize) {
        for trained in std::iter::once(None).chain(studies.iter().map(Some)) {
            for case in &trained.unwrap_or(study).cases {
                let config = trained.unwrap_or(study).config(case, seed, &[])?;
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
                    study: trained,
                });
            }
        }
    }
    Ok(trials)
}

fn architecture(config: &Config) -> Result<Architecture, ExperimentError> {
    Ok(Architecture::named(&config.model, CLASSES.len()).map_err(ConfigError::from)?)
}

/// `data` caches the sets loaded so far.
fn compute(
    run: &mut ExperimentRun<'_, '_>,
    trial: &Trial<'_>,
    photographs: &[(String, Picture)],
    data: &mut Vec<(Source, DataSet)>,
) -> Result<TrialResult, ExperimentError> {
    let (training, state) = match trial.study {
        None => (None, None),
        Some(study) => {
            let source = &trial.config.data;
            if !data.iter().any(|(loaded, _)| loaded == source) {
                data.push((source.clone(), run.request.load(source)?));
            }
            let Some((_, data)) = data.iter().find(|(loaded, _)| loaded == source) else {
                return Err(ExperimentError::TooFewPictures { name: source.to_string(), wanted: 1, found: 0 });
            };
            let (training, state) = train(run.trainer(), &trial.case.key, &trial.config, data, study.test_pictures)?;
            (Some(training), Some(state))
        }
    };
    let target = Target {
        key: &trial.key,
        data: trial.study.map(|_| trial.config.data.to_string()),
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
    studies: &'a [Study],
    photographs: usize,
    results: impl Iterator<Item = TrialResult>,
) -> Result<Outcome<'a>, ExperimentError> {
    let mut trained = Vec::new();
    for study in studies {
        let Some(case) = study.cases.first() else { continue };
        let config = study.config(case, run.request.seed, &[])?;
        trained.push(StudyOutcome { data: config.data.to_string(), config, runs: Vec::new(), leaks: Vec::new() });
    }
    let mut initial = Vec::new();
    for TrialResult { training, leaks } in results {
        let Some(training) = training else {
            initial.push(leaks);
            continue;
        };
        if let Some(study) = trained.iter_mut().find(|study| leaks.data.as_ref() == Some(&study.data)) {
            study.runs.push(training);
            study.leaks.push(leaks);
        }
    }
    Ok(Outcome { studies, photographs, initial, trained })
}
