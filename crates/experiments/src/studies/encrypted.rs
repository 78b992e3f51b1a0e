use super::settings::{PAPERS_RATE, PAPERS_VIT, TINY_VIT};
use crate::{
    catalogue::{About, Scale},
    defences::{ENCRYPTED, NONE},
    figure::LineStyle,
    plan::{Case, Changes, TrainingPlans},
    request::Seeds,
    training::{MEASURED, Reported, TrainingStudy},
};

pub(super) static STUDY: TrainingStudy = TrainingStudy {
    about: About {
        name: "encrypted",
        title: "Accuracy with and without encryption",
        repeats: "Encrypted ViT Table I",
        question: "Does the relay, averaging cipher text, train the very same model?",
        takes_weights: true,
        adds_cifar10: false,
        metrics: MEASURED,
    },
    plans: TrainingPlans {
        config: include_str!("../../configs/encrypted.toml"),
        changes: Changes { tiny: TINY_VIT, quick: &["rounds=15", "evaluate-every=5"], paper: PAPERS_VIT },
        cases,
        seeds: Seeds { least: 3, most: 3 },
        test_pictures: 10_000,
    },
    reported: Some(Reported {
        accuracy: |_| Some(89.77),
        note: "The paper's 89.77 % is for a large ViT pretrained on ImageNet. Here the question is only whether both columns \
               are equal.",
    }),
};

/// With and without encryption, under both rules.
fn cases(scale: Scale) -> Vec<Case> {
    let plain = || Case { name: "plain".to_owned(), ..Case::under(&NONE) };
    let cipher = || Case {
        set: vec![format!("defence={}", ENCRYPTED.defence), "passphrase=correct horse battery staple".to_owned()],
        ..Case::under(&ENCRYPTED)
    };
    let rule = format!("rule=fedavg:epochs=1,rate={}", if scale == Scale::Paper { PAPERS_RATE } else { 0.05 });
    // Each client makes one pass over its pictures.
    let fedavg = |case: Case| {
        let set = [&rule, "schedule=constant", "rounds=1", "evaluate-every=1"];
        case.of_group(("fedavg", "FedAvg"), LineStyle::Dotted, &set).without_curve()
    };
    vec![plain(), cipher(), fedavg(plain()), fedavg(cipher())]
}
