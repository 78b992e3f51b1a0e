//! The search itself, one step at a time.

use unmask_attack::{AttackError, SearchProgress, TensorSource};
use unmask_model::ModelError;

use crate::{
    Inputs, NetworkOracle, Objective, ReceivedGradient, Terms,
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

/// Share by which the objective has to fall in an eighth of the schedule for the search to go on.
const LEAST_FALL: f64 = 0.01;

/// What f32 gradients leave of an objective, or of a squared misfit, that is zero.
const ROUNDING: f64 = 1e-6;

/// A start of this cosine distance is far from the picture.
const FAR: f64 = 0.1;

/// Eighths of all iterations at which the step size falls to a tenth.
const DROPS: [usize; 3] = [3, 5, 7];

/// Said of a search that ends where it began.
const KEPT_START: &str = "No picture was found that explains the update better than the one the search started from.";

/// Said of a search that could only make its start worse.
const EXACT_START: &str =
    "The search started from a picture that solves the embeddings' equations exactly, and ends with it.";

/// How long and how fast to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatchingOptions {
    /// Steps in all. The step size falls to a tenth at 3/8, 5/8 and 7/8 of them.
    pub iterations: usize,
    /// The first step size, in units of x in [-1, 1]. Trained models want 0.05 or less.
    pub step: f64,
    /// Weight of total variation in the objective; that of the cosine takes less of it where a start leaves little unexplained.
    pub variation: f64,
    /// Whether the picture that it starts from is known to be the one behind the update: it is what the search ends with.
    pub is_start_exact: bool,
}

impl Default for MatchingOptions {
    fn default() -> Self {
        Self { iterations: 2000, step: 0.1, variation: 0.003, is_start_exact: false }
    }
}

impl MatchingOptions {
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
pub struct Problem {
    oracle: NetworkOracle,
    objective: Objective,
    evidence: ReceivedGradient,
}

impl Problem {
    /// Checks that `evidence`, a whole update, is one of `network`, and that it says something about the picture.
    ///
    /// # Errors
    /// The update has too few values, a term of the objective has nothing to compare with, the position embedding was
    /// held fixed and the objective asks for it, or four and more pictures were mixed into the update.
    pub fn new(
        oracle: NetworkOracle,
        objective: Objective,
        mut evidence: ReceivedGradient,
    ) -> Result<Self, AttackError> {
        let batch = oracle.inputs().batch;
        if batch >= TOO_MANY {
            return Err(AttackError::InseparablePictures { batch });
        }
        let expected = oracle.weights().len().max(objective.reach());
        let found = evidence.len().min(oracle.weights().len());
        if found < expected {
            return Err(AttackError::WrongLength { from: TensorSource::Gradients, found, expected });
        }
        evidence.truncate(expected);
        objective.check(&evidence)?;
        Ok(Self { oracle, objective, evidence })
    }

    /// The terms at x, d(their sum)/dx, and what x leaves unexplained: min over s of ||s g(x) - g|| / ||g|| over the entries
    /// that are compared.
    pub fn evaluate(&self, x: &[f64]) -> Result<Evaluation, AttackError> {
        let failed = |error: ModelError| AttackError::Search { reason: error.to_string() };
        let at = self.oracle.gradient(x).map_err(failed)?;
        let (terms, direction) = self.objective.evaluate(at.gradient(), &self.evidence);
        let misfit = self.objective.misfit(at.gradient(), &self.evidence);
        let slope = self.oracle.input_gradient_along(&at, &direction).map_err(failed)?;
        Ok(Evaluation { terms, slope, misfit })
    }
}

impl Problem {
    /// What share of its weight total variation keeps, and [`ROUNDING`] of its size, by the terms at the start. Where the picture
    /// moves little of the gradient, the cosine is next to nothing from the start on: 4e-6 of a LeNet with its usual weights. At its
    /// whole weight smoothness would then be all that is searched for, and any gain would count as rounding. That of the cosine itself is
    /// far smaller, the square of what f32 rounds.
    fn share(&self, start: Terms) -> f64 {
        match self.objective {
            Objective::Cosine => (start.sum() / FAR).min(1.0),
            Objective::Tokens(_) => 1.0,
        }
    }
}

/// What a problem says of a picture x.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub terms: Terms,
    /// d(sum of the terms)/dx.
    pub slope: Vec<f64>,
    /// What x leaves unexplained: 0 nothing, 1 all.
    pub misfit: f64,
}

