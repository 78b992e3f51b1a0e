//! Attacks that search step by step.

use std::ops::ControlFlow;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{Attack, AttackKind, Evidence, Knowledge, Method, Subject, run_attack};
use unmask_core::{Architecture, ModelState, ParamLayout, VitConfig};

use super::{Attempt, CannotAttempt, Means, Progress};
use crate::laboratory::{Observation, observation::Flat, reading::read_labels, trial::is_early};

pub(super) fn search(
    method: Method,
    observation: &Observation,
    round: &Evidence,
    means: Means<'_>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Attempt, CannotAttempt> {
    if observation.is_encrypted {
        return Err(CannotAttempt::CipherText);
    }
    let mut notes = Vec::new();
    let subject = subject(method, observation, round, means.seed, &mut notes)?;
    let mut search = means.searches.begin(method, &subject, means.options).map_err(CannotAttempt::Search)?;
    loop {
        let step = search.step().map_err(CannotAttempt::Search)?;
        let standing = Progress {
            iteration: step.iteration,
            iterations: step.iterations,
            objective: step.objective,
            pictures: &step.image,
        };
        let is_stopped = progress(standing).is_break() && !step.is_over;
        if is_stopped {
            notes.push(format!("Stopped after {} of {} steps.", step.iteration, step.iterations));
        }
        if is_stopped || step.is_over {
            notes.extend(step.note);
            let side = observation.spec.config().image;
            return Ok(Attempt {
                pictures: step.image.chunks(side * side * VitConfig::CHANNELS).map(<[f32]>::to_vec).collect(),
                seconds: 0.0,
                iterations: Some(step.iteration),
                objective: Some(step.objective),
                singular_ratio: None,
                notes,
            });
        }
    }
}

/// What a search is given: labels are read off the update unless they are known.
fn subject(
    method: Method,
    observation: &Observation,
    round: &Evidence,
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<Subject, CannotAttempt> {
    let (config, batch) = (observation.spec.config(), observation.batch);
    let layout = ParamLayout::vit(&config);
    let labels = match &observation.labels {
        Some(labels) if labels.len() == batch => labels.clone(),
        Some(labels) => return Err(CannotAttempt::LabelCount { labels: labels.len(), batch }),
        None => {
            let read = read_labels(&round.gradients, batch).map_err(CannotAttempt::NoLabels)?.labels;
            let list: Vec<String> = read.iter().map(ToString::to_string).collect();
            notes.push(format!("Labels read off the update: {}.", list.join(", ")));
            read
        }
    };
    let is_everything = matches!(method, Method::Gradients | Method::GradientsAware);
    let gradient = Flat::of(&round.gradients, &layout, |name| is_everything || is_early(name));
    let start = match closed_start(method, round) {
        Some(picture) => picture.repeat(batch),
        None => noise(&config, batch, seed),
    };
    Ok(Subject {
        architecture: Architecture::Vit(observation.spec),
        state: ModelState::from_weights(Flat::of(&round.weights, &layout, |_| true).values),
        gradient: gradient.values,
        kept: gradient.kept,
        labels,
        start,
    })
}

/// What the closed form of the same knowledge finds: a naive attacker must not start from what only a better one sees.
fn closed_start(method: Method, round: &Evidence) -> Option<Vec<f32>> {
    let knowledge = match method {
        Method::Matching => Knowledge::Naive,
        Method::MatchingAware => Knowledge::Aware,
        _ => return None,
    };
    let attack = Attack { kind: AttackKind::Embedding, knowledge };
    run_attack(attack, round).ok().map(|reconstruction| reconstruction.image)
}

/// `[batch, side, side, 3]`, uniform in [0, 1].
fn noise(config: &VitConfig, batch: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values = batch * config.image * config.image * VitConfig::CHANNELS;
    (0..values).map(|_| rng.random_range(0.0..1.0)).collect()
}
