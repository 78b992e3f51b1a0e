//! The search, one step at a time.

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

/// Smallest refused batch.
const TOO_MANY: usize = 4;

/// Relative fall that counts as progress: of the objective per eighth of the schedule, or of the squared misfit.
const LEAST_FALL: f64 = 0.01;

/// Rounding error of f32 gradients in an objective or a squared misfit that should be zero.
const ROUNDING: f64 = 1e-6;

/// A start with this cosine distance is far from the picture.
const FAR: f64 = 0.1;

/// The step size drops to a tenth at each of these eighths of the schedule.
const DROPS: [usize; 3] = [3, 5, 7];

const KEPT_START: &str = "No picture was found that explains the update better than the one the search started from.";

const EXACT_START: &str =
    "The search started from a picture that solves the embeddings' equations exactly, and ends with it.";

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatchingOptions {
    /// Total steps. The step size drops to a tenth at 3/8, 5/8 and 7/8 of them.
    pub iterations: usize,
    /// The first step size, in units of x in [-1, 1]. Trained models need 0.05 or less.
    pub step: f64,
    /// Weight of total variation in the objective. [`Objective::Cosine`] reduces it if the start leaves little
    /// unexplained.
    pub variation: f64,
    /// Whether the start is known to be the picture behind the update. If so, the search ends with it.
    pub is_start_exact: bool,
}

impl Default for MatchingOptions {
    fn default() -> Self {
        Self { iterations: 2000, step: 0.1, variation: 0.003, is_start_exact: false }
    }
}

impl MatchingOptions {
    /// Returns the step size of an iteration, counted from 0.
    fn rate(&self, iteration: usize) -> f64 {
        let drops = DROPS.iter().filter(|&&eighths| 8 * iteration >= eighths * self.iterations).count();
        self.step * 0.1f64.powi(drops as i32)
    }

    /// Returns the iteration at which the step size first drops.
    fn first_drop(&self) -> usize {
        (DROPS[0] * self.iterations).div_ceil(8)
    }
}

/// A model, the received gradient, and the objective that compares them.
#[derive(Debug)]
pub struct Problem {
    oracle: NetworkOracle,
    objective: Objective,
    evidence: ReceivedGradient,
}

impl Problem {
    /// Checks that `evidence`, a whole update, fits the network and says something about the picture.
    ///
    /// # Errors
    /// The update has too few values, a term of the objective has nothing to compare with, the objective needs the
    /// position embedding but it was held fixed, or the update mixes four or more pictures.
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

    /// Returns the terms at x, d(their sum)/dx, and the misfit of x: min over s of ||s g(x) - g|| / ||g|| over the
    /// compared entries.
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
    /// Returns the factor for total variation's weight and for [`ROUNDING`], from the terms at the start.
    ///
    /// If the picture hardly affects the gradient, the cosine term is tiny from the start: 4e-6 for a LeNet with its
    /// usual weights. With full weight, the search would only smooth the picture, and any gain would count as rounding.
    /// The rounding error of the cosine itself is far smaller: the square of f32's.
    fn share(&self, start: Terms) -> f64 {
        match self.objective {
            Objective::Cosine => (start.sum() / FAR).min(1.0),
            Objective::Tokens(_) => 1.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub terms: Terms,
    /// d(sum of the terms)/dx.
    pub slope: Vec<f64>,
    /// The share of the update that x leaves unexplained, from 0 to 1.
    pub misfit: f64,
}

/// `share` scales [`ROUNDING`], as it scales total variation.
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
    /// The final progress, once the search is over.
    over: Option<SearchProgress>,
}

#[derive(Debug)]
struct LookedAt {
    start: Iterate,
    /// The picture with the least misfit, which may be the start.
    best: Iterate,
    /// The lowest objective up to the last complete eighth of the schedule.
    before: f64,
    /// The lowest objective since then.
    now: f64,
    /// [`Problem::share`] of the start.
    share: f64,
}

#[derive(Debug, Clone)]
struct Iterate {
    x: Vec<f64>,
    /// The share of the update that it leaves unexplained. Excludes total variation, which describes pictures in
    /// general and not this one: on an unmasked update it would pull the search away from an exact start.
    misfit: f64,
    /// Includes total variation.
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

    /// Begins the next eighth of the schedule. Returns whether the objective failed to fall in the one that ends.
    fn has_stalled(&mut self) -> bool {
        let has_stalled = !has_fallen(self.before, self.now, self.share);
        self.before = self.before.min(self.now);
        self.now = f64::INFINITY;
        has_stalled
    }

    /// Returns the picture to keep, and whether it is the start. Keeps the start unless the best misfit is clearly
    /// lower: on nearly converged models, gradients say little about the picture, and a slightly smaller misfit means
    /// nothing.
    fn kept(&self) -> (&Iterate, bool) {
        // The objective scales with the square of the misfit.
        let is_start = !has_fallen(self.start.misfit.powi(2), self.best.misfit.powi(2), self.share);
        (if is_start { &self.start } else { &self.best }, is_start)
    }
}

impl Matching {
    /// Starts from pictures `[batch, side, side, 3]` in [0, 1], for example from a closed form.
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

    /// Takes one descent step. Once the search is over, returns its final progress again. The reported objective is
    /// that of the picture before the step.
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

    /// Ends the search with the picture that explains the update best. `None` before the first step.
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

    /// Continues with another problem, such as the client's newest update, from the picture found so far.
    ///
    /// Rewinds the schedule only to its second step size: the first one would destroy the picture again.
    ///
    /// # Errors
    /// The other problem's pictures have another size or number. The search is then unchanged.
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
        // The exact solution of one update is an ordinary start for the next one.
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
        // The first step size may shake the picture without progress; with the second it settles.
        has_stalled && self.iteration > self.options.first_drop()
    }

    /// Returns the current pictures, `[batch, side, side, 3]` in [0, 1].
    pub fn image(&self) -> Vec<f32> {
        to_hwc(self.problem.oracle.inputs(), &self.x)
    }
}
