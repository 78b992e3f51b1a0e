use super::settings::{PAPERS_RATE, PAPERS_RESNET, TINY_RESNET};
use crate::{
    catalogue::{About, Scale},
    defences::{ComparedDefence, EPS1_MATCHED, EPS4_MATCHED, MASKS_AND_NOISE, NONE, PRINTED, R02, R05, R08},
    figure::LineStyle,
    plan::{Case, Changes, TrainingPlans},
    request::Seeds,
    training::{MEASURED, Reported, TrainingStudy},
};

pub(super) static STUDY: TrainingStudy = TrainingStudy {
    about: About {
        name: "resnet-fedsgd",
        title: "Accuracy of a ResNet under FedSGD",
        repeats: "FLRSP Fig. 5",
        question: "Do masks cost a convolutional network more, and what does noise do to it?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: MEASURED,
    },
    plans: TrainingPlans {
        config: include_str!("../../configs/resnet-fedsgd.toml"),
        changes: Changes { tiny: TINY_RESNET, quick: &["rounds=20", "test-pictures=500"], paper: PAPERS_RESNET },
        cases,
        seeds: Seeds { least: 3, most: 8 },
        test_pictures: 10_000,
    },
    reported: Some(Reported {
        accuracy: reported,
        note: "FLRSP gives its accuracies below Figs. 9 to 11, after ten epochs of a ResNet34 pretrained on ImageNet. Compare the \
               differences to \"no defence\", not the accuracies.",
    }),
};

/// FLRSP's comparison with Adam, which learns fastest, and with the papers' SGD and noise as printed.
fn cases(scale: Scale) -> Vec<Case> {
    let optimiser = format!("optimiser=sgd:{}", if scale == Scale::Paper { PAPERS_RATE } else { 0.3 });
    let sgd = |defence: ComparedDefence| {
        Case::under(&defence).of_group(("sgd", "SGD"), LineStyle::Dashed, &[&optimiser]).without_curve()
    };
    let by_sgd = [NONE, R02, R05, R08].into_iter().chain(PRINTED).chain([EPS4_MATCHED, EPS1_MATCHED]);
    Case::under_each(&MASKS_AND_NOISE).into_iter().chain(by_sgd.map(sgd)).collect()
}

/// FLRSP gives them below the restored pictures in Figs. 9 to 11, for its one CNN after ten epochs.
fn reported(case: &str) -> Option<f64> {
    match case {
        "sgd/none" => Some(96.0),
        "sgd/r0.2" => Some(95.68),
        "sgd/r0.5" => Some(95.25),
        "sgd/r0.8" => Some(95.36),
        "sgd/eps1-printed" => Some(49.2),
        "sgd/eps4-printed" => Some(92.6),
        _ => None,
    }
}
