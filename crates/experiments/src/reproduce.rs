//! The experiments by name: finds the study, and keeps the page over all reports.

use std::path::{Path, PathBuf};

use unmask_data::datasets::default_cifar10_folder;
use unmask_model::device::OpenDevice;

use crate::{
    catalogue::Experiment,
    claim::check_cases,
    cost::Cost,
    error::ExperimentError,
    overview::overview,
    parts::{MergedRun, PartFolder},
    request::{ExperimentRequest, ReproduceSettings, RunRecord},
    run::OnEvent,
    runner::{self, PAGE, Reproduced},
    store::write,
    studies::study,
};

impl ExperimentRequest<'_> {
    /// Checks the request as far as possible before anything is computed.
    ///
    /// # Errors
    /// There are no seeds or threads, or the weights are missing, belong to another model or would not be used.
    pub fn check(&self) -> Result<(), ExperimentError> {
        runner::check(study(self.experiment)?, self)
    }

    /// Describes the run in one line: model, pictures, clients and rounds, where they apply.
    ///
    /// # Errors
    /// The experiment's own settings are invalid.
    pub fn describe(&self) -> Result<String, ExperimentError> {
        runner::describe(study(self.experiment)?, self)
    }
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
    check_claims()?;
    let reproduced = runner::reproduce(study(request.experiment)?, request, on_event)?;
    if reproduced.is_some() {
        write_overview(&request.out)?;
    }
    Ok(reproduced)
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
    check_claims()?;
    runner::reproduce_part(study(request.experiment)?, request, part, on_event)
}

/// Writes the report of a merged experiment and returns the page's path.
///
/// # Errors
/// A file cannot be read or written, or does not match its part.
pub(crate) fn report(merged: &MergedRun<'_>) -> Result<PathBuf, ExperimentError> {
    let RunRecord { build, settings } = merged.run()?;
    let ReproduceSettings { experiment, scale, seed, seeds, has_cifar10, weights, .. } = settings;
    let device = OpenDevice::cpu();
    let request = ExperimentRequest {
        experiment,
        scale,
        seed,
        seeds,
        out: merged.folder.parent().unwrap_or(Path::new("")).to_owned(),
        cifar10: default_cifar10_folder(),
        weights,
        device: &device,
        threads: None,
        commit: None,
    };
    check_claims()?;
    let reproduced = runner::report(study(experiment)?, &request, merged, has_cifar10, build)?;
    write_overview(&request.out)?;
    Ok(reproduced.folder.join(PAGE))
}

/// Estimates the cost of the papers' scale from steps measured now; `None` if a model's steps do not determine it.
///
/// # Errors
/// [`ExperimentError`]: the weights belong to another model, the model cannot be run, or the folder cannot be written.
pub fn estimate(request: &ExperimentRequest<'_>) -> Result<Option<Cost>, ExperimentError> {
    runner::estimate(study(request.experiment)?, request)
}

/// Checks that every claim asks its study for cases that it has.
fn check_claims() -> Result<(), ExperimentError> {
    let cases = |experiment: Experiment| study(experiment).map_or(Vec::new(), |study| study.cases());
    Ok(check_cases(&cases)?)
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
        check_claims().unwrap();
    }
}
