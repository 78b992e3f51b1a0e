//! Embedding inversion, APRIL and token matching against a ViT, through the matrix of `unmask matrix`.

use std::path::PathBuf;

use unmask_core::{Architecture, AttackMethod, Knowledge, Rule, VitPreset};
use unmask_inversion::InferenceAttack;

use super::{
    AttackResult,
    findings::{self, Unsolved},
    matching_steps,
    targets::named_pictures,
    watched::watched,
};
use crate::{
    catalogue::Scale,
    defences::{ATTACKED_VIT, ComparedDefence},
    error::ExperimentError,
    matrix::{self, MatrixRequest, MatrixRow, MatrixSettings},
    report::Findings,
    run::{ExperimentEvent, ExperimentRun, Scope},
};

/// One matrix: attacks that are shown in one figure.
struct MethodMatrix {
    key: &'static str,
    title: &'static str,
    april_block: bool,
    /// The naive attack and its twin that knows the mask.
    attacks: [AttackMethod; 2],
    defences: &'static [&'static str],
    model: VitPreset,
    iterations: Option<usize>,
    /// Most pictures that are attacked.
    pictures: usize,
}

impl MethodMatrix {
    fn defences(&self) -> Vec<ComparedDefence> {
        ATTACKED_VIT.into_iter().filter(|defence| self.defences.contains(&defence.key)).collect()
    }
}

/// Pictures that are searched for, which takes its time.
const SEARCHED: usize = 5;

