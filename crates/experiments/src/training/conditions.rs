//! What a scale asks of the one who runs it.

use unmask_simulation::check_start;

use crate::{bench::Request, catalogue::Scale, error::PapersError, study::Study};

/// The key that sets where weights come from, if it is not what the study says.
///
/// # Errors
/// The papers' pretrained weights come with no program of ours.
pub(crate) fn start(request: &Request<'_>) -> Result<Option<String>, PapersError> {
    match &request.weights {
        Some(path) => Ok(Some(format!("start={}", path.display()))),
        None if request.scale == Scale::Paper && request.experiment.takes_weights() => Err(PapersError::NeedsWeights {
            experiment: request.experiment.name(),
            model: "vit_small_patch16_224".to_owned(),
        }),
        None => Ok(None),
    }
}

/// Whether the weights that are given, if any are, are those of the model that the experiment trains at `scale`.
///
/// # Errors
/// They are not, or the experiment has no use for them.
pub(crate) fn check_weights(request: &Request<'_>, scale: Scale) -> Result<(), PapersError> {
    let Some(path) = &request.weights else { return Ok(()) };
    let experiment = request.experiment;
    let study = Study::of(experiment, scale).filter(|_| experiment.takes_weights());
    let Some(study) = study else { return Err(PapersError::IdleWeights { experiment: experiment.name() }) };
    let Some(case) = study.cases.first() else { return Ok(()) };
    let start = format!("start={}", path.display());
    Ok(check_start(&study.config(case, request.seed, &[start])?)?)
}
