//! Attacks that search step by step, as whoever schedules them sees them.
//!
//! Closed forms are one function call. Gradient matching takes thousands of passes through a model, and is implemented where
//! models are; a relay or a command line only needs to begin it, take a step, look at the picture and stop.

use std::fmt;

use unmask_core::{Architecture, AttackMethod, ModelState, VitConfig};

use crate::{AttackError, WholeUpdate};

/// What a search is given of one update.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchTarget<'a> {
    /// The model.
    pub architecture: Architecture,
    /// Its state when the gradient was taken.
    pub state: &'a ModelState,
    /// The gradient, in the layout's order, zero where hidden. At least those that the method needs.
    pub gradient: &'a [f32],
    /// Which of its entries arrived; `None` where all did, or the attacker is not to know.
    pub kept: Option<&'a [bool]>,
    /// Whether batch norm used the batch's own moments.
    pub is_training: bool,
    /// Labels of the pictures in the update, one for each.
    pub labels: Vec<usize>,
    /// Where to start, `[batch, side, side, 3]` in [0, 1].
    pub start: Vec<f32>,
    /// Whether the embeddings' equations leave no other picture than the start, by
    /// [`pixel_uncertainty`](crate::pixel_uncertainty). They hold whatever the model behind the embeddings is: no search may end
    /// with another picture then, also where its model is not the update's.
    pub is_start_exact: bool,
}

impl SearchTarget<'_> {
    /// Values of one picture, 3 side^2.
    pub fn picture_len(&self) -> usize {
        VitConfig::CHANNELS * self.architecture.side().pow(2)
    }
}

/// How long and how fast to search; `None` takes what suits the method.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SearchOptions {
    /// Steps in all.
    pub iterations: Option<usize>,
    /// The first step size, in units of pixels in [-1, 1]. Trained models want 0.05 or less.
    pub step: Option<f64>,
    /// Of the noise that a search starts from where no closed form helps.
    pub seed: u64,
}

impl SearchOptions {
    /// The range of a pixel in [-1, 1]: a longer step leaves it at once.
    const MOST_STEP: f64 = 2.0;

    /// # Errors
    /// No search can have so many steps, or a step of that size.
    pub fn check(&self) -> Result<(), AttackError> {
        let reason = match (self.iterations, self.step) {
            (Some(0), _) => "a search of 0 iterations finds nothing; give at least 1".to_owned(),
            (_, Some(step)) if !(step > 0.0 && step <= Self::MOST_STEP) => {
                format!("the first step size of a search is {step}; give a number above 0 and up to 2, such as 0.1")
            }
            _ => return Ok(()),
        };
        Err(AttackError::Search { reason })
    }
}

/// Where a search is after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchProgress {
    /// Steps done.
    pub iteration: usize,
    /// Steps to do in all.
    pub iterations: usize,
    /// What is being made small.
    pub objective: f64,
    /// `[batch, side, side, 3]` in [0, 1]: the latest, or the best once it is over.
    pub image: Vec<f32>,
    /// Whether it is over.
    pub is_over: bool,
    /// What to know about the result, once it is over.
    pub note: Option<String>,
}

/// Where an attack that works step by step stands.
#[derive(Debug, Clone, Copy)]
pub struct AttackProgress<'a> {
    /// Steps done.
    pub iteration: usize,
    /// Steps to do in all.
    pub iterations: usize,
    /// What is being made small.
    pub objective: f64,
    /// `[batch, side, side, 3]` in [0, 1]; empty while there is none.
    pub pictures: &'a [f32],
}

/// A search under way.
pub trait Search: Send {
    /// One step.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn step(&mut self) -> Result<SearchProgress, AttackError>;

    /// Ends it where it is, with the picture that explains the update best; `None` before the first step.
    fn finish(&mut self) -> Option<SearchProgress>;

    /// Goes on with another update of the same client from the picture found so far; the target's own start is not used.
    ///
    /// # Errors
    /// Why it cannot; the search goes on as it was.
    fn retarget(&mut self, target: &SearchTarget<'_>) -> Result<(), AttackError>;
}

/// Where searches come from, and what runs the model for a check; without either where nothing is said of it.
pub trait Searches: fmt::Debug + Send + Sync {
    /// Begins a search by `method`, one with [`AttackMethod::is_search`].
    ///
    /// # Errors
    /// Why it cannot: the method is no search, the update does not fit the model or says nothing, or holds
    /// too many pictures; whoever has no searches says that.
    fn begin(
        &self,
        method: AttackMethod,
        target: &SearchTarget<'_>,
        options: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        let _ = (target, options);
        Err(AttackError::Search { reason: format!("{method} searches through the model, and no searches are at hand") })
    }

    /// The gradient of the mean loss of `pictures`, `[batch, side, side, 3]` in [0, 1], with `labels`, at the state with
    /// which `whole` was made: as many values as the model has parameters. By it reconstructions are checked.
    ///
    /// # Errors
    /// Why the model cannot be run; whoever has none at hand says that.
    fn gradient(&self, whole: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        let _ = (labels, pictures);
        Err(AttackError::Search { reason: format!("no {} is at hand to run", whole.architecture) })
    }
}

/// No searches: for whoever runs closed forms alone.
#[derive(Debug, Clone, Copy)]
pub struct NoSearches;

impl Searches for NoSearches {}