/// `share`: of [`ROUNDING`], as of total variation.
fn has_fallen(from: f64, to: f64, share: f64) -> bool {
    from - to > LEAST_FALL * from.abs() + share * ROUNDING
}

/// A search for the pictures behind an update.
#[derive(Debug)]
pub struct Matching {
    problem: Problem,
    options: MatchingOptions,
    x: Vec<f64>,
    adam: SignAdam,
    iteration: usize,
    looked_at: Option<LookedAt>,
    /// The last step's, once there is nothing more to do.
    over: Option<SearchProgress>,
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
    /// [`Problem::share`] of the start.
    share: f64,
}

/// A picture and how it was found.
#[derive(Debug, Clone)]
struct Iterate {
    x: Vec<f64>,
    /// How much of the update it leaves unexplained. Total variation has no part in it: it is what pictures are like, and
    /// says nothing about this one. On an unmasked update it draws the search away from a start that is exact.
    misfit: f64,
    /// With total variation.
    objective: f64,
}

impl LookedAt {
    fn new(start: Iterate, share: f64) -> Self {
        let objective = start.objective;
        Self { best: start.clone(), start, before: objective, now: objective, share }
    }

    fn look_at(&mut self, iterate: Iterate) {
        self.now = self.now.min(iterate.objective);
        if iterate.misfit < self.best.misfit {
            self.best = iterate;
        }
    }

    /// Begins the next eighth of the schedule; whether the objective did not fall in the one that ends.
    fn has_stalled(&mut self) -> bool {
        let has_stalled = !has_fallen(self.before, self.now, self.share);
        self.before = self.before.min(self.now);
        self.now = f64::INFINITY;
        has_stalled
    }

    /// The picture to keep, and whether it is the start. A start that is bettered by no more than rounding is kept: on
    /// nearly converged models, whose gradients say little about the picture, less misfit means nothing.
    fn kept(&self) -> (&Iterate, bool) {
        // The objective goes with the square of the misfit.
        let is_start = !has_fallen(self.start.misfit.powi(2), self.best.misfit.powi(2), self.share);
        (if is_start { &self.start } else { &self.best }, is_start)
    }
}

