use crate::{
    catalogue::{About, Scale},
    defences::{MASKS_AND_NOISE, PRINTED},
    plan::{Case, Changes, TrainingPlans},
    request::Seeds,
    training::{MEASURED, TrainingStudy},
};

pub(super) static STUDY: TrainingStudy = TrainingStudy {
    about: About {
        name: "resnet-fedavg",
        title: "Accuracy of a ResNet under FedAvg",
        repeats: "FLRSP Fig. 6",
        question: "Is it the same where weights travel instead of gradients?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: MEASURED,
    },
    plans: TrainingPlans {
        config: include_str!("../../configs/resnet-fedavg.toml"),
        changes: Changes {
            tiny: &["data=generated", "train-slice=0..16", "clients=2", "batch=4", "rounds=2", "test-pictures=8"],
            quick: &["train-slice=0..400", "test-pictures=500"],
            paper: &[
                "model=resnet34",
                "train-slice=0..50000",
                "rule=fedavg:epochs=1,rate=0.0001",
                "batch=32",
                "epochs=10",
                "evaluate-every=1",
                "test-pictures=1000",
            ],
        },
        cases,
        seeds: Seeds { least: 3, most: 8 },
        test_pictures: 10_000,
    },
    reported: None,
};

/// FLRSP's comparison, with its noise clipped and as printed.
fn cases(_: Scale) -> Vec<Case> {
    let printed = PRINTED.iter().map(|noise| Case::under(noise).without_curve());
    Case::under_each(&MASKS_AND_NOISE).into_iter().chain(printed).collect()
}
