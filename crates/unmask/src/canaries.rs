//! Gaussian noise put to the test, for `audit` and `train`.

use std::ops::ControlFlow;

use anyhow::anyhow;
use indicatif::ProgressBar;
use unmask_attack::CanaryScore;
use unmask_audit::TriedBound;
use unmask_core::{Architecture, GaussianNoise, ModelState};
use unmask_experiments::CanaryTrials;
use unmask_model::{Network, device::OpenDevice};
use unmask_relay::privacy::LARGEST_DELTA;

use crate::{Failure, interrupt::Interrupt, progress};

/// Noise on updates of a model that were computed from `batch` pictures.
#[derive(Debug, Clone, Copy)]
pub struct NoisyRound<'a> {
    pub model: Architecture,
    pub state: &'a ModelState,
    pub noise: GaussianNoise,
    pub batch: usize,
    /// Number of threads; one per processor if absent.
    pub threads: Option<usize>,
}

/// A lower bound of epsilon for one round of FedSGD, by so many trials. `picture` makes pictures `[3, side, side]` in
/// [0, 1] from numbers.
///
/// # Errors
/// The model cannot be run, or the user stopped the trials.
pub fn tried(
    NoisyRound { model, state, noise, batch, threads }: NoisyRound<'_>,
    (trials, seed): (u32, u64),
    picture: &(dyn Fn(u64) -> Vec<f32> + Sync),
    interrupt: &Interrupt,
) -> Result<TriedBound, Failure> {
    let other = |error: &dyn std::fmt::Display| Failure::Other(anyhow!("the noise could not be tried: {error}"));
    let network = Network::new(model, OpenDevice::cpu().device()).map_err(|error| other(&error))?;
    let bar = ProgressBar::new(trials.into());
    progress::style(&bar, progress::STYLE);
    bar.set_message("trials of the noise");
    let trials = CanaryTrials { network: &network, state, noise, batch, trials, seed, threads };
    let score = trials.run(picture, &mut |finished| {
        bar.set_position(finished.into());
        interrupt.flow()
    });
    bar.finish_and_clear();
    let score = score.map_err(|error| other(&error))?;
    if interrupt.flow() == ControlFlow::Break(()) {
        return Err(Failure::Other(anyhow!("the trials of the noise were stopped")));
    }
    let delta = noise.delta().min(LARGEST_DELTA);
    let CanaryScore { trials, right } = score;
    Ok(TriedBound { trials, right, epsilon: score.epsilon(delta), delta, confidence: CanaryScore::CONFIDENCE })
}
