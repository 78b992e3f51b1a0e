//! The changes of a study at each scale.

use super::Seeds;
use crate::catalogue::{Experiment, Scale};

/// `KEY=VALUE` for each key of the small config that differs at `scale`.
pub(crate) fn set(experiment: Experiment, scale: Scale) -> Vec<String> {
    let set: &[&str] = match (scale, experiment) {
        (Scale::Small, _) | (Scale::Paper, Experiment::UpdateRatios) => &[],
        (Scale::Tiny, Experiment::ResnetFedavg) => {
            &["data=generated", "train-slice=0..16", "clients=2", "batch=4", "rounds=2", "test-pictures=8"]
        }
        (Scale::Tiny, Experiment::ResnetFedsgd | Experiment::NonIid) => &[
            "data=generated",
            "schedule=constant",
            "clients=2",
            "batch=2",
            "rounds=2",
            "evaluate-every=1",
            "test-pictures=8",
        ],
        (Scale::Tiny, _) => &[
            "model=vit_pico_patch4_16",
            "start=scratch",
            "data=generated",
            "schedule=constant",
            "train-slice=0..200",
            "clients=3",
            "batch=4",
            "rounds=4",
            "evaluate-every=2",
            "test-pictures=20",
        ],
        (Scale::Quick, Experiment::VitFineTuned | Experiment::Encrypted) => &["rounds=15", "evaluate-every=5"],
        (Scale::Quick, Experiment::VitFromScratch) => &["rounds=75", "evaluate-every=25"],
        (Scale::Quick, Experiment::ResnetFedsgd | Experiment::NonIid) => &["rounds=20", "test-pictures=500"],
        (Scale::Quick, Experiment::ResnetFedavg) => &["train-slice=0..400", "test-pictures=500"],
        (Scale::Quick, Experiment::TradeOff) => &["rounds=60"],
        (Scale::Quick, _) => &[],
        (Scale::Paper, Experiment::ResnetFedsgd | Experiment::NonIid) => RESNET,
        (Scale::Paper, Experiment::ResnetFedavg) => RESNET_FEDAVG,
        (Scale::Paper, Experiment::VitFromScratch | Experiment::TradeOff) => VIT_FROM_SCRATCH,
        (Scale::Paper, _) => VIT,
    };
    set.iter().map(|&set| set.to_owned()).collect()
}

/// RBW's SGD rate; FLRSP uses a tenth of it.
pub(super) const PAPERS_RATE: f64 = 0.0001;

/// Ten epochs of all of CIFAR-10 in batches of 32, at [`PAPERS_RATE`].
const VIT: &[&str] = &[
    "model=vit_small_patch16_224",
    // The pretrained weights replace this.
    "start=scratch",
    "train-slice=0..50000",
    "optimiser=sgd:0.0001",
    "schedule=constant",
    "batch=32",
    "epochs=10",
    "evaluate-every=313",
    "test-pictures=1000",
];

const VIT_FROM_SCRATCH: &[&str] = &[
    "model=vit_small_patch16_224",
    "train-slice=0..50000",
    "optimiser=sgd:0.0001",
    "schedule=constant",
    "batch=32",
    "epochs=10",
    "evaluate-every=313",
    "test-pictures=1000",
];

const RESNET: &[&str] = &[
    "model=resnet34",
    "train-slice=0..50000",
    "optimiser=sgd:0.0001",
    "schedule=constant",
    "batch=32",
    "epochs=10",
    "evaluate-every=313",
    "test-pictures=1000",
];

const RESNET_FEDAVG: &[&str] = &[
    "model=resnet34",
    "train-slice=0..50000",
    "rule=fedavg:epochs=1,rate=0.0001",
    "batch=32",
    "epochs=10",
    "evaluate-every=1",
    "test-pictures=1000",
];

pub(super) fn seeds(experiment: Experiment, scale: Scale) -> Seeds {
    match (scale, experiment) {
        (Scale::Paper, _) => Seeds::exactly(1),
        (Scale::Tiny | Scale::Quick, _) => Seeds::exactly(2),
        (Scale::Small, Experiment::Encrypted | Experiment::TradeOff) => Seeds::exactly(3),
        (Scale::Small, _) => Seeds { least: 3, most: 8 },
    }
}

pub(super) fn test_pictures(experiment: Experiment, scale: Scale) -> usize {
    match (scale, experiment) {
        (Scale::Tiny, _) => 40,
        (Scale::Quick, _) => 500,
        // All test pictures of the generated shapes, and as many photographs, so that both curves have the same number.
        (Scale::Small, Experiment::TradeOff) => 2_000,
        (Scale::Small | Scale::Paper, _) => 10_000,
    }
}
