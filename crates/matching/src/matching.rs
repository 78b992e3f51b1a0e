//! The search itself, one step at a time.

use crate::{
    CannotMatch, Evidence, Inputs, Network, Objective, Terms,
    picture::{normalise, to_hwc},
    sign_adam::SignAdam,
    total_variation::add_total_variation,
};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

/// Batches of this size and above are refused.
const TOO_MANY: usize = 4;
/// What was measured at that size, in the words of the refusal.
pub(crate) const BATCH_CEILING: &str = "Four photographs, unmasked and with known labels, came back from \
    vit_nano_patch4_32 with a mean SSIM of 0.35 (0.12 to 0.54) after 800 iterations, below the 0.5 that counts as seen; \
    attack smaller batches";
/// e ||v|| in units of ||w||.
const SHIFT: f64 = 1e-3;

/// Share by which the objective has to fall in an eighth of the schedule for the search to go on.
const LEAST_FALL: f64 = 0.01;

/// What f32 gradients leave of an objective that is zero.
const ROUNDING: f64 = 1e-6;

/// Eighths of all iterations at which the step size falls to a tenth.
const DROPS: [usize; 3] = [3, 5, 7];

/// How long and how fast to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Steps in all. The step size falls to a tenth at 3/8, 5/8 and 7/8 of them.
    pub iterations: usize,
    /// The first step size, in units of x in [-1, 1]. Trained models want 0.05 or less.
    pub step: f64,
    /// Weight of total variation in the objective.
    pub variation: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { iterations: 2000, step: 0.1, variation: 0.003 }
    }
}

impl Settings {
    /// The step size of iteration `iteration`, counted from 0.
    fn rate(&self, iteration: usize) -> f64 {
        let drops = DROPS.iter().filter(|&&eighths| 8 * iteration >= eighths * self.iterations).count();
        self.step * 0.1f64.powi(drops as i32)
    }

    /// The iteration at which the step size falls for the first time.
    fn first_drop(&self) -> usize {
        (DROPS[0] * self.iterations).div_ceil(8)
    }
}

/// What is matched: a model, what its gradient is compared with, and how.
#[derive(Debug)]
pub struct Problem<N> {
    network: N,
    objective: Objective,
    evidence: Evidence,
}

impl<N: Network> Problem<N> {
    /// Checks that `evidence`, a whole update, is one of `network`, and that it says something about the picture.
    ///
    /// # Errors
    /// The update has too few values, a term of the objective has nothing to compare with, the position embedding was
    /// held fixed and the objective asks for it, or four and more pictures were mixed into the update.
    pub fn new(network: N, objective: Objective, evidence: Evidence) -> Result<Self, CannotMatch> {
        let batch = network.inputs().batch;
        if batch >= TOO_MANY {
            return Err(CannotMatch::Batch { batch });
        }
        Self::of_any_batch(network, objective, evidence)
    }

    /// The same for batches of any size: for measuring what becomes of them.
    ///
    /// # Errors
    /// As [`Problem::new`], but for the batch.
    pub fn of_any_batch(network: N, objective: Objective, mut evidence: Evidence) -> Result<Self, CannotMatch> {
        let expected = network.weights().len();
        if evidence.len() < expected || expected < objective.reach() {
            return Err(CannotMatch::UpdateLength { found: evidence.len(), expected: expected.max(objective.reach()) });
        }
        evidence.truncate(expected);
        objective.check(&evidence)?;
        Ok(Self { network, objective, evidence })
    }

    /// The model.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// The terms at x, and d(their sum)/dx by central differences of the gradient with respect to x.
    pub async fn evaluate(&self, x: &[f64]) -> Result<(Terms, Vec<f64>), CannotMatch> {
        let failed = |error: N::Error| CannotMatch::Network(Box::new(error));
        let gradient = self.network.gradient(x).await.map_err(failed)?;
        let (terms, mut shift) = self.objective.evaluate(&gradient, &self.evidence);
        let length = norm(&shift);
        if length == 0.0 {
            return Ok((terms, vec![0.0; x.len()]));
        }
        let e = SHIFT * norm(self.network.weights()) / length;
        shift.iter_mut().for_each(|shift| *shift *= e);
        let mut slope = self.network.input_gradient_along(x, &shift).await.map_err(failed)?;
        slope.iter_mut().for_each(|slope| *slope /= e);
        Ok((terms, slope))
    }
}

fn has_fallen(from: f64, to: f64) -> bool {
    from - to > LEAST_FALL * from.abs() + ROUNDING
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Whether to go on, and what to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// More steps may help.
    Running,
    /// All steps are done.
    Finished,
    /// The objective did not fall below the start's: the start is the better picture, and is what is shown.
    KeptStart,
}

/// Where the search is after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub iteration: usize,
    /// The objective before this step, total variation included.
    pub objective: f64,
    /// Its terms.
    pub terms: Terms,
    /// `[batch, side, side, 3]` in [0, 1], after this step.
    pub image: Vec<f32>,
    /// Whether to go on.
    pub verdict: Verdict,
}

