//! Whether a given picture was among the private ones.

use faer::{Mat, MatRef};
use unmask_core::MembershipVerdict;

use crate::{
    AttackError, BatchSize, TensorSource, Tensors,
    span::{GoOn, Span, outside, token},
};

/// Largest residual of a member. Among 1,000 CIFAR-10 photographs and 144 mirrored or recoloured copies of members, no
/// stranger came below it for batches of up to two thirds of the model's width: the rate is below 0.3 % at 95 %
/// confidence.
pub const MEMBER: f64 = 1e-4;
/// Smallest residual of a stranger in an unmasked update.
pub const STRANGER: f64 = 4e-4;
/// Largest batch as a share of D. Strangers lie too near the span of larger ones, and [`MEMBER`] was measured up to
/// here.
pub(crate) const MOST_OF_WIDTH: f64 = 2.0 / 3.0;
/// The noise that f32 leaves in a candidate's own token.
const TOKEN_NOISE: f64 = 1e-6;
/// How many times the residual that noise could leave of a member a stranger's must exceed.
const ABOVE_NOISE: f64 = 10.0;
const RESAMPLINGS: usize = 100;

/// Residual of a candidate picture, and the verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Membership {
    /// Length of the candidate's class token outside the span of those in the update, relative to its whole length: 0
    /// for a member, 1 for a token orthogonal to all of them.
    pub residual: f64,
    /// Central 95 % of the residual when the gradient's rows are resampled.
    pub interval: (f64, f64),
    /// Largest residual that rounding, noise or an imperfect completion of a mask could leave of a member.
    pub noise: f64,
    /// Size of the picture's trace in the update if it were a member, relative to the strongest trace there.
    pub strength: f64,
    /// Strength up to which a picture drowns in rounding, so that a missing trace does not make it a stranger. It is 0
    /// if the number of pictures is known, because then the rank tells whether one of them is missing.
    pub floor: f64,
    /// Residuals of altered copies of the candidate, ascending: typical values for similar pictures that are not
    /// members.
    pub distractors: Vec<f64>,
    /// Number of pictures in the update, from its rank.
    pub batch: BatchSize,
    pub verdict: MembershipVerdict,
}

/// The class tokens behind an update, to compare candidates with.
///
/// dl/d(fc1.weight) of the last block is sum_b d_b h_b^T, where h_b is the class token of picture b (see
/// [`batch_size`](crate::batch_size)). A member's token t lies in the row space V, so ||t - V V^T t|| / ||t|| is only
/// rounding; a stranger's token does not. A masked matrix is completed first.
#[derive(Debug)]
pub struct Members {
    span: Span,
    /// V from rows drawn with replacement.
    resampled: Vec<Mat<f64>>,
    /// Number of pictures in the update, if known.
    pictures: Option<usize>,
    /// Whether all pictures met the weights at which candidates are run.
    is_one_step: bool,
    shape: (usize, usize),
}

impl Members {
    /// Reads the class tokens off an update of `pictures` pictures, if that number is known. Undoing a mask may take
    /// minutes on a large model, and `go_on` may end it.
    ///
    /// # Errors
    /// [`AttackError`]: the model is not a ViT; the gradient is missing or zero; a mask or noise hides too much of it;
    /// `go_on` ended the completion; or the batch fills the tokens' space, so that any picture would look like a
    /// member.
    pub fn of(gradients: &Tensors, pictures: Option<usize>, go_on: GoOn<'_>) -> Result<Self, AttackError> {
        let config = gradients.vit()?;
        let (rows, dim) = (config.mlp_dim(), config.dim);
        let span = Span::of(gradients, go_on)?;
        if span.batch.seen() as f64 > MOST_OF_WIDTH * dim as f64 {
            return Err(AttackError::NoClassTokens {
                reason: format!(
                    "the update mixes {} pictures, whose class tokens fill their {dim} dimensions: any picture would look \
                     like a member",
                    span.batch,
                ),
            });
        }
        let mut draw = draws(span.len());
        let mut resampled = || {
            let mut weights = vec![0.0; span.len()];
            (0..span.len()).for_each(|_| weights[draw()] += 1.0);
            span.resampled(&weights)
        };
        let resampled = (0..RESAMPLINGS).map(|_| resampled()).collect();
        Ok(Self { span, resampled, pictures, is_one_step: true, shape: (rows, dim) })
    }

    /// Adapts the verdicts to an update of `local_steps` steps. With more than one there are no strangers: a picture of
    /// a later step met other weights, at which its token was different.
    #[must_use]
    pub fn over_steps(self, local_steps: u64) -> Self {
        Self { is_one_step: local_steps <= 1, ..self }
    }

    /// Number of pictures in the update, from its rank.
    pub fn batch(&self) -> BatchSize {
        self.span.batch
    }

