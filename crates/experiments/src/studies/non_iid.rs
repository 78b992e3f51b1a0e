use super::settings::{PAPERS_RESNET, TINY_RESNET};
use crate::{
    catalogue::{About, Scale},
    defences::{EPS4_PRINTED, NONE, R02, R05, R08},
    figure::LineStyle,
    plan::{Case, Changes, TrainingPlans},
    request::Seeds,
    training::{MEASURED, TrainingStudy},
};

pub(super) static STUDY: TrainingStudy = TrainingStudy {
    about: About {
        name: "non-iid",
        title: "Accuracy with clients that see different classes",
        repeats: "FLRSP Fig. 7",
        question: "Do masks and noise cost a convolutional network more where each client knows other classes?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: MEASURED,
    },
    plans: TrainingPlans {
        config: include_str!("../../configs/non-iid.toml"),
        changes: Changes { tiny: TINY_RESNET, quick: &["rounds=20", "test-pictures=500"], paper: PAPERS_RESNET },
        cases,
        seeds: Seeds { least: 3, most: 8 },
        test_pictures: 10_000,
    },
    reported: None,
};

/// Each division of the classes under each defence.
fn cases(_: Scale) -> Vec<Case> {
    let compared = [NONE, R02, R05, R08, EPS4_PRINTED];
    let cases = |group, line, set: &'static [&'static str]| {
        compared.iter().map(move |defence| Case::under(defence).of_group(group, line, set))
    };
    let even = cases(("iid", "IID"), LineStyle::Solid, &["partition=iid"]);
    even.chain(cases(("a0.1", "α = 0.1"), LineStyle::Dashed, &["partition=dirichlet:0.1"])).collect()
}
