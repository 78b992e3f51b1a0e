//! Embedding inversion, APRIL and token matching against a ViT, through the matrix of `unmask matrix`.

use crate::{
    InferenceAttack,
    matrix::{self, Row, Settings},
};
use unmask_attack::Method;
use unmask_core::{Defence, Rule, VitPreset};
use unmask_matching::GradientMatching;

use super::{AttackResult, Attacker, findings, targets::named_pictures};
use crate::{
    catalogue::Scale,
    defences::{ComparedDefence, MASKS_AND_NOISE},
    error::ExperimentError,
    report::Findings,
    run::{Event, Run},
};

/// One matrix: attacks that are shown in one figure.
struct MethodMatrix {
    key: &'static str,
    title: &'static str,
    april_block: bool,
    /// The naive attack and its twin that knows the mask.
    attacks: [Method; 2],
    defences: &'static [&'static str],
    model: VitPreset,
    iterations: Option<usize>,
    /// Most pictures that are attacked.
    pictures: usize,
}

/// Pictures that are searched for, which takes its time.
const SEARCHED: usize = 5;

/// All defences for closed forms; for the search, which takes its time, none and half.
fn matrices(scale: Scale) -> [MethodMatrix; 3] {
    let (model, searched, iterations) = match scale {
        Scale::Tiny => (VitPreset::Pico, VitPreset::Pico, 3),
        Scale::Small => (VitPreset::Lab, VitPreset::Nano, 400),
        Scale::Paper => (VitPreset::Small, VitPreset::Small, 2000),
    };
    let all = &["none", "r0.2", "r0.5", "r0.8", "eps4", "eps1"];
    [
        MethodMatrix {
            key: "embedding",
            title: "Embedding inversion",
            april_block: false,
            attacks: [Method::Embedding, Method::EmbeddingAware],
            defences: all,
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        MethodMatrix {
            key: "april",
            title: "APRIL, on the block that it needs",
            april_block: true,
            attacks: [Method::April, Method::AprilAware],
            defences: all,
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        MethodMatrix {
            key: "matching",
            title: "Token matching, a search through the model",
            april_block: false,
            attacks: [Method::Matching, Method::MatchingAware],
            defences: &["none", "r0.5"],
            model: searched,
            iterations: Some(iterations),
            pictures: SEARCHED,
        },
    ]
}

/// Attacks the pictures by each pair of methods; `None` if it was ended before.
pub(crate) fn run(run: &mut Run<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
    let pictures = named_pictures(run)?;
    let matrices = matrices(run.request.scale);
    if run.notify(Event::Started { parts: matrices.len(), left: matrices.len() }).is_break() {
        return Ok(None);
    }
    let mut methods = Vec::new();
    for matrix in &matrices {
        if run.notify(Event::PartStarted { name: matrix.title }).is_break() {
            return Ok(None);
        }
        let settings = settings(run, matrix)?;
        let folder = run.store.folder(&run.part(matrix.key, run.request.seed));
        let searches = GradientMatching::new(run.request.device.clone());
        let backend = matrix::Backend { device: run.request.device.device(), searches: &searches };
        let (mut total, mut finished) = (1, 0);
        let outcome =
            matrix::run(&settings, &pictures[..pictures.len().min(matrix.pictures)], backend, &folder, &mut |event| {
                let done = match event {
                    matrix::Event::Started { work, .. } => {
                        total = work.max(1);
                        0
                    }
                    matrix::Event::RowStarted { .. } => finished,
                    matrix::Event::Progress { done } => finished + done,
                    matrix::Event::RowFinished { work, .. } => {
                        finished += work;
                        finished
                    }
                };
                run.notify(Event::Progress { share: done as f64 / total as f64, note: "" })
            })?;
        if outcome.rows.len() < outcome.planned {
            return Ok(None);
        }
        let mut cannot = Vec::new();
        for row in &outcome.rows {
            if let (Some((defence, attacker)), None, Some(why)) = (pairing(matrix, row), row.ssim, &row.reason)
                && !cannot.iter().any(|(key, at, _)| *key == defence.key && *at == attacker)
            {
                cannot.push((defence.key, attacker, why.clone()));
            }
        }
        let results = outcome.rows.iter().filter_map(|row| result(matrix, row)).collect();
        methods.push(findings::MethodResults {
            key: matrix.key,
            title: matrix.title,
            model: matrix.model.name(),
            defences: MASKS_AND_NOISE
                .iter()
                .filter(|defence| matrix.defences.contains(&defence.key))
                .copied()
                .collect(),
            results,
            cannot,
        });
        if run.notify(Event::PartFinished).is_break() {
            return Ok(None);
        }
    }
    findings::of_vit(run, &methods).map(Some)
}

fn settings(run: &Run<'_, '_>, matrix: &MethodMatrix) -> Result<Settings, ExperimentError> {
    let refused = |reason: String| ExperimentError::Attack { what: "the defences".to_owned(), reason };
    let defences: Vec<Defence> = MASKS_AND_NOISE
        .iter()
        .filter(|defence| matrix.defences.contains(&defence.key))
        .map(|defence| defence.defence.parse::<Defence>().map_err(|error| refused(error.to_string())))
        .collect::<Result<_, _>>()?;
    Ok(Settings {
        model: matrix.model,
        april_block: matrix.april_block,
        attacks: matrix.attacks.map(InferenceAttack::Reconstruction).to_vec(),
        defences,
        seed: run.request.seed,
        iterations: matrix.iterations,
        step: None,
        rounds: 1,
        rate: 1e-5,
        rule: Rule::FedSgd,
        batch: 1,
    })
}

/// Whose row it is; where nothing was dropped, the attacker who knows the mask has none of his own.
fn pairing(matrix: &MethodMatrix, row: &Row) -> Option<(&'static ComparedDefence, Attacker)> {
    let defence = MASKS_AND_NOISE.iter().find(|defence| defence.defence.parse::<Defence>() == Ok(row.defence))?;
    let attacker = if row.attack == InferenceAttack::Reconstruction(matrix.attacks[0]) {
        Attacker::Naive
    } else {
        Attacker::Aware
    };
    (attacker == Attacker::Naive || defence.is_mask()).then_some((defence, attacker))
}

/// A row that has a picture.
fn result(matrix: &MethodMatrix, row: &Row) -> Option<AttackResult> {
    let (defence, attacker) = pairing(matrix, row)?;
    Some(AttackResult {
        attack: row.attack.name().to_owned(),
        attacker,
        case: defence.key.to_owned(),
        picture: row.image.clone(),
        ssim: row.ssim?,
        psnr: row.psnr?,
        seconds: row.seconds,
    })
}