impl Matching {
    /// Starts from pictures `[batch, side, side, 3]` in [0, 1], such as a closed form gives.
    ///
    /// # Errors
    /// The start has another size, or holds NaN or infinity.
    pub fn new(problem: Problem, start: &[f32], options: MatchingOptions) -> Result<Self, AttackError> {
        let inputs = problem.oracle.inputs();
        let Inputs { batch, side } = inputs;
        if start.len() != inputs.len() || inputs.is_empty() {
            return Err(AttackError::StartLength { found: start.len(), expected: inputs.len(), batch, side });
        }
        if let Some((index, &value)) = start.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(AttackError::NonFiniteStart { index, value });
        }
        Ok(Self::from_normalised(problem, normalise(inputs, start), options))
    }

    fn from_normalised(problem: Problem, x: Vec<f64>, options: MatchingOptions) -> Self {
        let adam = SignAdam::new(x.len());
        Self { problem, options, x, adam, iteration: 0, looked_at: None, over: None }
    }

    /// One step down; once the search is over, its end again. The objective is that of the picture before the step.
    ///
    /// # Errors
    /// The model failed, or the objective is no longer finite.
    pub fn step(&mut self) -> Result<SearchProgress, AttackError> {
        if let Some(over) = &self.over {
            return Ok(over.clone());
        }
        let Evaluation { terms, mut slope, misfit } = self.problem.evaluate(&self.x)?;
        let share = self.looked_at.as_ref().map_or_else(|| self.problem.share(terms), |looked_at| looked_at.share);
        let weight = share * self.options.variation;
        let objective = terms.sum() + add_total_variation(self.problem.oracle.inputs(), &self.x, weight, &mut slope);
        let diverged = |what, value| AttackError::Diverged { what, value, iteration: self.iteration };
        if !objective.is_finite() {
            return Err(diverged("the objective", objective));
        }
        if let Some(&value) = slope.iter().find(|value| !value.is_finite()) {
            return Err(diverged("the objective's slope", value));
        }
        let iterate = Iterate { x: self.x.clone(), misfit, objective };
        match &mut self.looked_at {
            Some(looked_at) => looked_at.look_at(iterate),
            None => self.looked_at = Some(LookedAt::new(iterate, share)),
        }
        self.adam.step(&mut self.x, &slope, self.options.rate(self.iteration));
        self.iteration += 1;
        let end = if self.is_over() { self.finish() } else { None };
        Ok(end.unwrap_or_else(|| self.progress(objective)))
    }

    /// Ends the search where it is, with the picture that explains the update best; `None` before the first step.
    pub fn finish(&mut self) -> Option<SearchProgress> {
        let looked_at = self.looked_at.as_ref()?;
        let is_exact = self.options.is_start_exact;
        let (&Iterate { ref x, objective, .. }, is_start) =
            if is_exact { (&looked_at.start, true) } else { looked_at.kept() };
        self.x.clone_from(x);
        let note = is_start.then(|| if is_exact { EXACT_START } else { KEPT_START }.to_owned());
        self.over = Some(SearchProgress { is_over: true, note, ..self.progress(objective) });
        self.over.clone()
    }

    fn progress(&self, objective: f64) -> SearchProgress {
        let (iteration, iterations) = (self.iteration, self.options.iterations);
        SearchProgress { iteration, iterations, objective, image: self.image(), is_over: false, note: None }
    }

    /// Goes on with another problem, such as the newest update of the same client, from the picture found so far.
    ///
    /// The schedule goes back to its second step size at most, so that the picture is not shaken apart again.
    ///
    /// # Errors
    /// The other problem's pictures have another size or number; nothing is changed then.
    pub fn retarget(&mut self, problem: Problem) -> Result<(), AttackError> {
        let (inputs, found) = (problem.oracle.inputs(), self.x.len());
        if inputs != self.problem.oracle.inputs() {
            let Inputs { batch, side } = inputs;
            return Err(AttackError::StartLength { found, expected: inputs.len(), batch, side });
        }
        self.problem = problem;
        self.adam = SignAdam::new(found);
        self.iteration = self.iteration.min(self.options.first_drop());
        (self.looked_at, self.over) = (None, None);
        // What solved the equations of one update is a start like any other for the next one.
        self.options.is_start_exact = false;
        Ok(())
    }

    /// Whether the schedule has ended, or the objective has stopped falling.
    fn is_over(&mut self) -> bool {
        let eighths = |iteration: usize| 8 * iteration / self.options.iterations.max(1);
        if self.iteration >= self.options.iterations {
            return true;
        }
        if eighths(self.iteration) == eighths(self.iteration - 1) {
            return false;
        }
        let has_stalled = self.looked_at.as_mut().is_some_and(LookedAt::has_stalled);
        // With the first step size the picture may be shaken without coming closer; with the second it settles.
        has_stalled && self.iteration > self.options.first_drop()
    }

    /// The picture now, `[batch, side, side, 3]` in [0, 1].
    pub fn image(&self) -> Vec<f32> {
        to_hwc(self.problem.oracle.inputs(), &self.x)
    }
}
