//! Runs any study and writes its files.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde_json::json;
use unmask_core::{CurveProvenance, SchemaVersion, TradeOffCurve};
use unmask_simulation::{Commit, check_start};

use crate::{
    catalogue::Scale,
    claim::{Claim, tally, verdict},
    cost::Cost,
    error::ExperimentError,
    parts::{Build, Machine, MergedRun, PartFolder},
    report::{Findings, Provenance, report_page},
    request::ExperimentRequest,
    run::{CASES, ExperimentEvent, ExperimentRun, OnEvent, Scope},
    store::{Store, write},
    study::Study,
};

pub(crate) const PAGE: &str = "report.html";
/// Of every JSON file that an experiment writes.
const SCHEMA: SchemaVersion<1> = SchemaVersion;

#[derive(Debug, Clone, PartialEq)]
pub struct Reproduced {
    /// The folder with `report.html`, `results.json`, `results.csv`, `run.json` and, for the study of the trade-off,
    /// `trade-off.json`.
    pub folder: PathBuf,
    pub claims: Vec<Claim>,
}

/// Checks a request as far as possible before anything is computed.
///
/// # Errors
/// There are no seeds or threads, or the weights are missing, belong to another model or would not be used.
pub(crate) fn check(study: &dyn Study, request: &ExperimentRequest<'_>) -> Result<(), ExperimentError> {
    if request.seeds == Some(0) {
        return Err(ExperimentError::NoSeeds);
    }
    if request.threads == Some(0) {
        return Err(ExperimentError::NoThreads);
    }
    check_weights(study, request, request.scale)?;
    if request.weights.is_none() && request.scale == Scale::Paper && study.about().takes_weights {
        return Err(ExperimentError::NeedsWeights {
            experiment: study.about().name,
            model: "vit_small_patch16_224".to_owned(),
        });
    }
    Ok(())
}

/// Checks that any given weights fit the model that the study trains at `scale`.
///
/// # Errors
/// They do not fit, or the study does not use them.
fn check_weights(study: &dyn Study, request: &ExperimentRequest<'_>, scale: Scale) -> Result<(), ExperimentError> {
    let Some(start) = request.start() else { return Ok(()) };
    let Some(plan) = study.plan(scale).filter(|_| study.about().takes_weights) else {
        return Err(ExperimentError::UnusedWeights { experiment: study.about().name });
    };
    match plan.first_config(request.seed, &[start])? {
        Some(config) => Ok(check_start(&config)?),
        None => Ok(()),
    }
}

/// Describes a run in one line: model, pictures, clients and rounds, where they apply.
///
/// # Errors
/// The study's own settings are invalid.
pub(crate) fn describe(study: &dyn Study, request: &ExperimentRequest<'_>) -> Result<String, ExperimentError> {
    let ExperimentRequest { experiment, scale, .. } = request;
    let what = study.describe(request)?.unwrap_or_else(|| format!("{}, {scale} scale", experiment.title()));
    Ok(format!("{experiment}: {what}"))
}

