//! Attacks that search step by step, as seen by their caller.
//!
//! Closed forms are one function call. Gradient matching takes thousands of passes through a model and is implemented
//! next to the models. A relay or a command line only begins it, takes steps, looks at the picture and stops.

use std::fmt;

use unmask_core::{Activation, Architecture, AttackMethod, ModelState, VitConfig};

use crate::{AttackError, WholeUpdate};

/// The input of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchTarget<'a> {
    pub architecture: Architecture,
    /// The model's state when the gradient was taken.
    pub state: &'a ModelState,
    /// The gradient in the layout's order, 0 where hidden. It covers at least the parameters that the method needs.
    pub gradient: &'a [f32],
    /// Which entries of the gradient arrived; `None` if all did, or if the attacker must not know.
    pub kept: Option<&'a [bool]>,
    /// Whether batch norm used the batch's own moments.
    pub is_training: bool,
    /// One label for each picture in the update.
    pub labels: Vec<usize>,
    /// Starting pictures, `[batch, side, side, 3]` in [0, 1].
    pub start: Vec<f32>,
    /// Whether the embeddings' equations exclude every picture but the start, by
    /// [`pixel_uncertainty`](crate::pixel_uncertainty). They hold for any model behind the embeddings, so the search
    /// must not end with another picture, even if its model is not the update's.
    pub is_start_exact: bool,
}

impl SearchTarget<'_> {
    /// Number of values in one picture, 3 side^2.
    pub fn picture_len(&self) -> usize {
        VitConfig::CHANNELS * self.architecture.side().pow(2)
    }
}

/// How long and how fast to search. `None` selects the method's default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SearchOptions {
    /// Total number of steps.
    pub iterations: Option<usize>,
    /// First step size, in units of pixels in [-1, 1]. Trained models need 0.05 or less.
    pub step: Option<f64>,
    /// Seed of the noise that a search starts from if no closed form helps.
    pub seed: u64,
}

impl SearchOptions {
    /// The range of a pixel in [-1, 1], which any longer step leaves.
    const MOST_STEP: f64 = 2.0;

    /// Checks that a search can use these options.
    ///
    /// # Errors
    /// The number of iterations or the step size is out of range.
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

/// State of a search after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchProgress {
    /// Steps done.
    pub iteration: usize,
    /// Total number of steps.
    pub iterations: usize,
    /// The value being minimised.
    pub objective: f64,
    /// Pictures `[batch, side, side, 3]` in [0, 1]: the latest ones, or the best ones once the search is over.
    pub image: Vec<f32>,
    pub is_over: bool,
    /// Remark about the result, once the search is over.
    pub note: Option<String>,
}

/// State of an attack that works step by step.
#[derive(Debug, Clone, Copy)]
pub struct AttackProgress<'a> {
    /// Steps done; for a batch, tokens found.
    pub iteration: usize,
    /// Total number of steps, or of tokens.
    pub iterations: usize,
    /// The value being minimised; for a batch, the pictures that are not certain.
    pub objective: f64,
    /// Pictures `[batch, side, side, 3]` in [0, 1]; empty if there are none so far.
    pub pictures: &'a [f32],
}

pub trait Search: Send {
    /// Takes one step.
    ///
    /// # Errors
    /// Why the search cannot go on.
    fn step(&mut self) -> Result<SearchProgress, AttackError>;

    /// Ends the search with the picture that explains the update best; `None` before the first step.
    fn finish(&mut self) -> Option<SearchProgress>;

    /// Continues with another update of the same client from the pictures found so far. The target's own start is
    /// ignored.
    ///
    /// # Errors
    /// Why it cannot; the search stays as it was.
    fn retarget(&mut self, target: &SearchTarget<'_>) -> Result<(), AttackError>;
}

/// Provides searches, and runs the model to check pictures. The default methods provide neither.
pub trait Searches: fmt::Debug + Send + Sync {
    /// Begins a search by `method`, for which [`AttackMethod::is_search`] must hold.
    ///
    /// # Errors
    /// The method is not a search, no searches are available, the update does not fit the model or carries no
    /// information, or it holds too many pictures.
    fn begin(
        &self,
        method: AttackMethod,
        target: &SearchTarget<'_>,
        options: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        let _ = (target, options);
        Err(AttackError::Search {
            reason: format!("{method} searches through the model, and no searches are available"),
        })
    }

    /// Gradient of the mean loss of `pictures`, `[batch, side, side, 3]` in [0, 1], with `labels` at the state of
    /// `whole`. It has as many values as the model has parameters and serves to check reconstructions.
    ///
    /// # Errors
    /// Why the model cannot be run, for example because none is available.
    fn gradient(&self, whole: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        let _ = (labels, pictures);
        Err(AttackError::Search { reason: format!("no {} is available to run", whole.architecture) })
    }

    /// Gradient of <`slope`, logits> of one picture, `[side, side, 3]` in [0, 1]: that of any loss with dl/d(logits) =
    /// `slope` `[classes]`. It serves to check reconstructions of updates whose loss or activation is another one.
    ///
    /// # Errors
    /// As [`gradient`](Self::gradient).
    fn gradient_along(
        &self,
        whole: &WholeUpdate,
        slope: &[f32],
        activation: Activation,
        picture: &[f32],
    ) -> Result<Vec<f64>, AttackError> {
        let _ = (slope, activation, picture);
        Err(AttackError::Search { reason: format!("no {} is available to run", whole.architecture) })
    }
}

/// Provides no searches, for callers that run only closed forms.
#[derive(Debug, Clone, Copy)]
pub struct NoSearches;

impl Searches for NoSearches {}
