//! What each defence costs in accuracy beside what it leaves to the best attacker.
//!
//! Accuracy is that of the trained models on held-out pictures. Leakage is the SSIM of what an attacker makes of a sample
//! photograph, alone in its update, at the initial weights and at those the training under this very defence ended with. The
//! best attacker is the one whose mean over photographs and seeds is the largest, whatever it knows and whenever it strikes.

mod curve;
mod findings;
mod leakage;

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, AttackMethod, Defence, ParamGroup};
use unmask_data::{
    CLASSES, Picture,
    datasets::{DataSet, Source},
    sample_photographs,
};
use unmask_simulation::{Config, ConfigError};

use self::leakage::{Leaks, Target, gathered, methods};
use crate::{
    attacks::matching_steps,
    catalogue::Scale,
    defences::{ComparedDefence, TRADE_OFF, TRADE_OFF_ON_PHOTOGRAPHS},
    error::ExperimentError,
    report::Findings,
    request::ExperimentRequest,
    run::{ExperimentEvent, ExperimentRun},
    study::{Case, Study},
    training::{TrainingRun, train},
};

/// The study on each data set: on generated shapes, and on CIFAR-10 where its folder is there, with fewer cases.
pub(crate) fn studies(request: &ExperimentRequest<'_>, study: &Study) -> Vec<Study> {
    let on = |source: Source, keeps: &dyn Fn(&Case) -> bool| {
        let mut study = study.clone();
        study.set.push(format!("data={source}"));
        study.cases.retain(|case| keeps(case));
        study
    };
    let is_on_photographs = |case: &Case| TRADE_OFF_ON_PHOTOGRAPHS.iter().any(|defence| defence.key == case.key);
    match request.scale {
        Scale::Tiny => vec![on(Source::Generated, &|_| true)],
        Scale::Small if request.cifar10.is_dir() => {
            vec![on(Source::Generated, &|_| true), on(Source::Cifar10, &is_on_photographs)]
        }
        Scale::Small => vec![on(Source::Generated, &|_| true)],
        Scale::Paper => vec![on(Source::Cifar10, &|_| true)],
    }
}

/// The cases of all data sets, as formulas name them.
pub(crate) fn cases() -> Vec<String> {
    let on = |source: Source, defences: &[ComparedDefence]| {
        defences.iter().map(|defence| format!("{source}-{}", defence.key)).collect::<Vec<_>>()
    };
    [on(Source::Generated, &TRADE_OFF), on(Source::Cifar10, &TRADE_OFF_ON_PHOTOGRAPHS)].concat()
}

/// A training and what attackers see at its end, or what they see before any.
#[derive(Debug)]
struct Part<'a> {
    name: String,
    key: String,
    case: &'a Case,
    defence: Defence,
    config: Config,
    /// Absent where nothing is trained.
    study: Option<&'a Study>,
    methods: Vec<AttackMethod>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PartResult {
    training: Option<TrainingRun>,
    leaks: Leaks,
}

/// All that was found, by the data sets of the studies.
struct Outcome<'a> {
    /// The first is on all cases.
    studies: &'a [Study],
    photographs: usize,
    /// At initial weights.
    initial: Vec<Leaks>,
    /// By study.
    trained: Vec<StudyOutcome>,
}

struct StudyOutcome {
    data: String,
    config: Config,
    runs: Vec<TrainingRun>,
    leaks: Vec<Leaks>,
}

/// Attacks fresh models under each defence, trains them, and attacks them again.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>, study: &Study) -> Result<Findings, ExperimentError> {
    let photographs = photographs(run.request.scale)?;
    let studies = studies(run.request, study);
    let parts = parts(run, study, &studies)?;
    let settings = |part: &Part<'_>| {
        let names: Vec<&str> = photographs.iter().map(|(name, _)| name.as_str()).collect();
        let methods: Vec<&str> = part.methods.iter().map(|method| method.name()).collect();
        let scale = run.request.scale;
        let tested = part.study.map(|study| study.test_pictures);
        (part.config.to_toml(), tested, methods.join(","), names.join(","), gathered(scale), matching_steps(scale))
    };
    let settings: Vec<_> = parts.iter().map(settings).collect();
    let mut results = Vec::new();
    for (part, settings) in parts.iter().zip(&settings) {
        results.push(run.store.get::<PartResult>(&part.key, settings)?);
    }
    let left = results.iter().filter(|result| result.is_none()).count();
    run.notify(ExperimentEvent::Started { parts: parts.len(), left })?;
    let mut data = Vec::new();
    for ((part, settings), result) in parts.iter().zip(&settings).zip(&mut results) {
        if result.is_some() {
            continue;
        }
        run.notify(ExperimentEvent::PartStarted { name: &part.name })?;
        let found = compute(run, part, &photographs, &mut data)?;
        run.store.put(&part.key, settings, &found)?;
        *result = Some(found);
        run.notify(ExperimentEvent::PartFinished)?;
    }
    let outcome = outcome(run, &studies, photographs.len(), results.into_iter().flatten())?;
    findings::findings(run, &outcome)
}