/// Runs a study and writes its report. Returns `None` if `on_event` ended the run before the last case.
///
/// # Errors
/// Pictures are missing, the folder cannot be written, or the computation failed.
pub(crate) fn reproduce(
    study: &dyn Study,
    request: &ExperimentRequest<'_>,
    on_event: OnEvent<'_>,
) -> Result<Option<Reproduced>, ExperimentError> {
    let folder = request.out.join(request.experiment.name());
    match find(study, request, &folder, Scope::Whole, on_event) {
        Err(ExperimentError::Stopped) => Ok(None),
        Ok((Some(findings), machine)) => {
            let build = Build::new(request.commit.as_ref(), request.device);
            report_findings(request, folder, findings, build, machine).map(Some)
        }
        // A run that is not a part always has findings.
        Ok((None, _)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Computes the cases of one part in the part's folder. Returns `false` if `on_event` ended the run before the last
/// case.
///
/// # Errors
/// As [`reproduce`].
pub(crate) fn reproduce_part(
    study: &dyn Study,
    request: &ExperimentRequest<'_>,
    part: &PartFolder,
    on_event: OnEvent<'_>,
) -> Result<bool, ExperimentError> {
    // All parts must use the same fixed number of seeds.
    let least = study.plan(request.scale).map(|plan| request.seeds(plan.seeds).least);
    let request = ExperimentRequest { seeds: request.seeds.or(least), out: part.path().to_owned(), ..request.clone() };
    let folder = request.out.join(request.experiment.name());
    match find(study, &request, &folder, Scope::Part(part), on_event) {
        Err(ExperimentError::Stopped) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Writes the report of a merged study, which `build` computed.
///
/// # Errors
/// A file cannot be read or written, or does not match its part.
pub(crate) fn report(
    study: &dyn Study,
    request: &ExperimentRequest<'_>,
    merged: &MergedRun<'_>,
    has_cifar10: bool,
    build: Build,
) -> Result<Reproduced, ExperimentError> {
    let scope = Scope::Merged { parts: merged, has_cifar10 };
    let (findings, machine) =
        find(study, request, merged.folder, scope, &mut |_: ExperimentEvent<'_>| ControlFlow::Continue(()))?;
    let findings = findings.ok_or_else(|| ExperimentError::NoPart { folder: merged.folder.to_owned() })?;
    report_findings(request, merged.folder.to_owned(), findings, build, machine)
}

/// Computes the missing cases. Returns the findings, unless a part was requested, and the machine.
fn find(
    study: &dyn Study,
    request: &ExperimentRequest<'_>,
    folder: &Path,
    scope: Scope<'_>,
    on_event: OnEvent<'_>,
) -> Result<(Option<Findings>, Machine), ExperimentError> {
    let mut run = ExperimentRun { request, store: Store::open(&folder.join(CASES))?, scope, on_event };
    let found = study.run(&mut run)?;
    Ok((found, run.machine()))
}

fn report_findings(
    request: &ExperimentRequest<'_>,
    folder: PathBuf,
    findings: Findings,
    build: Build,
    machine: Machine,
) -> Result<Reproduced, ExperimentError> {
    let provenance = provenance(request, &findings, build, machine);
    let Findings { claims, records, results, curve, .. } = &findings;
    let encoded = |value: &serde_json::Value| -> Vec<u8> { format!("{value:#}\n").into_bytes() };
    write(&folder.join(PAGE), report_page(&provenance, &findings).as_bytes())?;
    write(
        &folder.join("results.json"),
        &encoded(&json!({ "schema_version": SCHEMA, "claims": claims, "results": results })),
    )?;
    write(&folder.join("results.csv"), records)?;
    write(
        &folder.join("run.json"),
        &encoded(&json!({
            "schema_version": SCHEMA, "provenance": provenance, "verdict": verdict(claims), "tally": tally(claims)
        })),
    )?;
    if let Some((setup, points)) = curve {
        let (setup, points) = (setup.clone(), points.clone());
        let curve =
            TradeOffCurve { schema_version: SCHEMA, provenance: CurveProvenance::from(&provenance), setup, points };
        write(&folder.join("trade-off.json"), &encoded(&json!(curve)))?;
    }
    Ok(Reproduced { folder, claims: findings.claims })
}

/// Estimates the cost of the papers' scale from steps measured now; `None` if a model's steps do not determine it.
///
/// # Errors
/// The weights belong to another model, the model cannot be run, or the folder cannot be written.
pub(crate) fn estimate(study: &dyn Study, request: &ExperimentRequest<'_>) -> Result<Option<Cost>, ExperimentError> {
    check_weights(study, request, Scale::Paper)?;
    let store = Store::open(&request.out.join(request.experiment.name()).join(CASES))?;
    let scope = Scope::Whole;
    study.cost(&ExperimentRun {
        request,
        store,
        scope,
        on_event: &mut |_: ExperimentEvent<'_>| ControlFlow::Continue(()),
    })
}

fn provenance(request: &ExperimentRequest<'_>, findings: &Findings, build: Build, machine: Machine) -> Provenance {
    let Build { version, commit, device } = build;
    let sha = commit.as_deref().map(|commit| commit.trim_end_matches(Commit::CHANGED).to_owned());
    Provenance {
        experiment: request.experiment,
        scale: request.scale,
        seed: request.seed,
        seeds: findings.seeds,
        version,
        has_local_changes: commit.is_some_and(|commit| commit.ends_with(Commit::CHANGED)),
        commit: sha,
        device,
        processor: machine.processor,
        threads: machine.threads,
        finished: Timestamp::now().as_second(),
        seconds: findings.seconds,
        command: request.command(),
    }
}
