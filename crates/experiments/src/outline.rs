//! What an experiment is about to do.

use unmask_simulation::Config;

use crate::{
    bench::Request,
    catalogue::{Experiment, Scale},
    error::PapersError,
    ratios,
    study::Study,
    training::{check_weights, start},
};

/// Whether `request` can be met, as far as that shows before anything is computed.
///
/// # Errors
/// [`PapersError`]: there are no seeds or threads, or the weights are missing, are another model's or would not be used.
pub fn check(request: &Request<'_>) -> Result<(), PapersError> {
    if request.seeds == Some(0) {
        return Err(PapersError::NoSeeds);
    }
    if request.threads == Some(0) {
        return Err(PapersError::NoThreads);
    }
    check_weights(request, request.scale)?;
    start(request).map(drop)
}

/// What `request` runs, in a line: model, pictures, clients and rounds where there are such.
///
/// # Errors
/// [`PapersError`], where the experiment's own settings do not fit.
pub fn outline(request: &Request<'_>) -> Result<String, PapersError> {
    let Request { experiment, scale, seed, seeds, .. } = request;
    let what = match (Study::of(*experiment, *scale), experiment) {
        (Some(study), _) => {
            let trainings = study.cases.len() as u64 * seeds.unwrap_or(study.seeds);
            let config = study.cases.first().map(|case| study.config(case, *seed, &[])).transpose()?;
            config.map(|config| format!("{trainings} trainings, each of {}", training(&config, *scale)))
        }
        (None, Experiment::UpdateRatios) => {
            Some(format!("trainings of {}", training(&ratios::config(request, "none")?, *scale)))
        }
        (None, _) => None,
    };
    let what = what.unwrap_or_else(|| format!("{}, {scale} scale", experiment.title()));
    Ok(format!("{experiment}: {what}"))
}

fn training(config: &Config, scale: Scale) -> String {
    let Config { model, data, clients, rule, rounds, epochs, .. } = config;
    let length = match (rounds, epochs) {
        (Some(rounds), _) => format!("{rounds} rounds"),
        (None, epochs) => format!("{} epochs", epochs.unwrap_or(0)),
    };
    format!("{model} on {data} with {clients} clients for {length} of {rule} ({scale} scale)")
}
