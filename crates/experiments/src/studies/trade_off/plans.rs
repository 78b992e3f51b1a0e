//! What is trained and attacked.

use unmask_core::Architecture;
use unmask_data::{CLASSES, Picture, datasets::Source, sample_photographs};
use unmask_simulation::{Config, ConfigError};

use crate::{
    catalogue::Scale,
    defences::{ComparedDefence, TRADE_OFF, TRADE_OFF_IN_SHORT, TRADE_OFF_LIVE},
    error::ExperimentError,
    plan::{Case, Changes, TrainingPlan, TrainingPlans},
    request::Seeds,
    studies::settings::{PAPERS_VIT_FROM_SCRATCH, TINY_VIT},
};

pub(super) static PLANS: TrainingPlans = TrainingPlans {
    config: include_str!("../../../configs/trade-off.toml"),
    changes: Changes { tiny: TINY_VIT, quick: &["rounds=60"], paper: PAPERS_VIT_FROM_SCRATCH },
    cases: |scale| match scale {
        Scale::Quick => Case::under_each(&TRADE_OFF_IN_SHORT),
        Scale::Tiny | Scale::Small | Scale::Paper => Case::under_each(&TRADE_OFF),
    },
    seeds: Seeds { least: 3, most: 3 },
    // All test pictures of the generated shapes, and as many photographs, so that both curves have the same number.
    test_pictures: 2_000,
};

/// What a lesson measures. Its settings do not depend on the scale, except for a smoke test.
pub(super) static LIVE: TrainingPlans = TrainingPlans {
    config: include_str!("../../../configs/trade-off-live.toml"),
    changes: Changes { tiny: TINY_VIT, quick: &[], paper: &[] },
    cases: |_| Case::under_each(&TRADE_OFF_LIVE),
    seeds: Seeds { least: 1, most: 1 },
    test_pictures: 500,
};

/// The plan for each data set: generated shapes, and CIFAR-10 with fewer cases if it is available.
pub(super) fn data_sets(scale: Scale, has_cifar10: bool) -> Vec<TrainingPlan> {
    let on = |source: Source, keeps: &dyn Fn(&Case) -> bool| {
        let mut plan = PLANS.at(scale);
        plan.set.push(format!("data={source}"));
        plan.cases.retain(|case| keeps(case));
        plan
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
pub(super) fn cases() -> Vec<String> {
    let on = |source: Source, defences: &[ComparedDefence]| {
        defences.iter().map(|defence| format!("{source}/{}", defence.key)).collect::<Vec<_>>()
    };
    [on(Source::Generated, &TRADE_OFF), on(Source::Cifar10, &TRADE_OFF_IN_SHORT)].concat()
}

/// The sample photographs; only the first two at the tiny scale.
pub(super) fn photographs(scale: Scale) -> Result<Vec<(String, Picture)>, ExperimentError> {
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

pub(super) fn architecture(config: &Config) -> Result<Architecture, ExperimentError> {
    Ok(Architecture::named(&config.model, CLASSES.len()).map_err(ConfigError::from)?)
}