/// The sample photographs; of the tiny scale the first two.
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

/// Seed by seed, so that what is finished can be compared even if the last seed is not.
fn parts<'a>(
    run: &ExperimentRun<'_, '_>,
    study: &'a Study,
    studies: &'a [Study],
) -> Result<Vec<Part<'a>>, ExperimentError> {
    let first = run.request.seed;
    let mut parts = Vec::new();
    for seed in (first..).take(run.request.seeds(study).least as usize) {
        for trained in std::iter::once(None).chain(studies.iter().map(Some)) {
            for case in &trained.unwrap_or(study).cases {
                let config = trained.unwrap_or(study).config(case, seed, &[])?;
                let defence = config.defence;
                let (on, key) = match trained {
                    Some(_) => (format!(" on {}", config.data), config.data.to_string()),
                    None => (", fresh model".to_owned(), "initial".to_owned()),
                };
                // A search seldom finds anything on a trained model, and takes a minute for each picture: the small scale has
                // time for one only where closed forms have nothing to solve.
                let is_worth_it = run.request.scale != Scale::Small || defence.fixes(ParamGroup::Position);
                let has_search = trained.is_none() && seed == first && is_worth_it;
                parts.push(Part {
                    name: format!("{}{on}, seed {seed}", case.name),
                    key: run.part(&format!("{key}-{}", case.key), seed),
                    case,
                    defence,
                    methods: methods(architecture(&config)?, defence, has_search),
                    config,
                    study: trained,
                });
            }
        }
    }
    Ok(parts)
}

fn architecture(config: &Config) -> Result<Architecture, ExperimentError> {
    Ok(Architecture::named(&config.model, CLASSES.len()).map_err(ConfigError::from)?)
}

/// `data` are the sets that were loaded so far.
fn compute(
    run: &mut ExperimentRun<'_, '_>,
    part: &Part<'_>,
    photographs: &[(String, Picture)],
    data: &mut Vec<(Source, DataSet)>,
) -> Result<PartResult, ExperimentError> {
    let (training, state) = match part.study {
        None => (None, None),
        Some(study) => {
            let source = &part.config.data;
            if !data.iter().any(|(loaded, _)| loaded == source) {
                data.push((source.clone(), run.request.load(source)?));
            }
            let Some((_, data)) = data.iter().find(|(loaded, _)| loaded == source) else {
                return Err(ExperimentError::TooFewPictures { name: source.to_string(), wanted: 1, found: 0 });
            };
            let (training, state) = train(run, part.case, &part.config, data, study.test_pictures)?;
            (Some(training), Some(state))
        }
    };
    let target = Target {
        key: &part.key,
        data: part.study.map(|_| part.config.data.to_string()),
        case: &part.case.key,
        defence: part.defence,
        architecture: architecture(&part.config)?,
        start: state.as_ref(),
        methods: &part.methods,
        seed: part.config.seed,
    };
    // Weights that grew beyond all bounds give no update.
    let leaks = match &training {
        Some(TrainingRun { diverged: Some(_), .. }) => target.nothing(),
        _ => target.attack(run, photographs)?,
    };
    Ok(PartResult { training, leaks })
}

fn outcome<'a>(
    run: &ExperimentRun<'_, '_>,
    studies: &'a [Study],
    photographs: usize,
    results: impl Iterator<Item = PartResult>,
) -> Result<Outcome<'a>, ExperimentError> {
    let mut trained = Vec::new();
    for study in studies {
        let Some(case) = study.cases.first() else { continue };
        let config = study.config(case, run.request.seed, &[])?;
        trained.push(StudyOutcome { data: config.data.to_string(), config, runs: Vec::new(), leaks: Vec::new() });
    }
    let mut initial = Vec::new();
    for PartResult { training, leaks } in results {
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