/// All defences for closed forms; for the search, which takes its time, none and half.
fn matrices(scale: Scale) -> [MethodMatrix; 4] {
    let (model, searched) = match scale {
        Scale::Tiny => (VitPreset::Pico, VitPreset::Pico),
        Scale::Small => (VitPreset::Lab, VitPreset::Nano),
        Scale::Paper => (VitPreset::Small, VitPreset::Small),
    };
    let all = &["none", "r0.2", "r0.5", "r0.8", "fixed", "eps4", "eps2", "eps1"];
    [
        MethodMatrix {
            key: "embedding",
            title: "Embedding inversion",
            april_block: false,
            attacks: [AttackMethod::Embedding, AttackMethod::EmbeddingAware],
            defences: all,
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        MethodMatrix {
            key: "april",
            title: "APRIL, on the block that it needs",
            april_block: true,
            attacks: [AttackMethod::April, AttackMethod::AprilAware],
            defences: all,
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        MethodMatrix {
            key: "april-standard",
            title: "APRIL, on a standard block",
            april_block: false,
            attacks: [AttackMethod::April, AttackMethod::AprilAware],
            defences: &["none"],
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        MethodMatrix {
            key: "matching",
            title: "Token matching, a search through the model",
            april_block: false,
            attacks: [AttackMethod::Matching, AttackMethod::MatchingAware],
            defences: &["none", "r0.5"],
            model: searched,
            iterations: Some(matching_steps(scale)),
            pictures: SEARCHED,
        },
    ]
}

/// The attackers and defences, as formulas name them.
pub(crate) fn cases() -> Vec<String> {
    findings::cases(matrices(Scale::Small).iter().map(|matrix| (matrix.key, matrix.defences())))
}

/// Attacks the pictures by each pair of methods. The cases are the rows of all matrices.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
    let matrices = matrices(run.request.scale);
    let rows = rows(run, &matrices)?;
    if run.is_part() {
        return Ok(None);
    }
    let mut methods = Vec::new();
    for (matrix, rows) in matrices.iter().zip(rows) {
        let results = rows.iter().filter_map(result).collect();
        methods.push(findings::MethodResults {
            key: matrix.key,
            title: matrix.title,
            model: matrix.model.name(),
            defences: matrix.defences(),
            results,
            unsolved: rows.iter().filter_map(unsolved).collect(),
        });
    }
    findings::of_vit(run, &methods).map(Some)
}

/// The rows of each matrix, as far as they are for this part.
fn rows(run: &mut ExperimentRun<'_, '_>, matrices: &[MethodMatrix]) -> Result<Vec<Vec<MatrixRow>>, ExperimentError> {
    let name = |run: &ExperimentRun<'_, '_>, matrix: &MethodMatrix| run.file(matrix.key, run.request.seed);
    if let Scope::Merged { .. } = run.scope {
        return matrices.iter().map(|matrix| matrix::finished(&run.store.folder(&name(run, matrix)))).collect();
    }
    let pictures = named_pictures(run)?;
    let settings = matrices.iter().map(|matrix| settings(run, matrix)).collect::<Result<Vec<_>, _>>()?;
    let folders: Vec<PathBuf> = matrices.iter().map(|matrix| run.store.folder(&name(run, matrix))).collect();
    let requests: Vec<MatrixRequest<'_>> = matrices
        .iter()
        .zip(&settings)
        .zip(&folders)
        .map(|((matrix, settings), folder)| MatrixRequest {
            settings,
            pictures: &pictures[..pictures.len().min(matrix.pictures)],
            start: None,
            device: run.request.device,
            threads: run.request.threads,
            commit: run.request.commit.clone(),
            out: folder,
        })
        .collect();
    let mut files = Vec::new();
    // At which place among the rows of all matrices those of each begin.
    let mut firsts = Vec::new();
    for (matrix, request) in matrices.iter().zip(&requests) {
        firsts.push(files.len());
        let name = name(run, matrix);
        files.extend(matrix::row_files(request)?.into_iter().map(|file| format!("{name}/{file}")));
    }
    run.plan(files)?;
    run.notify(ExperimentEvent::Started { cases: matrices.len(), left: matrices.len() })?;
    let mut all = Vec::new();
    for ((matrix, request), first) in matrices.iter().zip(&requests).zip(firsts) {
        run.notify(ExperimentEvent::CaseStarted { name: matrix.title })?;
        let part = run.part();
        all.push(watched(request, &|position| part.is_none_or(|part| part.takes(first + position)), run)?);
        run.notify(ExperimentEvent::CaseFinished)?;
    }
    Ok(all)
}

fn settings(run: &ExperimentRun<'_, '_>, matrix: &MethodMatrix) -> Result<MatrixSettings, ExperimentError> {
    let defences = matrix.defences().iter().map(ComparedDefence::parsed).collect::<Result<_, _>>()?;
    Ok(MatrixSettings {
        model: Architecture::from(matrix.model).with_april_block(matrix.april_block),
        attacks: matrix.attacks.map(InferenceAttack::Reconstruction).to_vec(),
        defences,
        seed: run.request.seed,
        seeds: 1,
        iterations: matrix.iterations,
        step: None,
        rounds: 1,
        rate: 1e-5,
        rule: Rule::FedSgd,
        batch: 1,
    })
}

/// Whose row it is; where nothing was dropped, the attacker who knows the mask has none of his own.
fn pairing(row: &MatrixRow) -> Option<(&'static ComparedDefence, AttackMethod)> {
    let defence = ATTACKED_VIT.iter().find(|defence| defence.parsed().is_ok_and(|parsed| parsed == row.defence))?;
    let method = row.attack.method()?;
    (method.knowledge() == Knowledge::Naive || defence.is_mask()).then_some((defence, method))
}

/// A row that has a picture.
fn result(row: &MatrixRow) -> Option<AttackResult> {
    let (defence, attack) = pairing(row)?;
    Some(AttackResult {
        attack,
        case: defence.key.to_owned(),
        picture: row.image.clone(),
        ssim: row.ssim?,
        psnr: row.psnr?,
        seconds: row.seconds,
    })
}

/// A row that has none.
fn unsolved(row: &MatrixRow) -> Option<Unsolved> {
    let (defence, attack) = pairing(row)?;
    let because = row.verdict.because().filter(|_| row.ssim.is_none())?;
    Some(Unsolved {
        case: defence.key,
        attacker: attack.knowledge(),
        picture: row.image.clone(),
        because: because.to_owned(),
        has_nothing_to_solve: row.has_nothing_to_solve,
    })
}