    /// Compares one candidate.
    ///
    /// `own` is its gradient dl/d(fc1.weight) `[4 D, D]`, row-major, with any label, at the weights of the update. It
    /// has rank one, and its row space is the candidate's token. `strength` is the gradient's norm with the label that
    /// the model predicts, relative to that with another label. The surer the model is, the lower it is, and the weaker
    /// is the trace that a member leaves.
    ///
    /// - *member*: the residual's upper bound lies below [`MEMBER`];
    /// - *stranger*: its lower bound lies above [`STRANGER`] and above ten times the residual that noise could leave of
    ///   a member, and the whole batch is visible. That takes a single local step and as many directions as pictures.
    ///   If the number of pictures is unknown and k directions are visible, `strength` must exceed
    ///   [`Membership::floor`]: the candidate would stand ten times above the noise as one of k + 1 pictures;
    /// - *undecided* otherwise.
    ///
    /// # Errors
    /// [`AttackError`]: `own` has another size, or is zero.
    pub fn judge(&self, own: &[f64], strength: f64) -> Result<Membership, AttackError> {
        let token = self.token(own)?;
        let residual = outside(self.span.basis.as_ref(), token.as_ref());
        let interval = self.interval(&token, residual);
        let noise = self.span.noise(token.as_ref()).max(TOKEN_NOISE);
        let batch = self.span.batch;
        let hides = ABOVE_NOISE * self.span.floor * (batch.seen() + 1) as f64;
        let floor = if self.pictures.is_none() { hides } else { 0.0 };
        let is_batch = |seen| self.pictures.map_or(strength > floor, |pictures| pictures == seen);
        let is_all_seen = self.is_one_step && matches!(batch, BatchSize::Exactly(seen) if is_batch(seen));
        let verdict = if interval.1 < MEMBER {
            MembershipVerdict::Member
        } else if is_all_seen && interval.0 > STRANGER.max(ABOVE_NOISE * noise) {
            MembershipVerdict::Stranger
        } else {
            MembershipVerdict::Undecided
        };
        Ok(Membership { residual, interval, noise, strength, floor, distractors: Vec::new(), batch, verdict })
    }

    fn token(&self, own: &[f64]) -> Result<Mat<f64>, AttackError> {
        let (rows, dim) = self.shape;
        let (from, found, expected) = (TensorSource::Gradients, own.len(), rows * dim);
        if found != expected {
            return Err(AttackError::WrongLength { from, found, expected });
        }
        token(MatRef::from_row_major_slice(own, rows, dim)).ok_or_else(|| AttackError::NoClassTokens {
            reason: "the candidate's own gradient is zero there; ask with another label".to_owned(),
        })
    }

    /// Central 95 % of the residual over rows drawn with replacement.
    fn interval(&self, token: &Mat<f64>, residual: f64) -> (f64, f64) {
        let residuals = self.resampled.iter().map(|basis| outside(basis.as_ref(), token.as_ref()));
        let mut residuals: Vec<f64> = residuals.filter(|residual| residual.is_finite()).collect();
        residuals.sort_by(f64::total_cmp);
        let at = |share: f64| residuals.get((share * residuals.len() as f64) as usize).copied();
        (at(0.025).map_or(0.0, |low| low.min(residual)), at(0.975).map_or(1.0, |high| high.max(residual)))
    }
}

/// Tells whether a picture was in the batch behind an update, for any batch size and labels.
///
/// `own` starts with the candidate's gradient, and `strength` is as in [`Members::judge`]. Gradients of altered copies
/// may follow. Their residuals are reported and do not affect the verdict.
///
/// # Errors
/// As [`Members::judge`], or `own` is empty.
pub fn membership(members: &Members, own: &[Vec<f64>], strength: f64) -> Result<Membership, AttackError> {
    let (candidate, copies) = own.split_first().ok_or(AttackError::NoModel)?;
    let mut membership = members.judge(candidate, strength)?;
    for copy in copies {
        membership.distractors.push(outside(members.span.basis.as_ref(), members.token(copy)?.as_ref()));
    }
    membership.distractors.sort_by(f64::total_cmp);
    Ok(membership)
}

/// Numbers below `count` in a fixed sequence, so that the same evidence always gives the same verdict.
fn draws(count: usize) -> impl FnMut() -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        // Knuth's linear congruential generator. Its upper bits are good enough for a bootstrap.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % count
    }
}

/// Copies of the picture `[side, side, 3]` that differ from it: mirrored, upside down, and with red and blue swapped.
pub(crate) fn altered(picture: &[f32], side: usize) -> Vec<Vec<f32>> {
    let copy = |pixel: &dyn Fn(usize, usize) -> (usize, usize), channels: [usize; 3]| -> Vec<f32> {
        let at = |(y, x): (usize, usize)| channels.map(|c| picture[(y * side + x) * 3 + c]);
        (0..side * side).flat_map(|i| at(pixel(i / side, i % side))).collect()
    };
    let copies = [
        copy(&|y, x| (y, side - 1 - x), [0, 1, 2]),
        copy(&|y, x| (side - 1 - y, x), [0, 1, 2]),
        copy(&|y, x| (y, x), [2, 1, 0]),
    ];
    copies.into_iter().filter(|copy| copy != picture).collect()
}
