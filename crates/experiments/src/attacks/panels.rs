//! The panels of each experiment.

use std::path::PathBuf;

use unmask_core::{
    Architecture, AttackMethod, BlockKind, LenetConfig, ModelState, ResnetConfig, ResnetPreset, ResnetSpec, Rule, Stem,
    VitPreset,
};

use super::{
    findings, matching_steps,
    panel::{Panel, PanelAttack},
    pictures::named_pictures,
    watched::watched,
    weights::Weights,
};
use crate::{
    catalogue::{Experiment, Scale},
    cost::{self, Cost},
    error::ExperimentError,
    matrix::{self, MatrixRequest, MatrixRow, MatrixSettings},
    report::Findings,
    run::{ExperimentEvent, ExperimentRun, Scope},
};

const SEARCH: PanelAttack =
    PanelAttack::Pictures { naive: AttackMethod::Gradients, aware: Some(AttackMethod::GradientsAware) };
const MATCHING: PanelAttack =
    PanelAttack::Pictures { naive: AttackMethod::Matching, aware: Some(AttackMethod::MatchingAware) };
const EMBEDDING: PanelAttack =
    PanelAttack::Pictures { naive: AttackMethod::Embedding, aware: Some(AttackMethod::EmbeddingAware) };
const APRIL: PanelAttack = PanelAttack::Pictures { naive: AttackMethod::April, aware: Some(AttackMethod::AprilAware) };

/// The papers' number of steps.
const PATIENT: usize = 24_000;

const NONE: &[&str] = &["none"];
const MASKS: &[&str] = &["none", "r0.2", "r0.5", "r0.8"];
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

/// Number of pictures for token matching, which is slow.
const MATCHED: usize = 5;

fn panels(experiment: Experiment, scale: Scale) -> Vec<Panel> {
    let mut panels = match experiment {
        Experiment::AttacksCnn => convolutional(scale),
        _ => vit(scale),
    };
    match scale {
        Scale::Tiny => {
            for panel in &mut panels {
                panel.pictures = 2 * panel.batch;
                panel.iterations = panel.iterations.map(|_| 3);
            }
        }
        Scale::Quick => {
            panels.retain(|panel| panel.iterations.is_none_or(|steps| steps < PATIENT));
            panels.iter_mut().for_each(|panel| panel.draws = 1);
        }
        // At this scale a fine-tuned ViT would start from ImageNet weights, which the program does not include.
        Scale::Paper => panels.retain(|panel| panel.weights != Weights::FineTuned),
        Scale::Small => {}
    }
    panels
}

/// LeNets, which Inverting Gradients can invert, and ResNets, which the paper attacked.
fn convolutional(scale: Scale) -> Vec<Panel> {
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

fn vit(scale: Scale) -> Vec<Panel> {
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
            weights: Weights::FineTuned,
            ..Panel::new(
                "embedding-trained",
                "Embedding inversion",
                searched,
                EMBEDDING,
                &["none", "r0.2", "r0.5", "r0.8", "fixed"],
            )
        },
        matching(
            "matching-trained",
            "Token matching, a search through the model",
            Weights::FineTuned,
            &["none", "r0.5"],
        ),
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

pub(crate) fn cases(experiment: Experiment) -> Vec<String> {
    findings::cases(&panels(experiment, Scale::Small))
}

/// The cost of the searches at the papers' scale; `None` if most attacks are closed forms.
pub(crate) fn cost(run: &ExperimentRun<'_, '_>) -> Result<Option<Cost>, ExperimentError> {
    if run.request.experiment != Experiment::AttacksCnn || run.request.scale == Scale::Tiny {
        return Ok(None);
    }
    let Some(panel) = convolutional(Scale::Paper).into_iter().find(|panel| panel.key == "resnet") else {
        return Ok(None);
    };
    let searches: usize = panel.defences().iter().map(|defence| panel.attackers(defence).len()).sum();
    let searches = searches * super::pictures::wanted(Scale::Paper);
    let steps = panel.iterations.unwrap_or_default();
    cost::of_searches(run, &panel.model.name(), searches, steps).map(Some)
}

/// Attacks the pictures panel by panel. The cases are the rows of all matrices.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
    let panels = panels(run.request.experiment, run.request.scale);
    let rows = rows(run, &panels)?;
    if run.is_part() {
        return Ok(None);
    }
    let results: Vec<_> = panels.into_iter().zip(&rows).map(|(panel, rows)| panel.results(rows)).collect();
    findings::findings(run, &results).map(Some)
}

fn rows(run: &mut ExperimentRun<'_, '_>, panels: &[Panel]) -> Result<Vec<Vec<MatrixRow>>, ExperimentError> {
    let name = |run: &ExperimentRun<'_, '_>, panel: &Panel| run.file(panel.key, run.request.seed);
    if let Scope::Merged { .. } = run.scope {
        return panels.iter().map(|panel| matrix::finished(&run.store.folder(&name(run, panel)))).collect();
    }
    let pictures = named_pictures(run)?;
    run.notify(ExperimentEvent::Started { cases: panels.len(), left: panels.len() })?;
    let seed = run.request.seed;
    let settings: Vec<MatrixSettings> = panels.iter().map(|panel| panel.settings(seed)).collect::<Result<_, _>>()?;
    let starts: Vec<ModelState> =
        panels.iter().map(|panel| panel.weights.state(run, panel.model)).collect::<Result<_, _>>()?;
    let folders: Vec<PathBuf> = panels.iter().map(|panel| run.store.folder(&name(run, panel))).collect();
    let requests: Vec<MatrixRequest<'_>> = panels
        .iter()
        .zip(&settings)
        .zip(starts.iter().zip(&folders))
        .map(|((panel, settings), (start, folder))| MatrixRequest {
            settings,
            pictures: &pictures[..pictures.len().min(panel.pictures)],
            start: Some(start),
            device: run.request.device,
            threads: run.request.threads,
            commit: run.request.commit.clone(),
            out: folder,
        })
        .collect();
    let mut files = Vec::new();
    // Position of each matrix's first row among the rows of all matrices.
    let mut firsts = Vec::new();
    for (panel, request) in panels.iter().zip(&requests) {
        firsts.push(files.len());
        let name = name(run, panel);
        files.extend(matrix::row_files(request)?.into_iter().map(|file| format!("{name}/{file}")));
    }
    run.plan(files)?;
    let mut all = Vec::new();
    for ((panel, request), first) in panels.iter().zip(&requests).zip(firsts) {
        run.notify(ExperimentEvent::CaseStarted { name: &format!("{}, {}", panel.title, panel.attacked()) })?;
        let part = run.part();
        all.push(watched(request, &|position| part.is_none_or(|part| part.takes(first + position)), run)?);
        run.notify(ExperimentEvent::CaseFinished)?;
    }
    Ok(all)
}
