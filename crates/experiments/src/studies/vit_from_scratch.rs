use super::settings::{PAPERS_VIT_FROM_SCRATCH, TINY_VIT};
use crate::{
    catalogue::{About, Scale},
    defences::{ALL, ComparedDefence, R02, R05, R08},
    figure::{LineStyle, SeriesStyle},
    plan::{Case, Changes, TrainingPlans},
    request::Seeds,
    training::{MEASURED, TrainingStudy},
};

pub(super) static STUDY: TrainingStudy = TrainingStudy {
    about: About {
        name: "vit-from-scratch",
        title: "Accuracy of a ViT from scratch under FedSGD",
        repeats: "RBW Fig. 5, FLRSP Fig. 4",
        question: "How much accuracy does each defence cost when a model starts from random weights?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: MEASURED,
    },
    plans: TrainingPlans {
        config: include_str!("../../configs/vit-from-scratch.toml"),
        changes: Changes { tiny: TINY_VIT, quick: &["rounds=75", "evaluate-every=25"], paper: PAPERS_VIT_FROM_SCRATCH },
        cases,
        seeds: Seeds { least: 3, most: 8 },
        test_pictures: 10_000,
    },
    reported: None,
};

/// The comparison of both papers, and masks that last an epoch, as in RBW.
fn cases(_: Scale) -> Vec<Case> {
    let an_epoch = |masked: &ComparedDefence| {
        let case = Case::under(masked);
        Case {
            key: masked.key.replacen('r', "e", 1),
            name: format!("{}, one mask an epoch", case.name),
            style: SeriesStyle { line: LineStyle::Dotted, ..case.style },
            set: [case.set, vec!["masks=epoch".to_owned()]].concat(),
            has_curve: false,
        }
    };
    Case::under_each(&ALL).into_iter().chain([R02, R05, R08].iter().map(an_epoch)).collect()
}
