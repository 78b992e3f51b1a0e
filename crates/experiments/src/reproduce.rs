//! An experiment from the request to the files.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    thread,
};

use jiff::Timestamp;
use serde_json::json;
use unmask_core::{CurveProvenance, TradeOffCurve, processor_name};

use crate::{
    attacks,
    catalogue::{Experiment, Scale},
    claim::{Claim, check_cases, tally, verdict},
    cost::{self, Cost},
    error::ExperimentError,
    overview::overview,
    report::{Findings, Provenance, report_page},
    request::ExperimentRequest,
    run::{ExperimentEvent, ExperimentRun, OnEvent},
    store::{Store, write},
    study::Study,
    trade_off, training, update_ratios,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Reproduced {
    /// The folder with `report.html`, `results.json`, `results.csv` and `run.json`, and of [`Experiment::TradeOff`]
    /// `trade-off.json`.
    pub folder: PathBuf,
    pub claims: Vec<Claim>,
}

/// Runs an experiment and writes its report to a folder of its name in [`ExperimentRequest::out`]; `None` if `on_event` ended it before
/// the last part. Finished parts are kept either way.
///
/// # Errors
/// [`ExperimentError`]: pictures or weights are missing, the folder cannot be written, or the computation failed. Where no
/// part is kept, no folder is left behind.
pub fn reproduce(
    request: &ExperimentRequest<'_>,
    on_event: OnEvent<'_>,
) -> Result<Option<Reproduced>, ExperimentError> {
    request.check()?;
    check_cases(&cases)?;
    let folder = request.out.join(request.experiment.name());
    let mut run = ExperimentRun { request, store: Store::open(&folder.join("parts"))?, on_event };
    let found = match (Study::of(request.experiment, request.scale), request.experiment) {
        (Some(study), Experiment::TradeOff) => trade_off::run(&mut run, &study),
        (Some(study), _) => training::run(&mut run, &study),
        (None, Experiment::AttacksResnet) => attacks::run_resnet(&mut run),
        (None, Experiment::AttacksVit) => attacks::run_vit(&mut run),
        (None, _) => update_ratios::run(&mut run),
    };
    let findings = match found {
        Err(ExperimentError::Stopped) => return Ok(None),
        found => found?,
    };
    let provenance = provenance(request, &findings);
    let Findings { claims, records, results, curve, .. } = &findings;
    let encoded = |value: &serde_json::Value| -> Vec<u8> { format!("{value:#}\n").into_bytes() };
    write(&folder.join("report.html"), report_page(&provenance, &findings).as_bytes())?;
    write(&folder.join("results.json"), &encoded(&json!({ "claims": claims, "results": results })))?;
    write(&folder.join("results.csv"), records)?;
    write(
        &folder.join("run.json"),
        &encoded(&json!({ "provenance": provenance, "verdict": verdict(claims), "tally": tally(claims) })),
    )?;
    if let Some((setup, points)) = curve {
        let (setup, points) = (setup.clone(), points.clone());
        let curve = TradeOffCurve { provenance: CurveProvenance::from(&provenance), setup, points };
        write(&folder.join("trade-off.json"), &encoded(&json!(curve)))?;
    }
    write_overview(&request.out)?;
    Ok(Some(Reproduced { folder, claims: findings.claims }))
}

/// What the experiment takes at the papers' scale, from steps that are measured now; `None` where a model's steps do not
/// tell.
///
/// # Errors
/// [`ExperimentError`]: the weights are another model's, the model cannot be run, or the folder cannot be written.
pub fn estimate(request: &ExperimentRequest<'_>) -> Result<Option<Cost>, ExperimentError> {
    request.check_weights(Scale::Paper)?;
    let store = Store::open(&request.out.join(request.experiment.name()).join("parts"))?;
    let run = ExperimentRun { request, store, on_event: &mut |_: ExperimentEvent<'_>| ControlFlow::Continue(()) };
    match (Study::of(request.experiment, Scale::Paper), request.experiment) {
        (Some(study), _) => cost::of_training(&run, &study),
        (None, Experiment::AttacksResnet) => attacks::resnet_cost(&run).map(Some),
        (None, _) => Ok(None),
    }
}

fn provenance(request: &ExperimentRequest<'_>, findings: &Findings) -> Provenance {
    Provenance {
        experiment: request.experiment,
        scale: request.scale,
        seed: request.seed,
        seeds: findings.seeds,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: request.commit.as_ref().map(|commit| commit.sha.clone()),
        has_local_changes: request.commit.as_ref().is_some_and(|commit| commit.has_local_changes),
        device: request.device.description(),
        processor: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(processor_name).map(str::to_owned),
        threads: request.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
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
        (Experiment::AttacksResnet, None) => attacks::resnet_cases(),
        (Experiment::AttacksVit, None) => attacks::vit_cases(),
        (_, None) => update_ratios::cases(),
    }
}

/// Writes the page over all claims and reports of a folder, `README.md`, and gives its path.
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