/// A search for the pictures behind an update.
#[derive(Debug)]
pub struct Matching<N> {
    problem: Problem<N>,
    settings: Settings,
    start: Vec<f64>,
    x: Vec<f64>,
    adam: SignAdam,
    iteration: usize,
    verdict: Verdict,
    fall: Option<Fall>,
}

/// How low the objective came.
#[derive(Debug, Clone, Copy)]
struct Fall {
    /// At the start.
    start: f64,
    /// The lowest up to the last eighth of the schedule that is complete.
    before: f64,
    /// The lowest since then.
    now: f64,
}

impl<N: Network> Matching<N> {
    /// Starts from pictures `[batch, side, side, 3]` in [0, 1], such as a closed form gives.
    ///
    /// # Errors
    /// The start has another size, or holds NaN or infinity.
    pub fn new(problem: Problem<N>, start: &[f32], settings: Settings) -> Result<Self, CannotMatch> {
        let inputs = problem.network.inputs();
        let Inputs { batch, side } = inputs;
        if start.len() != inputs.len() || inputs.is_empty() {
            return Err(CannotMatch::StartLength { found: start.len(), expected: inputs.len(), batch, side });
        }
        if let Some((index, &value)) = start.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(CannotMatch::StartNonFinite { index, value });
        }
        Ok(Self::from_normalised(problem, normalise(inputs, start), settings))
    }

    fn from_normalised(problem: Problem<N>, x: Vec<f64>, settings: Settings) -> Self {
        let adam = SignAdam::new(x.len());
        Self { problem, settings, start: x.clone(), x, adam, iteration: 0, verdict: Verdict::Running, fall: None }
    }

    /// One step down.
    ///
    /// # Errors
    /// The model failed, or the objective is no longer finite.
    pub async fn step(&mut self) -> Result<Progress, CannotMatch> {
        let (terms, mut slope) = self.problem.evaluate(&self.x).await?;
        let variation =
            add_total_variation(self.problem.network.inputs(), &self.x, self.settings.variation, &mut slope);
        let objective = terms.sum() + variation;
        let diverged = |what, value| CannotMatch::Diverged { what, value, iteration: self.iteration };
        if !objective.is_finite() {
            return Err(diverged("the objective", objective));
        }
        if let Some(&value) = slope.iter().find(|value| !value.is_finite()) {
            return Err(diverged("the objective's slope", value));
        }
        self.adam.step(&mut self.x, &slope, self.settings.rate(self.iteration));
        self.iteration += 1;
        self.judge(objective);
        Ok(Progress { iteration: self.iteration, objective, terms, image: self.image(), verdict: self.verdict })
    }

    /// Goes on with another problem, such as the newest update of the same client, from the picture found so far.
    ///
    /// The schedule goes back to its second step size at most, so that the picture is not shaken apart again.
    ///
    /// # Errors
    /// The other problem's pictures have another size or number; nothing is changed then.
    pub fn retarget(&mut self, problem: Problem<N>) -> Result<(), CannotMatch> {
        let (inputs, found) = (problem.network.inputs(), self.x.len());
        if inputs != self.problem.network.inputs() {
            let Inputs { batch, side } = inputs;
            return Err(CannotMatch::StartLength { found, expected: inputs.len(), batch, side });
        }
        self.problem = problem;
        self.start.clone_from(&self.x);
        self.adam = SignAdam::new(found);
        self.iteration = self.iteration.min(self.settings.first_drop());
        self.verdict = Verdict::Running;
        self.fall = None;
        Ok(())
    }

    /// Ends the search when its schedule does, or once the objective has stopped falling; and goes back to the start if
    /// it never fell. That happens on nearly converged models, whose gradients say little about the picture.
    fn judge(&mut self, objective: f64) {
        let fall = self.fall.get_or_insert(Fall { start: objective, before: objective, now: f64::INFINITY });
        fall.now = fall.now.min(objective);
        let eighths = |iteration: usize| 8 * iteration / self.settings.iterations.max(1);
        let is_over = self.iteration >= self.settings.iterations;
        if !is_over && eighths(self.iteration) == eighths(self.iteration - 1) {
            return;
        }
        let has_stalled = !has_fallen(fall.before, fall.now);
        fall.before = fall.before.min(fall.now);
        fall.now = f64::INFINITY;
        // With the first step size the picture may be shaken without coming closer; with the second it settles.
        let is_settled = self.iteration > self.settings.first_drop();
        if is_over || (is_settled && has_stalled) {
            if has_fallen(fall.start, fall.before) {
                self.verdict = Verdict::Finished;
            } else {
                self.verdict = Verdict::KeptStart;
                self.x.clone_from(&self.start);
            }
        }
    }

    /// [`Matching::step`], waiting on the current thread.
    ///
    /// # Errors
    /// As [`Matching::step`].
    #[cfg(not(target_family = "wasm"))]
    pub fn step_blocking(&mut self) -> Result<Progress, CannotMatch> {
        unmask_model::block_on(self.step())
    }

    /// The picture now, `[batch, side, side, 3]` in [0, 1].
    pub fn image(&self) -> Vec<f32> {
        to_hwc(self.problem.network.inputs(), &self.x)
    }
}
