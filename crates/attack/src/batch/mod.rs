//! Batches taken apart.

use std::ops::ControlFlow;

use faer::Mat;
use web_time::Instant;

mod assignment;
mod block;
#[cfg(test)]
mod cases;
mod counting;
mod evidence;
mod inputs;
mod mlp;
mod parallel;
mod patch_space;
mod places;
mod refine;
mod spans;
mod tokens;

pub use counting::most_pictures;
pub use evidence::BatchPicture;

use block::Block;
use evidence::{Judged, RESIDUAL, judge};
use inputs::{Inputs, inputs};
use mlp::MlpSpans;
use patch_space::PatchSpace;
use places::{Places, denoised, pictures, places};
use refine::{Aim, normed_outputs, refine, tokens_of_patches};
use spans::Spans;
use tokens::{Tolerance, find};

use crate::{AttackError, Ending, Evidence};

/// Seed of the search's starts: the same update always gives the same result.
const SEED: u64 = 7;

/// How far the attack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchProgress {
    /// Number of pictures in the update, B.
    pub pictures: usize,
    /// Tokens found so far.
    pub found: usize,
    /// All tokens, B (S + 1).
    pub tokens: usize,
    /// Starts of the search so far.
    pub starts: usize,
    /// Pictures that are certain so far.
    pub certain: usize,
}

/// Receives each step and may end the attack.
pub type OnBatch<'a> = &'a mut dyn FnMut(BatchProgress) -> ControlFlow<()>;

/// A batch taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The pictures that fit the update, the certain ones first. There may be fewer than in the update.
    pub pictures: Vec<BatchPicture>,
    /// How far the attack came.
    pub progress: BatchProgress,
    pub seconds: f64,
    pub ending: Ending,
    /// What was found and what was not, in sentences.
    pub notes: Vec<String>,
}

/// Takes one plain gradient of a batch apart: every picture of an unmodified ViT, from block 0 and the embeddings.
///
/// With N = B (S + 1) tokens below the width D, the gradient of block 0's MLP spans a space that holds every token, and
/// GELU singles them out:
///
/// 1. *Tokens.* [dW1 | db1] = sum_k delta_k [h_k, 1]^T and dW2 = sum_k g_k GELU(W1 h_k + b1)^T. A point h of the first row
///    space whose activations lie in the second one is a token. Levenberg-Marquardt finds them one after the other.
/// 2. *Inputs.* The backward pass of each token gives what attention added to it, and so the input of block 0.
/// 3. *Places.* An input less a position embedding must lie in the set that dl/d(patch embedding) leaves for its patch;
///    what attention mixed tells which tokens belong to one picture.
/// 4. *Refinement.* Each picture is fitted through block 0 to its tokens, then to the row spaces of the gradients.
/// 5. *Evidence.* A picture is certain if its values lie near whole grey levels and it fits the gradients once rounded.
///    Certain pictures leave with their tokens, and the rest is divided again.
///
/// The gradients are those of [`Needs::of_batch`](crate::Needs::of_batch), the weights those at which they were made. No
/// label and no batch size is needed: the rank of the last block's gradient counts the pictures. Two equal pictures
/// count as one.
///
/// `progress` is called between waves of starts and between pictures, and may end the attack. The result does not depend
/// on the number of processors.
///
/// # Errors
/// [`AttackError`]: a tensor is missing; counting rules the batch out, see [`most_pictures`]; or no picture that fits the
/// update was found, as for weights that it was not made with. The message says what to do.
pub fn batch(evidence: &Evidence, on_progress: OnBatch<'_>) -> Result<Batch, AttackError> {
    let clock = Instant::now();
    let mut at = BatchProgress { pictures: 0, found: 0, tokens: 0, starts: 0, certain: 0 };
    let ended = |clock: &Instant| AttackError::Ended { seconds: clock.elapsed().as_secs_f64() };
    at.pictures = counting::count(evidence, &mut || on_progress(at))?;
    let config = evidence.weights.vit()?;
    at.tokens = at.pictures * config.tokens();
    if on_progress(at).is_break() {
        return Err(ended(&clock));
    }
    let block = Block::read(&evidence.weights)?;
    let spans = Spans::read(&block, &evidence.gradients, at.tokens)?;
    let space = PatchSpace::read(&evidence.weights, &evidence.gradients, at.pictures)?;
    let mlp = MlpSpans::read(&block, &evidence.gradients, at.tokens)?.ok_or_else(|| AttackError::BatchUnsolved {
        reason: format!("the gradient of block 0's MLP has fewer than {} directions", at.tokens),
    })?;
    let tolerance = Tolerance::of(evidence.gradients.rounding());
    let found = find(&mlp, tolerance, SEED, &mut |found, starts| {
        (at.found, at.starts) = (found, starts);
        on_progress(at)
    });
    let cannot = |at: &BatchProgress| AttackError::BatchUnsolved {
        reason: format!(
            "cannot tell, because {} of {} tokens were found in {} starts, and no picture made of them fits the update; \
             give the weights at which the update was made, as one step of plain gradient descent",
            at.found, at.tokens, at.starts,
        ),
    };
    if found.ending == Ending::Ended {
        return Err(ended(&clock));
    }
    if found.found.is_empty() {
        return Err(cannot(&at));
    }
    let solver = Solver { config, block: &block, spans: &spans, space: &space };
    let inputs = inputs(&block, &mlp, &found.found, &evidence.gradients)?;
    let (mut certain, mut others) = (Vec::new(), Vec::new());
    let mut ending = Ending::Unsettled;
    let mut free: Vec<usize> = (0..inputs.normed.ncols()).collect();
    while certain.len() < at.pictures {
        others = solver.divide(&inputs.only(&free), at.pictures - certain.len());
        let (sure, unsure): (Vec<Judged>, Vec<Judged>) = others.into_iter().partition(|one| one.picture.is_certain);
        others = unsure;
        let is_new = !sure.is_empty();
        for one in &sure {
            solver.take(&inputs, &mut free, one);
        }
        certain.extend(sure);
        at.certain = certain.len();
        if on_progress(at).is_break() {
            ending = Ending::Ended;
            break;
        }
        if !is_new {
            break;
        }
    }
    if certain.len() == at.pictures {
        ending = Ending::Settled;
    }
    others.retain(|one| one.picture.residual < RESIDUAL);
    if certain.is_empty() && others.is_empty() {
        return Err(cannot(&at));
    }
    let notes = notes(&config, &at, others.len());
    let pictures = certain.into_iter().chain(others).map(|one| one.picture).collect();
    Ok(Batch { pictures, progress: at, seconds: clock.elapsed().as_secs_f64(), ending, notes })
}

