//! Batches taken apart.

use std::ops::ControlFlow;

use web_time::Instant;

mod assignment;
mod block;
#[cfg(test)]
mod cases;
mod counting;
mod evidence;
mod groups;
mod inputs;
mod levels;
mod masked;
mod mlp;
mod parallel;
mod patch_space;
mod peel;
mod places;
mod projection;
mod refine;
mod round;
mod spans;
#[cfg(test)]
mod tests;
mod tokens;
mod whole;

pub use counting::most_pictures;
pub(crate) use counting::refinement_bytes;
pub use evidence::BatchPicture;
pub use levels::Levels;
pub(crate) use whole::whole_batch;

use evidence::Judged;
use peel::{identify, peel, settle};
use round::Round;

use crate::{AttackError, Ending, Evidence, Tensors};

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

/// Returns the gradient of one picture `[side, side, 3]` in [0, 1] with this label, at the weights of the evidence: the
/// tensors of [`Needs::of_batch`](crate::Needs::of_batch).
pub type GradientOf<'a> = &'a mut dyn FnMut(usize, &[f32]) -> Result<Tensors, AttackError>;

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
/// 6. *Peeling.* With `model`, values between two grey levels are settled by the class token in the last block. Then the gradients of the certain pictures are subtracted, and the rest is a smaller batch; for a
///    single picture the embeddings are enough.
///
/// The gradients are those of [`Needs::of_batch`](crate::Needs::of_batch), the weights those at which they were made. No
/// label and no batch size is needed: the rank of the last block's gradient counts the pictures. Two equal pictures
/// count as one.
///
/// `levels` says where 8-bit pictures have their values.
///
/// `model` returns the gradient of one picture and is optional: without it block 0 forward is all that is run, and a
/// picture whose tokens drown in rounding stays unknown. `on_progress` is
/// called between waves of starts and after each division into pictures, and may end the attack. The result does not
/// depend on the number of processors.
///
/// # Errors
/// [`AttackError`]: a tensor is missing; counting rules the batch out, see [`most_pictures`]; or no picture that fits the
/// update was found, as for weights that it was not made with. The message says what to do.
pub fn batch(
    evidence: &Evidence,
    levels: Levels,
    mut model: Option<GradientOf<'_>>,
    on_progress: OnBatch<'_>,
) -> Result<Batch, AttackError> {
    let clock = Instant::now();
    let mut at = BatchProgress { pictures: 0, found: 0, tokens: 0, starts: 0, certain: 0 };
    at.pictures = counting::count(evidence, &mut || on_progress(at))?;
    let config = evidence.weights.vit()?;
    at.tokens = at.pictures * config.tokens();
    let mut left = evidence.clone();
    if left.gradients.is_masked() {
        left.gradients = masked::completed(&left.gradients, at.pictures, &mut || on_progress(at))?;
    }
    let (mut certain, mut others): (Vec<Judged>, Vec<Judged>) = (Vec::new(), Vec::new());
    let mut is_ended = on_progress(at).is_break();
    while !is_ended && certain.len() < at.pictures {
        let is_first = certain.is_empty();
        let mut hear = |found: usize, starts: usize, sure: usize| {
            if is_first {
                (at.found, at.starts) = (found, starts);
            }
            on_progress(BatchProgress { certain: certain.len() + sure, ..at })
        };
        let rest = at.pictures - certain.len();
        let round = match Round::new(&left, rest, levels) {
            Ok(round) => round.solve(&mut hear),
            Err(error) => Err(error),
        };
        let (mut sure, unsure, was_ended) = match round {
            Ok(round) => round,
            Err(error) if is_first => return Err(error),
            // What is left after peeling may be nothing but noise.
            Err(_) => break,
        };
        is_ended = was_ended;
        let mut fitting = Vec::new();
        for one in unsure.into_iter().filter(|one| one.picture.fits) {
            let settled = match model.as_mut() {
                Some(model) if !is_ended => settle((&left, rest), &one, &levels, model, &mut || on_progress(at))?,
                _ => None,
            };
            match settled {
                Some(settled) => sure.push(settled),
                None => fitting.push(one),
            }
        }
        if let Some(model) = model.as_mut().filter(|_| !is_ended) {
            identify((&left, rest), &mut sure, model, &mut || on_progress(at))?;
            identify((&left, rest), &mut fitting, model, &mut || on_progress(at))?;
        }
        others.extend(fitting);
        // What is left of a picture after it was subtracted may look like it again.
        sure.retain(|one| !certain.iter().any(|known| known.picture.image == one.picture.image));
        let is_rest = certain.len() + sure.len() < at.pictures;
        let peeled = match model.as_mut() {
            Some(model) if is_rest && !sure.is_empty() => peel(&mut left, &sure, model)?,
            _ => false,
        };
        certain.extend(sure);
        at.certain = certain.len();
        if !peeled {
            break;
        }
    }
    // Later rounds may have found the same picture again, more exactly.
    others.sort_by(|a, b| a.picture.off_grid.total_cmp(&b.picture.off_grid));
    let mut pictures: Vec<BatchPicture> = certain.into_iter().map(|one| one.picture).collect();
    for one in others {
        if pictures.len() < at.pictures && !pictures.iter().any(|known| known.is_like(&one.picture)) {
            pictures.push(one.picture);
        }
    }
    let seconds = clock.elapsed().as_secs_f64();
    if pictures.is_empty() {
        return Err(if is_ended { AttackError::Ended { seconds } } else { cannot_tell(&at) });
    }
    let ending = match at.certain == at.pictures {
        true => Ending::Settled,
        false if is_ended => Ending::Ended,
        false => Ending::Unsettled,
    };
    let notes = notes(&config, &at, pictures.len() - at.certain);
    Ok(Batch { pictures, progress: at, seconds, ending, notes })
}

fn cannot_tell(at: &BatchProgress) -> AttackError {
    AttackError::BatchUnsolved {
        reason: format!(
            "cannot tell, because {} of {} tokens were found in {} starts, and no picture made of them fits the update; \
             give the weights at which the update was made, as one step of plain gradient descent",
            at.found, at.tokens, at.starts,
        ),
    }
}

fn notes(config: &unmask_core::VitConfig, at: &BatchProgress, others: usize) -> Vec<String> {
    let most = most_pictures(config);
    let mut notes = vec![
        format!(
            "Counting allows at most {most} pictures on this model; this update has {} by the rank of its last block.",
            at.pictures
        ),
        format!("{} of {} tokens were found in {} starts.", at.found, at.tokens, at.starts),
    ];
    if at.certain > 0 {
        notes.push(format!(
            "{} of {} pictures are certain: their values are whole grey levels, and they fit the update.",
            at.certain, at.pictures,
        ));
    }
    let missing = at.pictures - at.certain - others;
    if others > 0 {
        notes.push(format!(
            "{others} fit the update and have no whole grey levels: details may be wrong, the pictures were no 8-bit ones, or they \
             were normalised in another way than assumed."
        ));
    }
    if missing > 0 {
        notes.push(format!(
            "Cannot tell the other {missing}, because no picture that fits the update was found for them."
        ));
    }
    notes
}
