//! What a scale asks of the one who runs it.

use crate::{bench::Request, catalogue::Scale, error::PapersError, study::is_pretrained};

/// The key that sets where weights come from, if it is not what the study says.
///
/// # Errors
/// The papers' pretrained weights come with no program of ours.
pub(super) fn start(request: &Request<'_>) -> Result<Option<String>, PapersError> {
    match &request.weights {
        Some(path) => Ok(Some(format!("start={}", path.display()))),
        None if request.scale == Scale::Paper && is_pretrained(request.experiment) => Err(PapersError::NeedsWeights {
            experiment: request.experiment.name(),
            model: "vit_small_patch16_224".to_owned(),
        }),
        None => Ok(None),
    }
}