fn notes(config: &unmask_core::VitConfig, at: &BatchProgress, others: usize) -> Vec<String> {
    let most = most_pictures(config);
    let mut notes = vec![
        format!("Counting allows at most {most} pictures on this model; this update has {}.", at.pictures),
        format!("{} of {} tokens were found in {} starts.", at.found, at.tokens, at.starts),
        format!(
            "{} of {} pictures are certain: every value lies at a whole grey level, and the picture fits the update.",
            at.certain, at.pictures,
        ),
    ];
    let missing = at.pictures - at.certain - others;
    if others > 0 {
        notes.push(format!(
            "{others} fit the update but do not lie at whole grey levels: details may be wrong, or the pictures were no \
             8-bit ones."
        ));
    }
    if missing > 0 {
        notes.push(format!("Cannot tell the other {missing}, because no picture that fits the update was found for them."));
    }
    notes
}

/// What stays the same while pictures are taken out.
struct Solver<'a> {
    config: unmask_core::VitConfig,
    block: &'a Block,
    spans: &'a Spans,
    space: &'a PatchSpace,
}

impl Solver<'_> {
    /// Divides tokens among `batch` pictures, refines and judges each. None if the class tokens are not there.
    fn divide(&self, inputs: &Inputs, batch: usize) -> Vec<Judged> {
        let (place_of, _) = places(self.space, inputs, batch);
        let (z, coordinates) = denoised(self.space, inputs, &place_of);
        let Some(groups) = pictures(self.block, inputs, &z, &place_of, batch) else { return Vec::new() };
        parallel::map(groups.len(), |index| {
            let places: &Places = &groups[index];
            let (freedom, positions) = (self.space.freedom(), self.space.positions());
            let start = Mat::from_fn(freedom, positions, |row, n| {
                places.get(n + 1).copied().flatten().map_or(0.0, |k| coordinates[k][(row, 0)])
            });
            let near = refine(self.block, self.space, Aim::Tokens(inputs, places), start);
            let fitted = refine(self.block, self.space, Aim::Spans(self.spans), near.coordinates.clone());
            let judged = [fitted, near].map(|at| {
                let patches = self.space.patches(at.coordinates.as_ref());
                judge(&self.config, self.block, self.space, self.spans, patches)
            });
            let [fitted, near] = judged;
            if near.picture.off_grid < fitted.picture.off_grid { near } else { fitted }
        })
    }

    /// Takes the tokens of a certain picture out of those that are `free`.
    fn take(&self, inputs: &Inputs, free: &mut Vec<usize>, picture: &Judged) {
        let z = tokens_of_patches(self.space, &picture.patches);
        let normed = normed_outputs(self.block, z.as_ref());
        for token in normed.col_iter() {
            let distance = |k: usize| (inputs.normed.col(k) - token).norm_l2();
            let nearest = free.iter().enumerate().map(|(index, &k)| (distance(k), index)).min_by(|a, b| a.0.total_cmp(&b.0));
            // Another token is further away by far; one that the search missed takes none with it.
            if let Some((_, index)) = nearest.filter(|(distance, _)| *distance < 0.1 * token.norm_l2()) {
                free.remove(index);
            }
        }
    }
}
