//! Estimates the cost of the papers' scale from measured steps.

use std::{fmt, time::Instant};

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, Rule};
use unmask_model::{ModelError, Network};
use unmask_simulation::ConfigError;

use crate::{catalogue::Scale, error::ExperimentError, plan::TrainingPlan, report::duration, run::ExperimentRun};

const TRAIN: f64 = 50_000.0;
const CLASSES: usize = 10;
const BATCH: usize = 4;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecondsPerPicture {
    pub model: String,
    pub device: String,
    /// Of loss and gradient.
    pub training: f64,
    /// Of logits only.
    pub test: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    pub per_picture: SecondsPerPicture,
    /// Number of forward and backward passes of a picture.
    pub trained: f64,
    /// Number of forward passes only.
    pub tested: f64,
    pub work: String,
}

impl Cost {
    pub fn seconds(&self) -> f64 {
        self.trained * self.per_picture.training + self.tested * self.per_picture.test
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_picture, trained, work, .. } = self;
        write!(
            f,
            "{work} with {}: about {} on {}. A gradient took {:.3} s per picture there, a test {:.3} s; other work on the machine may \
             have slowed both down. On another device, each millisecond that a gradient takes for a picture costs {}; --scale paper --device gpu measures that \
             before it begins.",
            per_picture.model,
            duration(self.seconds()),
            per_picture.device,
            per_picture.training,
            per_picture.test,
            duration(trained / 1000.0),
        )
    }
}

/// The cost of trainings on the request's device. `plan` is the one of the papers' scale.
pub(crate) fn of_trainings(run: &ExperimentRun<'_, '_>, plan: &TrainingPlan) -> Result<Option<Cost>, ExperimentError> {
    let Some(config) = plan.first_config(run.request.seed, &[])? else { return Ok(None) };
    let is_paper = run.request.scale == Scale::Paper;
    let seeds = if is_paper { run.request.seeds(plan.seeds).least } else { plan.seeds.least };
    let trainings = plan.cases.len() as f64 * seeds as f64;
    let epochs = f64::from(config.epochs.unwrap_or(1));
    let rounds = match config.rule {
        Rule::FedSgd => epochs * TRAIN / (config.clients as f64 * f64::from(config.batch)),
        Rule::FedAvg { .. } => epochs,
    };
    // Tests at the start and on the way, and one more at the first test, on the pictures that all trainings share.
    let tests = if config.evaluate_every == 0 { 0.0 } else { 2.0 + rounds / f64::from(config.evaluate_every) };
    Ok(Some(Cost {
        per_picture: measure(run, &config.model)?,
        trained: trainings * epochs * TRAIN,
        tested: trainings * (tests * config.test_pictures as f64 + plan.test_pictures as f64),
        work: format!("{trainings} trainings of {epochs} epochs"),
    }))
}

/// The cost of `searches` by gradient matching with `steps` steps each. A step takes three passes through the model.
pub(crate) fn of_searches(
    run: &ExperimentRun<'_, '_>,
    model: &str,
    searches: usize,
    steps: usize,
) -> Result<Cost, ExperimentError> {
    Ok(Cost {
        per_picture: measure(run, model)?,
        trained: 3.0 * searches as f64 * steps as f64,
        tested: 0.0,
        work: format!("{searches} searches of {steps} steps"),
    })
}

/// Measures once per model and device, after a warm-up step.
fn measure(run: &ExperimentRun<'_, '_>, model: &str) -> Result<SecondsPerPicture, ExperimentError> {
    let device = run.request.device;
    let part = format!("seconds-per-picture-{model}");
    let settings = (device.description(), std::thread::available_parallelism().map_or(1, usize::from));
    if let Some(measured) = run.store.get(&part, &settings)? {
        return Ok(measured);
    }
    let architecture = Architecture::named(model, CLASSES).map_err(ConfigError::from)?;
    let network = Network::new(architecture, device.device())?;
    let state = architecture.initial(1);
    let values = 3 * architecture.side() * architecture.side();
    let images: Vec<f32> = (0..BATCH * values).map(|at| (at % 251) as f32 / 250.0).collect();
    let labels: Vec<usize> = (0..BATCH).collect();
    network.loss_and_gradient_blocking(&state, &images[..values], &labels[..1])?;
    let training = fastest(|| network.loss_and_gradient_blocking(&state, &images, &labels).map(drop))?;
    let test = fastest(|| network.evaluate_blocking(&state, &images, &labels).map(drop))?;
    let measured = SecondsPerPicture { model: model.to_owned(), device: device.description(), training, test };
    run.store.put(&part, &settings, &measured)?;
    Ok(measured)
}

/// Seconds per picture in the fastest of three steps, because other work on the machine can only slow a step down.
fn fastest(mut step: impl FnMut() -> Result<(), ModelError>) -> Result<f64, ExperimentError> {
    let mut fastest = f64::INFINITY;
    for _ in 0..3 {
        let clock = Instant::now();
        step()?;
        fastest = fastest.min(clock.elapsed().as_secs_f64() / BATCH as f64);
    }
    Ok(fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_passes_times_the_seconds_of_each() {
        let per_picture =
            SecondsPerPicture { model: "resnet34".to_owned(), device: "cpu".to_owned(), training: 0.5, test: 0.1 };
        let cost = Cost { per_picture, trained: 10_000.0, tested: 5000.0, work: "2 trainings".to_owned() };
        assert!((cost.seconds() - 5500.0).abs() < 1e-9);
        let text = cost.to_string();
        assert!(text.starts_with("2 trainings with resnet34: about 1.5 hours on cpu"), "{text}");
        assert!(text.contains("each millisecond that a gradient takes for a picture costs 10 seconds"), "{text}");
    }
}
