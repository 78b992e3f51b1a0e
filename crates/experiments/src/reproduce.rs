//! Runs an experiment and writes its files.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde_json::json;
use unmask_core::{CurveProvenance, SchemaVersion, TradeOffCurve};
use unmask_data::datasets::default_cifar10_folder;
use unmask_model::device::OpenDevice;
use unmask_simulation::Commit;

use crate::{
    attacks,
    catalogue::{Experiment, Scale},
    claim::{Claim, check_cases, tally, verdict},
    cost::{self, Cost},
    error::ExperimentError,
    overview::overview,
    parts::{Build, Machine, MergedRun, PartFolder},
    report::{Findings, Provenance, report_page},
    request::{ExperimentRequest, ReproduceSettings, RunRecord},
    run::{CASES, ExperimentEvent, ExperimentRun, OnEvent, Scope},
    store::{Store, write},
    study::Study,
    trade_off, training, update_ratios,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Reproduced {
    /// The folder with `report.html`, `results.json`, `results.csv`, `run.json` and, for [`Experiment::TradeOff`],
    /// `trade-off.json`.
    pub folder: PathBuf,
    pub claims: Vec<Claim>,
}

/// Runs an experiment and writes its report to a folder with its name in [`ExperimentRequest::out`]. Returns `None` if
/// `on_event` ended the run before the last case. Finished cases are saved in any case.
///
/// # Errors
/// [`ExperimentError`]: pictures or weights are missing, the folder cannot be written, or the computation failed. If no
/// case was saved, no folder remains.
pub fn reproduce(
    request: &ExperimentRequest<'_>,
    on_event: OnEvent<'_>,
) -> Result<Option<Reproduced>, ExperimentError> {
    request.check()?;
    let folder = request.out.join(request.experiment.name());
    match find(request, &folder, Scope::Whole, on_event) {
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

/// Computes the cases of one part in the part's folder, ignoring [`ExperimentRequest::out`]. Use
/// [`merge`](crate::merge) to create the report from all parts. Without `ExperimentRequest::seeds`, uses the scale's
/// smallest number of seeds. Returns `false` if `on_event` ended the run before the last case.
///
/// # Errors
/// As [`reproduce`].
pub fn reproduce_part(
    request: &ExperimentRequest<'_>,
    part: &PartFolder,
    on_event: OnEvent<'_>,
) -> Result<bool, ExperimentError> {
    request.check()?;
    let request = request.of_part(part);
    let folder = request.out.join(request.experiment.name());
    match find(&request, &folder, Scope::Part(part), on_event) {
        Err(ExperimentError::Stopped) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Writes the report of a merged experiment and returns the page's path.
///
/// # Errors
/// A file cannot be read or written, or does not match its part.
pub(crate) fn report(merged: &MergedRun<'_>) -> Result<PathBuf, ExperimentError> {
    let RunRecord { build, settings } = merged.run()?;
    let ReproduceSettings { experiment, scale, seed, seeds, has_cifar10, weights, .. } = settings;
    let device = OpenDevice::cpu();
    let out = merged.folder.parent().unwrap_or(Path::new("")).to_owned();
    let cifar10 = default_cifar10_folder();
    let request = ExperimentRequest {
        experiment,
        scale,
        seed,
        seeds,
        out,
        cifar10,
        weights,
        device: &device,
        threads: None,
        commit: None,
    };
    let scope = Scope::Merged { parts: merged, has_cifar10 };
    let (findings, machine) =
        find(&request, merged.folder, scope, &mut |_: ExperimentEvent<'_>| ControlFlow::Continue(()))?;
    let findings = findings.ok_or_else(|| ExperimentError::NoPart { folder: merged.folder.to_owned() })?;
    Ok(report_findings(&request, merged.folder.to_owned(), findings, build, machine)?.folder.join(PAGE))
}

/// Computes the missing cases. Returns the findings, unless a part was requested, and the machine.
fn find(
    request: &ExperimentRequest<'_>,
    folder: &Path,
    scope: Scope<'_>,
    on_event: OnEvent<'_>,
) -> Result<(Option<Findings>, Machine), ExperimentError> {
    check_cases(&cases)?;
    let mut run = ExperimentRun { request, store: Store::open(&folder.join(CASES))?, scope, on_event };
    let found = match (Study::of(request.experiment, request.scale), request.experiment) {
        (Some(study), Experiment::TradeOff) => trade_off::run(&mut run, &study),
        (Some(study), _) => training::run(&mut run, &study),
        (None, Experiment::AttacksCnn | Experiment::AttacksVit) => attacks::run(&mut run),
        (None, _) => update_ratios::run(&mut run),
    }?;
    Ok((found, run.machine()))
}

const PAGE: &str = "report.html";
/// Of every JSON file that an experiment writes.
const SCHEMA: SchemaVersion<1> = SchemaVersion;

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
    write_overview(&request.out)?;
    Ok(Reproduced { folder, claims: findings.claims })
}

/// Estimates the cost of the papers' scale from steps measured now; `None` if a model's steps do not determine it.
///
/// # Errors
/// [`ExperimentError`]: the weights belong to another model, the model cannot be run, or the folder cannot be written.
pub fn estimate(request: &ExperimentRequest<'_>) -> Result<Option<Cost>, ExperimentError> {
    request.check_weights(Scale::Paper)?;
    let store = Store::open(&request.out.join(request.experiment.name()).join(CASES))?;
    let scope = Scope::Whole;
    let run =
        ExperimentRun { request, store, scope, on_event: &mut |_: ExperimentEvent<'_>| ControlFlow::Continue(()) };
    match (Study::of(request.experiment, Scale::Paper), request.experiment) {
        (Some(study), _) => cost::of_training(&run, &study),
        (None, _) => attacks::cost(&run),
    }
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

/// The cases of an experiment at the small scale, as formulas name them.
fn cases(experiment: Experiment) -> Vec<String> {
    match (experiment, Study::of(experiment, Scale::Small)) {
        (Experiment::TradeOff, _) => trade_off::cases(),
        (_, Some(study)) => study.cases.into_iter().map(|case| case.key).collect(),
        (Experiment::AttacksCnn | Experiment::AttacksVit, None) => attacks::cases(experiment),
        (_, None) => update_ratios::cases(),
    }
}

/// Writes `README.md`, the page over all claims and reports in a folder, and returns its path.
///
/// # Errors
/// [`ExperimentError`]: a report cannot be read, or the page cannot be written.
pub fn write_overview(folder: &Path) -> Result<PathBuf, ExperimentError> {
    let path = folder.join("README.md");
    write(&path, overview(folder)?.as_bytes())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_asks_its_study_for_cases_it_has() {
        check_cases(&cases).unwrap();
    }
}
