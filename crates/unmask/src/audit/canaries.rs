//! Gaussian noise put to the test.

use std::ops::ControlFlow;

use anyhow::anyhow;
use indicatif::ProgressBar;
use unmask_audit::{Deployment, TriedBound, synthetic_picture};
use unmask_data::hwc_to_chw;
use unmask_experiments::{CanaryScore, CanaryTrials};
use unmask_model::{Network, device::OpenDevice};
use unmask_relay::privacy::LARGEST_DELTA;
use unmask_simulation::{StartWeights, load_start};

use crate::{Failure, interrupt::Interrupt, progress};

/// A lower bound of epsilon for one round, by trials on synthetic pictures; `None` without noise, where the server sees no
/// single gradients, or if the model cannot be run.
///
/// # Errors
/// The weights do not fit, the model cannot be run, or the user stopped the trials.
pub(super) fn tried(
    deployment: &Deployment,
    start: &StartWeights,
    cannot_run: bool,
    (trials, seed): (u32, u64),
    interrupt: &Interrupt,
) -> Result<Option<TriedBound>, Failure> {
    let Deployment { model, rule, batch, defence, secure_sum, .. } = *deployment;
    let Some(noise) = defence.noise().filter(|_| !(cannot_run || secure_sum || rule.is_fedavg() || trials == 0)) else {
        return Ok(None);
    };
    let other = |error: &dyn std::fmt::Display| Failure::Other(anyhow!("the noise could not be tried: {error}"));
    let (state, _) = load_start(start, model, seed).map_err(|error| Failure::Input(error.into()))?;
    let network = Network::new(model, OpenDevice::cpu().device()).map_err(|error| other(&error))?;
    let side = model.side();
    let picture = |number| hwc_to_chw(&synthetic_picture(side, number), side, side);
    let bar = ProgressBar::new(trials.into());
    progress::style(&bar, progress::STYLE);
    bar.set_message("trials of the noise");
    let trials = CanaryTrials { network: &network, state: &state, noise: *noise, batch, trials, seed };
    let score = trials.run(&picture, &mut |finished| {
        bar.set_position(finished.into());
        interrupt.flow()
    });
    bar.finish_and_clear();
    let score = score.map_err(|error| other(&error))?;
    if interrupt.flow() == ControlFlow::Break(()) {
        return Err(Failure::Other(anyhow!("stopped; the same command begins again")));
    }
    let delta = noise.delta().min(LARGEST_DELTA);
    let CanaryScore { trials, right } = score;
    Ok(Some(TriedBound { trials, right, epsilon: score.epsilon(delta), delta, confidence: CanaryScore::CONFIDENCE }))
}
