use unmask_simulation::{Config, ConfigError};

use super::settings::{PAPERS_RATE, PAPERS_VIT, TINY_VIT};
use crate::{
    catalogue::{About, Scale},
    defences::{ALL, EPS1_PRINTED, EPS4_PRINTED, NONE, R0, R08_EMBEDDINGS, R095},
    plan::{Case, Changes, TrainingPlans},
    request::Seeds,
    training::{MEASURED, TrainingStudy},
};

pub(super) static STUDY: TrainingStudy = TrainingStudy {
    about: About {
        name: "vit-fine-tuned",
        title: "Accuracy of a fine-tuned ViT under FedSGD",
        repeats: "RBW Fig. 5, FLRSP Fig. 4",
        question: "How much accuracy does each defence cost when a pretrained model learns on?",
        takes_weights: true,
        adds_cifar10: false,
        metrics: MEASURED,
    },
    plans: TrainingPlans {
        config: include_str!("../../configs/vit-fine-tuned.toml"),
        changes: Changes { tiny: TINY_VIT, quick: &["rounds=15", "evaluate-every=5"], paper: PAPERS_VIT },
        cases,
        seeds: Seeds { least: 3, most: 8 },
        test_pictures: 10_000,
    },
    reported: None,
};

/// The comparison of both papers, FLRSP's noise exactly as printed, masks by group, and the learning rates that masks
/// are equivalent to by Eq. 12.
fn cases(scale: Scale) -> Vec<Case> {
    let also = [R0, R095, R08_EMBEDDINGS, EPS4_PRINTED, EPS1_PRINTED].iter().map(Case::under);
    let config_rate = if scale == Scale::Paper { PAPERS_RATE } else { 0.1 };
    // 1 - R^N of R = 0.5, 0.8 and 0.95 with five clients.
    let rates = [0.969, 0.672, 0.226].map(|factor| Case {
        key: format!("rate{factor}"),
        name: format!("no defence, rate x {factor}"),
        set: vec![format!("optimiser=sgd:{}", factor * config_rate)],
        ..Case::under(&NONE)
    });
    Case::under_each(&ALL).into_iter().chain(also.chain(rates).map(Case::without_curve)).collect()
}

/// The config of the training without a defence.
pub(super) fn undefended(scale: Scale, seed: u64) -> Result<Config, ConfigError> {
    STUDY.plans.at(scale).config(&Case::under(&NONE), seed, &[])
}
