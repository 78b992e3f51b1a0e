//! Embedding inversion, APRIL and token matching against a ViT, through the matrix of `unmask matrix`.

use std::ops::ControlFlow;

use crate::laboratory::{
    Trial,
    matrix::{self, Row, Settings},
};
use unmask_attack::Method;
use unmask_core::{Defence, Rule, VitPreset};
use unmask_matching::GradientMatching;

use super::{Attacker, SHIELDS, Seen, Shield, findings, targets::named_pictures};
use crate::{
    bench::{Bench, Event, Findings},
    catalogue::Scale,
    error::PapersError,
};

/// One matrix: attacks that are shown in one figure.
struct Contest {
    key: &'static str,
    title: &'static str,
    april_block: bool,
    /// The naive attack and its twin that knows the mask.
    attacks: [Method; 2],
    shields: &'static [&'static str],
    model: VitPreset,
    iterations: Option<usize>,
    /// Most pictures that are attacked.
    pictures: usize,
}

/// Pictures that are searched for, which takes its time.
const SEARCHED: usize = 5;

/// All defences for closed forms; for the search, which takes its time, none and half.
fn contests(scale: Scale) -> [Contest; 3] {
    let (model, searched, iterations) = match scale {
        Scale::Tiny => (VitPreset::Pico, VitPreset::Pico, 3),
        Scale::Small => (VitPreset::Lab, VitPreset::Nano, 400),
        Scale::Paper => (VitPreset::Small, VitPreset::Small, 2000),
    };
    let all = &["none", "r0.2", "r0.5", "r0.8", "eps4", "eps1"];
    [
        Contest {
            key: "embedding",
            title: "Embedding inversion",
            april_block: false,
            attacks: [Method::Embedding, Method::EmbeddingAware],
            shields: all,
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        Contest {
            key: "april",
            title: "APRIL, on the block that it needs",
            april_block: true,
            attacks: [Method::April, Method::AprilAware],
            shields: all,
            model,
            iterations: None,
            pictures: usize::MAX,
        },
        Contest {
            key: "matching",
            title: "Token matching, a search through the model",
            april_block: false,
            attacks: [Method::Matching, Method::MatchingAware],
            shields: &["none", "r0.5"],
            model: searched,
            iterations: Some(iterations),
            pictures: SEARCHED,
        },
    ]
}

/// Attacks the pictures by each pair of methods; `None` if it was ended before.
pub(crate) fn run(bench: &mut Bench<'_, '_>) -> Result<Option<Findings>, PapersError> {
    let pictures = named_pictures(bench)?;
    let contests = contests(bench.request.scale);
    if bench.is_stopped(Event::Begins { parts: contests.len(), left: contests.len() }) {
        return Ok(None);
    }
    let mut panels = Vec::new();
    for contest in &contests {
        if bench.is_stopped(Event::Part { name: contest.title }) {
            return Ok(None);
        }
        let settings = settings(bench, contest)?;
        let folder = bench.kept.folder(&bench.part(contest.key, bench.request.seed));
        let searches = GradientMatching::new(bench.request.device.clone());
        let with = matrix::Bench { device: bench.request.device.device(), searches: &searches };
        let (mut total, mut finished) = (1, 0);
        let outcome =
            matrix::run(&settings, &pictures[..pictures.len().min(contest.pictures)], with, &folder, &mut |event| {
                let done = match event {
                    matrix::Event::Begins { work, .. } => {
                        total = work.max(1);
                        0
                    }
                    matrix::Event::Tries { .. } => finished,
                    matrix::Event::Step { done } => finished + done,
                    matrix::Event::Ends { work, .. } => {
                        finished += work;
                        finished
                    }
                };
                (bench.hear)(Event::Step { share: done as f64 / total as f64, note: "" })
            })?;
        if outcome.rows.len() < outcome.planned {
            return Ok(None);
        }
        let mut cannot = Vec::new();
        for row in &outcome.rows {
            if let (Some((shield, attacker)), None, Some(why)) = (duel(contest, row), row.ssim, &row.reason)
                && !cannot.iter().any(|(key, at, _)| *key == shield.key && *at == attacker)
            {
                cannot.push((shield.key, attacker, why.clone()));
            }
        }
        let seen = outcome.rows.iter().filter_map(|row| seen(contest, row)).collect();
        panels.push(findings::Panel {
            key: contest.key,
            title: contest.title,
            model: contest.model.name(),
            shields: SHIELDS.iter().filter(|shield| contest.shields.contains(&shield.key)).copied().collect(),
            seen,
            cannot,
        });
        if (bench.hear)(Event::Ends) == ControlFlow::Break(()) {
            return Ok(None);
        }
    }
    findings::of_vit(bench, &panels).map(Some)
}

fn settings(bench: &Bench<'_, '_>, contest: &Contest) -> Result<Settings, PapersError> {
    let refused = |reason: String| PapersError::Attack { what: "the defences".to_owned(), reason };
    let defences: Vec<Defence> = SHIELDS
        .iter()
        .filter(|shield| contest.shields.contains(&shield.key))
        .map(|shield| shield.defence.parse::<Defence>().map_err(|error| refused(error.to_string())))
        .collect::<Result<_, _>>()?;
    Ok(Settings {
        model: contest.model,
        april_block: contest.april_block,
        attacks: contest.attacks.map(Trial::Picture).to_vec(),
        defences,
        seed: bench.request.seed,
        iterations: contest.iterations,
        step: None,
        rounds: 1,
        rate: 1e-5,
        rule: Rule::FedSgd,
        batch: 1,
    })
}

/// Whose row it is; where nothing was dropped, the attacker who knows the mask has none of his own.
fn duel(contest: &Contest, row: &Row) -> Option<(&'static Shield, Attacker)> {
    let shield = SHIELDS.iter().find(|shield| shield.defence.parse::<Defence>() == Ok(row.defence))?;
    let attacker = if row.attack == Trial::Picture(contest.attacks[0]) { Attacker::Naive } else { Attacker::Aware };
    (attacker == Attacker::Naive || shield.is_mask).then_some((shield, attacker))
}

/// A row that has a picture.
fn seen(contest: &Contest, row: &Row) -> Option<Seen> {
    let (shield, attacker) = duel(contest, row)?;
    Some(Seen {
        attack: row.attack.name().to_owned(),
        attacker,
        case: shield.key.to_owned(),
        picture: row.image.clone(),
        ssim: row.ssim?,
        psnr: row.psnr?,
        seconds: row.seconds,
    })
}
