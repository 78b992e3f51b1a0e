//! The search itself, one step at a time.

use crate::{
    Inputs, MatchingError, Objective, Oracle, ReceivedGradient, Terms,
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
pub struct Problem<O> {
    oracle: O,
    objective: Objective,
    evidence: ReceivedGradient,
}

impl<O: Oracle> Problem<O> {
    /// Checks that `evidence`, a whole update, is one of `network`, and that it says something about the picture.
    ///
    /// # Errors
    /// The update has too few values, a term of the objective has nothing to compare with, the position embedding was
    /// held fixed and the objective asks for it, or four and more pictures were mixed into the update.
    pub fn new(oracle: O, objective: Objective, evidence: ReceivedGradient) -> Result<Self, MatchingError> {
        let batch = oracle.inputs().batch;
        if batch >= TOO_MANY {
            return Err(MatchingError::Batch { batch });
        }
        Self::of_any_batch(oracle, objective, evidence)
    }

    /// The same for batches of any size: for measuring what becomes of them.
    ///
    /// # Errors
    /// As [`Problem::new`], but for the batch.
    pub fn of_any_batch(
        oracle: O,
        objective: Objective,
        mut evidence: ReceivedGradient,
    ) -> Result<Self, MatchingError> {
        let expected = oracle.weights().len();
        if evidence.len() < expected || expected < objective.reach() {
            return Err(MatchingError::UpdateLength {
                found: evidence.len(),
                expected: expected.max(objective.reach()),
            });
        }
        evidence.truncate(expected);
        objective.check(&evidence)?;
        Ok(Self { oracle, objective, evidence })
    }

    /// What is asked for gradients.
    pub fn oracle(&self) -> &O {
        &self.oracle
    }

    /// The terms at x, and d(their sum)/dx by central differences of the gradient with respect to x.
    pub async fn evaluate(&self, x: &[f64]) -> Result<(Terms, Vec<f64>), MatchingError> {
        let failed = |error: O::Error| MatchingError::Network(Box::new(error));
        let gradient = self.oracle.gradient(x).await.map_err(failed)?;
        let (terms, mut shift) = self.objective.evaluate(&gradient, &self.evidence);
        let length = norm(&shift);
        if length == 0.0 {
            return Ok((terms, vec![0.0; x.len()]));
        }
        let e = SHIFT * norm(self.oracle.weights()) / length;
        shift.iter_mut().for_each(|shift| *shift *= e);
        let mut slope = self.oracle.input_gradient_along(x, &shift).await.map_err(failed)?;
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
pub enum SearchVerdict {
    /// More steps may help.
    Running,
    /// It is over. Of all pictures that it came by, the one that explains the update best is shown.
    Finished,
    /// It is over, and none explains the update better than the start, which is shown.
    KeptStart,
}

/// Where the search is after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchingProgress {
    /// Steps done.
    pub iteration: usize,
    /// Before this step, total variation included; of the picture shown once the search is over.
    pub objective: f64,
    /// Its terms.
    pub terms: Terms,
    /// `[batch, side, side, 3]` in [0, 1]: after this step, or the one to keep once the search is over.
    pub image: Vec<f32>,
    /// Whether to go on.
    pub verdict: SearchVerdict,
}

/// A search for the pictures behind an update.
#[derive(Debug)]
pub struct Matching<O> {
    problem: Problem<O>,
    settings: Settings,
    x: Vec<f64>,
    adam: SignAdam,
    iteration: usize,
    looked_at: Option<LookedAt>,
}

/// What the search has looked at so far.
#[derive(Debug)]
struct LookedAt {
    start: Iterate,
    /// The picture with the least misfit, the start among them.
    best: Iterate,
    /// The lowest objective up to the last eighth of the schedule that is complete.
    before: f64,
    /// The lowest since then.
    now: f64,
}

/// A picture and how it was found.
#[derive(Debug, Clone)]
struct Iterate {
    x: Vec<f64>,
    terms: Terms,
    objective: f64,
}

impl Iterate {
    /// How much of the update it leaves unexplained. Total variation is left out: it is what pictures are like, and says
    /// nothing about this one. On an unmasked update it draws the search away from a start that is exact.
    fn misfit(&self) -> f64 {
        self.terms.sum()
    }
}

impl LookedAt {
    fn new(start: Iterate) -> Self {
        let objective = start.objective;
        Self { best: start.clone(), start, before: objective, now: objective }
    }

    fn look_at(&mut self, iterate: Iterate) {
        self.now = self.now.min(iterate.objective);
        if iterate.misfit() < self.best.misfit() {
            self.best = iterate;
        }
    }

    /// Begins the next eighth of the schedule; whether the objective did not fall in the one that ends.
    fn has_stalled(&mut self) -> bool {
        let has_stalled = !has_fallen(self.before, self.now);
        self.before = self.before.min(self.now);
        self.now = f64::INFINITY;
        has_stalled
    }

    /// The picture to keep. A start that is bettered by no more than rounding is kept: on nearly converged models, whose
    /// gradients say little about the picture, less misfit means nothing.
    fn kept(&self) -> (&Iterate, SearchVerdict) {
        if has_fallen(self.start.misfit(), self.best.misfit()) {
            (&self.best, SearchVerdict::Finished)
        } else {
            (&self.start, SearchVerdict::KeptStart)
        }
    }
}

impl<O: Oracle> Matching<O> {
    /// Starts from pictures `[batch, side, side, 3]` in [0, 1], such as a closed form gives.
    ///
    /// # Errors
    /// The start has another size, or holds NaN or infinity.
    pub fn new(problem: Problem<O>, start: &[f32], settings: Settings) -> Result<Self, MatchingError> {
        let inputs = problem.oracle.inputs();
        let Inputs { batch, side } = inputs;
        if start.len() != inputs.len() || inputs.is_empty() {
            return Err(MatchingError::StartLength { found: start.len(), expected: inputs.len(), batch, side });
        }
        if let Some((index, &value)) = start.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(MatchingError::StartNonFinite { index, value });
        }
        Ok(Self::from_normalised(problem, normalise(inputs, start), settings))
    }

    fn from_normalised(problem: Problem<O>, x: Vec<f64>, settings: Settings) -> Self {
        let adam = SignAdam::new(x.len());
        Self { problem, settings, x, adam, iteration: 0, looked_at: None }
    }

    /// One step down.
    ///
    /// # Errors
    /// The model failed, or the objective is no longer finite.
    pub async fn step(&mut self) -> Result<MatchingProgress, MatchingError> {
        let (terms, mut slope) = self.problem.evaluate(&self.x).await?;
        let variation = add_total_variation(self.problem.oracle.inputs(), &self.x, self.settings.variation, &mut slope);
        let objective = terms.sum() + variation;
        let diverged = |what, value| MatchingError::Diverged { what, value, iteration: self.iteration };
        if !objective.is_finite() {
            return Err(diverged("the objective", objective));
        }
        if let Some(&value) = slope.iter().find(|value| !value.is_finite()) {
            return Err(diverged("the objective's slope", value));
        }
        let iterate = Iterate { x: self.x.clone(), terms, objective };
        match &mut self.looked_at {
            Some(looked_at) => looked_at.look_at(iterate),
            None => self.looked_at = Some(LookedAt::new(iterate)),
        }
        self.adam.step(&mut self.x, &slope, self.settings.rate(self.iteration));
        self.iteration += 1;
        if self.is_over()
            && let Some(found) = self.finish()
        {
            return Ok(found);
        }
        let (iteration, verdict) = (self.iteration, SearchVerdict::Running);
        Ok(MatchingProgress { iteration, objective, terms, image: self.image(), verdict })
    }

    /// Ends the search where it is, with the picture that explains the update best; `None` before the first step.
    pub fn finish(&mut self) -> Option<MatchingProgress> {
        let (&Iterate { ref x, terms, objective }, verdict) = self.looked_at.as_ref()?.kept();
        self.x.clone_from(x);
        Some(MatchingProgress { iteration: self.iteration, objective, terms, image: self.image(), verdict })
    }

    /// Goes on with another problem, such as the newest update of the same client, from the picture found so far.
    ///
    /// The schedule goes back to its second step size at most, so that the picture is not shaken apart again.
    ///
    /// # Errors
    /// The other problem's pictures have another size or number; nothing is changed then.
    pub fn retarget(&mut self, problem: Problem<O>) -> Result<(), MatchingError> {
        let (inputs, found) = (problem.oracle.inputs(), self.x.len());
        if inputs != self.problem.oracle.inputs() {
            let Inputs { batch, side } = inputs;
            return Err(MatchingError::StartLength { found, expected: inputs.len(), batch, side });
        }
        self.problem = problem;
        self.adam = SignAdam::new(found);
        self.iteration = self.iteration.min(self.settings.first_drop());
        self.looked_at = None;
        Ok(())
    }

    /// Whether the schedule has ended, or the objective has stopped falling.
    fn is_over(&mut self) -> bool {
        let eighths = |iteration: usize| 8 * iteration / self.settings.iterations.max(1);
        if self.iteration >= self.settings.iterations {
            return true;
        }
        if eighths(self.iteration) == eighths(self.iteration - 1) {
            return false;
        }
        let has_stalled = self.looked_at.as_mut().is_some_and(LookedAt::has_stalled);
        // With the first step size the picture may be shaken without coming closer; with the second it settles.
        has_stalled && self.iteration > self.settings.first_drop()
    }

    /// [`Matching::step`], waiting on the current thread.
    ///
    /// # Errors
    /// As [`Matching::step`].
    #[cfg(not(target_family = "wasm"))]
    pub fn step_blocking(&mut self) -> Result<MatchingProgress, MatchingError> {
        unmask_model::block_on(self.step())
    }

    /// The picture now, `[batch, side, side, 3]` in [0, 1].
    pub fn image(&self) -> Vec<f32> {
        to_hwc(self.problem.oracle.inputs(), &self.x)
    }
}
