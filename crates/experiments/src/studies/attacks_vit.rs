use unmask_core::{Architecture, AttackMethod, InitOptions, VitPreset};

use super::vit_fine_tuned;
use crate::{
    attacks::{AttackStudy, MASKS, NONE, Panel, PanelAttack, Weights, matching_steps},
    catalogue::{About, Scale},
    metric::Metric,
};

pub(super) static STUDY: AttackStudy = AttackStudy {
    about: About {
        name: "attacks-vit",
        title: "Attacks against a ViT",
        repeats: "RBW Fig. 4, FLRSP Fig. 8, Encrypted ViT Fig. 3",
        question: "What do embedding inversion and APRIL see under masks and noise, with the mask and without?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: &[Metric::Ssim, Metric::Seen, Metric::SeedSsim, Metric::Told],
    },
    panels,
    notes,
    papers: None,
};

const MATCHING: PanelAttack =
    PanelAttack::Pictures { naive: AttackMethod::Matching, aware: Some(AttackMethod::MatchingAware) };
const EMBEDDING: PanelAttack =
    PanelAttack::Pictures { naive: AttackMethod::Embedding, aware: Some(AttackMethod::EmbeddingAware) };
const APRIL: PanelAttack = PanelAttack::Pictures { naive: AttackMethod::April, aware: Some(AttackMethod::AprilAware) };

const FINE_TUNED: Weights = Weights::FineTuned { config: vit_fine_tuned::undefended };

/// Number of pictures for token matching, which is slow.
const MATCHED: usize = 5;

fn panels(scale: Scale) -> Vec<Panel> {
    let (model, patch8, searched) = match scale {
        Scale::Tiny => (VitPreset::Pico, VitPreset::Pico, VitPreset::Pico),
        Scale::Quick | Scale::Small => (VitPreset::Lab, VitPreset::LabPatch8, VitPreset::Nano),
        Scale::Paper => (VitPreset::Small, VitPreset::SmallPatch32, VitPreset::Small),
    };
    let [model, patch8, searched] = [model, patch8, searched].map(Architecture::from);
    let all = &["none", "r0.2", "r0.5", "r0.8", "r0.8-embeddings", "fixed", "eps4", "eps2", "eps1", "encrypted"];
    let one = |naive| PanelAttack::Pictures { naive, aware: None };
    let matching = |key, title, weights, defences| Panel {
        weights,
        iterations: Some(matching_steps(scale)),
        pictures: MATCHED,
        ..Panel::new(key, title, searched, MATCHING, defences)
    };
    let april = |key, title, weights, defences| Panel {
        weights,
        ..Panel::new(key, title, model.with_april_block(true), APRIL, defences)
    };
    vec![
        Panel::new("embedding", "Embedding inversion", model, EMBEDDING, all),
        april("april", "APRIL, on the block that it needs", Weights::Initial, all),
        april("april-narrow", "APRIL, on that block drawn as narrow as others", Weights::NarrowApril, MASKS),
        Panel::new("april-standard", "APRIL, on a standard block", model, APRIL, NONE),
        Panel::new(
            "completion",
            "Low-rank completion, beside embedding inversion",
            patch8,
            PanelAttack::Pictures { naive: AttackMethod::Embedding, aware: Some(AttackMethod::Completion) },
            MASKS,
        ),
        matching("matching", "Token matching, a search through the model", Weights::Initial, &["none", "r0.5"]),
        Panel {
            weights: FINE_TUNED,
            ..Panel::new(
                "embedding-trained",
                "Embedding inversion",
                searched,
                EMBEDDING,
                &["none", "r0.2", "r0.5", "r0.8", "fixed"],
            )
        },
        matching("matching-trained", "Token matching, a search through the model", FINE_TUNED, &["none", "r0.5"]),
        Panel {
            batch: 2,
            pictures: 4,
            ..matching("matching-batch", "Token matching of two pictures", Weights::Initial, NONE)
        },
        Panel::new("known-start", "Keys from a known start", model, one(AttackMethod::KnownStart), &["encrypted"]),
        Panel::new("colluder", "Keys from a colluder", model, one(AttackMethod::Colluder), &["encrypted"]),
        Panel {
            batch: 3,
            ..Panel::new(
                "membership",
                "Membership",
                searched,
                PanelAttack::Membership,
                &["none", "r0.2", "r0.5", "r0.8", "fixed", "eps4"],
            )
        },
    ]
}

fn notes() -> Vec<String> {
    vec![format!(
        "APRIL's closed form needs a first block without LayerNorm before attention and without residual. In the figure of \
         \"the block that it needs\" the q/k/v weights of that block have a standard deviation of {}, those of other blocks \
         0.02. At 0.02, shown in another figure, rounding destroys much of the picture.",
        InitOptions::default().april_qkv_std
    )]
}
