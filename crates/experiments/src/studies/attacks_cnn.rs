use unmask_core::{
    Architecture, AttackMethod, BlockKind, LenetConfig, ResnetConfig, ResnetPreset, ResnetSpec, Rule, Stem,
};

use crate::{
    attacks::{AttackStudy, MASKS, NONE, PATIENT, Panel, PanelAttack, PapersPanel, Weights},
    catalogue::{About, Scale},
    metric::Metric,
};

pub(super) static STUDY: AttackStudy = AttackStudy {
    about: About {
        name: "attacks-cnn",
        title: "Inverting Gradients against convolutional networks",
        repeats: "FLRSP Figs. 9 to 12",
        question: "What does a search for the picture find under masks and noise, with the mask and without?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: &[Metric::Ssim, Metric::Seen, Metric::SeedSsim],
    },
    panels,
    notes,
    papers: Some(PapersPanel { key: "resnet", reported }),
};

const SEARCH: PanelAttack =
    PanelAttack::Pictures { naive: AttackMethod::Gradients, aware: Some(AttackMethod::GradientsAware) };

const MASKS_AND_NOISE: &[&str] = &["none", "r0.2", "r0.5", "r0.8", "eps4", "eps2", "eps1"];
/// Masks, and noise exactly as printed: without clipping, and once with a small delta.
const MASKS_AND_PRINTED: &[&str] =
    &["none", "r0.2", "r0.5", "r0.8", "eps4-printed", "eps2-printed", "eps1-printed", "eps4-delta-1e-5-printed"];

const TRAINED: Weights = Weights::Trained { key: "trained", set: &[], words: "after training" };
const UNEVEN: Weights = Weights::Trained {
    key: "uneven",
    set: &["partition=dirichlet:0.1"],
    words: "after training on shards of few classes each",
};
/// A wide ResNet's round takes fifty times as long as a LeNet's.
const BRIEFLY: Weights = Weights::Trained { key: "brief", set: &["rounds=100"], words: "after a brief training" };

/// LeNets, which Inverting Gradients can invert, and ResNets, which the paper attacked.
fn panels(scale: Scale) -> Vec<Panel> {
    let steps = match scale {
        Scale::Quick => 150,
        Scale::Tiny | Scale::Small => 300,
        Scale::Paper => 4800,
    };
    let search = |key, title, model, weights, defences| Panel {
        weights,
        iterations: Some(steps),
        ..Panel::new(key, title, model, SEARCH, defences)
    };
    // A trained model's gradient changes faster with the picture, so the steps are smaller.
    let trained = |panel: Panel| Panel { step: Some(0.05), iterations: Some(2 * steps), ..panel };
    let lenet = |width, side| Architecture::Lenet(LenetConfig { width, side, classes: 10 });
    let (narrow, wide, small_narrow, small_wide) = match scale {
        // The paper's width and about three times that, also on fewer pixels.
        Scale::Tiny => (lenet(2, 12), lenet(3, 12), lenet(2, 8), lenet(3, 8)),
        Scale::Quick | Scale::Small | Scale::Paper => (lenet(12, 32), lenet(32, 32), lenet(12, 16), lenet(32, 16)),
    };
    let twice = |panel: Panel| Panel { draws: 2, ..panel };
    let title = "Inverting Gradients";
    let mut panels = vec![
        twice(search("lenet12", title, narrow, Weights::Initial, MASKS_AND_NOISE)),
        twice(search("lenet32", title, wide, Weights::Initial, MASKS_AND_NOISE)),
        trained(twice(search("lenet12-trained", title, narrow, TRAINED, MASKS_AND_NOISE))),
        trained(twice(search("lenet32-trained", title, wide, TRAINED, MASKS_AND_NOISE))),
        trained(search("lenet32-uneven", title, wide, UNEVEN, NONE)),
        search("lenet12-wide", title, narrow, Weights::Wide, MASKS),
        search("lenet32-wide", title, wide, Weights::Wide, MASKS),
        search("lenet12-16px", title, small_narrow, Weights::Initial, MASKS),
        search("lenet32-16px", title, small_wide, Weights::Initial, MASKS),
        // Here the naive search sees something through masks and noise, so they can be compared.
        Panel { draws: 3, ..search("lenet12-16px-wide", title, small_narrow, Weights::Wide, MASKS_AND_PRINTED) },
        search("lenet32-16px-wide", title, small_wide, Weights::Wide, MASKS),
        Panel {
            rule: Rule::FedAvg { epochs: 5, rate: 0.001 },
            ..search(
                "lenet32-fedavg",
                "Inverting Gradients on the change of the weights over five local steps",
                wide,
                Weights::Initial,
                MASKS,
            )
        },
        Panel {
            batch: 2,
            pictures: 10,
            ..search("lenet32-batch", "Inverting Gradients on two pictures", wide, Weights::Initial, NONE)
        },
        Panel {
            iterations: Some(PATIENT),
            pictures: 1,
            ..search(
                "lenet32-patient",
                "Inverting Gradients with the papers’ 24,000 steps",
                wide,
                Weights::Initial,
                &["none", "r0.2", "eps4-printed"],
            )
        },
    ];
    match scale {
        // A wide ResNet takes too long.
        Scale::Quick => {}
        Scale::Tiny => panels.push(search("resnet", title, ResnetPreset::Nano.into(), Weights::Initial, NONE)),
        Scale::Small => {
            let resnet = |key, weights| Panel {
                pictures: 2,
                iterations: Some(400),
                ..search(key, title, wide_resnet(), weights, NONE)
            };
            panels.extend([resnet("resnet", Weights::Initial), resnet("resnet-trained", BRIEFLY)]);
        }
        Scale::Paper => {
            let model = ResnetPreset::Resnet34.into();
            panels.push(Panel {
                iterations: Some(PATIENT),
                ..search("resnet", title, model, Weights::Initial, MASKS_AND_PRINTED)
            });
        }
    }
    panels
}

/// Four times as wide as `resnet_nano`, whose gradients reveal too little of the picture, and one stage shorter.
fn wide_resnet() -> Architecture {
    let stages = [(64, 1), (128, 1), ResnetConfig::NO_STAGE, ResnetConfig::NO_STAGE];
    let config = ResnetConfig { stem: Stem::Three, block: BlockKind::Basic, stages };
    Architecture::Resnet(ResnetSpec { config, classes: 10, side: 32 })
}

fn notes() -> Vec<String> {
    [
        "FLRSP's four numbers in each row are for its four pictures, against a pretrained ResNet34 at 224 x 224 pixels.",
        "A LeNet is the small network of Deep Leakage from Gradients, with sigmoids and without batch norm. Batch norm of a ResNet \
         uses the moments of the one picture, as in a client's training step.",
        "A search returns the picture it started from if no other explains the update better by a hundredth, and it ends before \
         its last step if it makes no more progress. Naive searches at usual weights do both.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// SSIM of Inverting Gradients against ResNet34 at batch 1 for four pictures (FLRSP Figs. 9 to 11).
fn reported(defence: &str) -> Option<[f64; 4]> {
    Some(match defence {
        "none" => [0.789, 0.746, 0.868, 0.830],
        "eps1-printed" => [0.087, 0.101, 0.677, 0.772],
        "eps4-printed" => [0.061, 0.110, 0.826, 0.844],
        "r0.2" => [0.237, 0.122, 0.160, 0.080],
        "r0.5" => [0.079, 0.005, 0.097, 0.050],
        "r0.8" => [0.017, 0.030, 0.010, 0.026],
        _ => return None,
    })
}
