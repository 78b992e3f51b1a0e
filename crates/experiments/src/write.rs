//! An experiment from the request to the files.

use std::{path::PathBuf, thread};

use jiff::Timestamp;
use serde_json::json;

use crate::{
    attacks,
    bench::{Bench, Event, Findings, Hear, Request},
    catalogue::{Experiment, Scale},
    claim::{Claim, tally, verdict},
    cost::{self, Cost},
    error::PapersError,
    index,
    outline::check,
    ratios,
    report::{Provenance, report_page},
    store::{Store, write},
    study::Study,
    training::{self, check_weights},
};

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduced {
    /// The folder with `report.html`, `results.json`, `results.csv` and `run.json`.
    pub folder: PathBuf,
    /// What was expected and what was found.
    pub claims: Vec<Claim>,
}

/// Runs an experiment and writes its report to a folder of its name in [`Request::out`]; `None` if `hear` ended it before the
/// last part. Finished parts are kept either way.
///
/// # Errors
/// [`PapersError`]: pictures or weights are missing, the folder cannot be written, or the computation failed. Where
/// nothing came to be kept, no folder is left behind.
pub fn reproduce(request: &Request<'_>, hear: Hear<'_>) -> Result<Option<Reproduced>, PapersError> {
    check(request)?;
    let folder = request.out.join(request.experiment.name());
    let kept = Store::open(&folder.join("parts"))?;
    let mut bench = Bench { request, kept, hear };
    let Some(findings) = run(&mut bench)? else { return Ok(None) };
    let provenance = provenance(request, &findings);
    let Findings { claims, records, results, .. } = &findings;
    let encoded = |value: &serde_json::Value| -> Vec<u8> { format!("{value:#}\n").into_bytes() };
    write(&folder.join("report.html"), report_page(&provenance, &findings).as_bytes())?;
    write(&folder.join("results.json"), &encoded(&json!({ "claims": claims, "results": results })))?;
    write(&folder.join("results.csv"), records)?;
    write(
        &folder.join("run.json"),
        &encoded(&json!({ "provenance": provenance, "verdict": verdict(claims), "tally": tally(claims) })),
    )?;
    index::update(&request.out)?;
    Ok(Some(Reproduced { folder, claims: findings.claims }))
}

/// What the experiment takes at the papers' scale, from steps that are measured now; `None` where a model's steps do not tell.
///
/// # Errors
/// [`PapersError`]: the weights are another model's, the model cannot be run, or the folder cannot be written.
pub fn estimate(request: &Request<'_>) -> Result<Option<Cost>, PapersError> {
    check_weights(request, Scale::Paper)?;
    let kept = Store::open(&request.out.join(request.experiment.name()).join("parts"))?;
    let mut deaf = |_: Event<'_>| std::ops::ControlFlow::Continue(());
    let bench = Bench { request, kept, hear: &mut deaf };
    match (Study::of(request.experiment, Scale::Paper), request.experiment) {
        (Some(study), _) => cost::of_training(&bench, &study),
        (None, Experiment::AttacksResnet) => attacks::resnet_cost(&bench).map(Some),
        (None, _) => Ok(None),
    }
}

fn run(bench: &mut Bench<'_, '_>) -> Result<Option<Findings>, PapersError> {
    match (Study::of(bench.request.experiment, bench.request.scale), bench.request.experiment) {
        (Some(study), _) => training::run(bench, &study),
        (None, Experiment::AttacksResnet) => attacks::run_resnet(bench),
        (None, Experiment::AttacksVit) => attacks::run_vit(bench),
        (None, _) => ratios::run(bench),
    }
}

fn provenance(request: &Request<'_>, findings: &Findings) -> Provenance {
    Provenance {
        experiment: request.experiment,
        scale: request.scale,
        seed: request.seed,
        seeds: findings.seeds,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: request.commit.as_ref().map(|commit| commit.sha.clone()),
        has_local_changes: request.commit.as_ref().is_some_and(|commit| commit.has_local_changes),
        device: request.device.description(),
        threads: request.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        finished: Timestamp::now().as_second(),
        seconds: findings.seconds,
        command: command(request),
    }
}

/// The command that does it again, without the paths of one machine.
fn command(request: &Request<'_>) -> String {
    let Request { experiment, scale, seed, seeds, weights, .. } = request;
    let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
    let weights = if weights.is_some() { " --weights FILE" } else { "" };
    format!("unmask reproduce {experiment} --scale {scale} --seed {seed}{seeds}{weights} --out reports")
}
