//! Whether a given picture was among the private ones.

use faer::{Mat, MatRef};
use unmask_core::MembershipVerdict;

use crate::{
    AttackError, BatchSize, TensorSource, Tensors,
    span::{GoOn, Span, outside, token},
};

/// Below this residual a picture is a member. No stranger among 1,000 photographs of CIFAR-10 and 144 mirrored or recoloured
/// copies of members came below it, of batches up to two thirds of the model's width: fewer than 0.3 % do (95 %).
pub const MEMBER: f64 = 1e-4;
/// Above this one it is a stranger, where nothing is hidden.
pub const STRANGER: f64 = 4e-4;
/// Of a batch of so many of the D directions strangers lie too near the span: the share up to which [`MEMBER`] was measured.
const MOST_OF_WIDTH: f64 = 2.0 / 3.0;
/// The noise that f32 leaves in a candidate's own token.
const TOKEN_NOISE: f64 = 1e-6;
/// A stranger's residual is so many times what noise alone could leave of a member.
const ABOVE_NOISE: f64 = 10.0;
const RESAMPLINGS: usize = 100;

/// Residual of a candidate picture, and what it amounts to.
#[derive(Debug, Clone, PartialEq)]
pub struct Membership {
    /// Length of what the candidate's class token has outside the span of those in the update, relative to its own:
    /// 0 for a member, 1 for one at right angles to all.
    pub residual: f64,
    /// Central 95 % of the residual under resampling of the gradient's rows.
    pub interval: (f64, f64),
    /// What rounding, noise or an imperfect completion of a mask could leave of a member.
    pub noise: f64,
    /// What the picture would leave in the update, had it been there, as a share of what the strongest one there leaves.
    pub strength: f64,
    /// Up to this strength a picture drowns in rounding, and is no stranger though it does not show; 0 where the number of
    /// pictures is known, for then all of them show or it is seen that one does not.
    pub floor: f64,
    /// Residuals of altered copies of the candidate, ascending: what pictures like it reach that were not there.
    pub distractors: Vec<f64>,
    /// Pictures in the update, by its rank.
    pub batch: BatchSize,
    pub verdict: MembershipVerdict,
}

/// The class tokens behind an update, to compare candidates with.
///
/// dl/d(fc1.weight) of the last block is sum_b d_b h_b^T with the class tokens h_b that entered it, one for each picture (see
/// [`batch_size`](crate::batch_size)). A member's token lies in the row space V, so that of t, the candidate's,
/// ||t - V V^T t|| / ||t|| is rounding; a stranger's is not. Behind a mask the matrix is completed first.
#[derive(Debug)]
pub struct Members {
    span: Span,
    /// V from rows drawn with replacement.
    resampled: Vec<Mat<f64>>,
    /// Pictures in the update, where that is known.
    pictures: Option<usize>,
    /// Whether all of them met the weights that candidates are run at.
    is_one_step: bool,
    /// Rows and columns of the gradient.
    shape: (usize, usize),
}

impl Members {
    /// Reads them off an update of so many `pictures`, where that is known. Undoing a mask may take minutes on a large model, and
    /// `go_on` may end it.
    ///
    /// # Errors
    /// [`AttackError`]: no ViT, the gradient is missing, zero, or too much of it hidden by mask or noise, `go_on` ended it, or
    /// the batch fills the tokens' space so that everybody would look like a member.
    pub fn of(gradients: &Tensors, pictures: Option<usize>, go_on: GoOn<'_>) -> Result<Self, AttackError> {
        let config = gradients.vit()?;
        let (rows, dim) = (config.mlp_dim(), config.dim);
        let span = Span::of(gradients, go_on)?;
        if span.batch.seen() as f64 > MOST_OF_WIDTH * dim as f64 {
            return Err(AttackError::NoClassTokens {
                reason: format!(
                    "the update mixes {} pictures, whose class tokens fill the {dim} dimensions that they live in: everybody \
                     would look like a member",
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

    /// The same of an update behind which are so many local steps. Of several nobody is a stranger: a picture of a later one met other
    /// weights, where its token is another.
    #[must_use]
    pub fn over_steps(self, local_steps: u64) -> Self {
        Self { is_one_step: local_steps <= 1, ..self }
    }

    /// Pictures in the update, by its rank.
    pub fn batch(&self) -> BatchSize {
        self.span.batch
    }

    /// Compares one candidate. `own` is dl/d(fc1.weight) `[4 D, D]`, row-major, of it alone, with any label, at the weights of
    /// the update: it is of rank one, and its row space is the candidate's token. `strength` is the norm of that gradient with
    /// the label that the model gives the candidate, as a share of that with another: the less, the surer the model is, and the
    /// less a member may leave.
    ///
    /// - *member*: the residual's upper bound lies below [`MEMBER`];
    /// - *stranger*: its lower bound lies above [`STRANGER`] and ten times what noise could leave of a member, and all of the
    ///   batch was seen: of one step, as many directions as there are pictures. Where that number is not known, a picture that
    ///   drowns in rounding does not show in it: with k directions in sight one picture of k + 1, of the candidate's strength, must
    ///   stand ten times above the noise, [`Membership::floor`];
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

/// Whether a picture was in the batch behind an update, whatever the batch's size and labels. `own` holds the gradient of
/// [`Members::judge`] for the candidate, of that `strength`; those of altered copies of it may follow, which are shown beside it and decide nothing.
///
/// # Errors
/// As [`Members::judge`].
pub fn membership(members: &Members, own: &[Vec<f64>], strength: f64) -> Result<Membership, AttackError> {
    let (candidate, copies) = own.split_first().ok_or(AttackError::NoModel)?;
    let mut membership = members.judge(candidate, strength)?;
    for copy in copies {
        membership.distractors.push(outside(members.span.basis.as_ref(), members.token(copy)?.as_ref()));
    }
    membership.distractors.sort_by(f64::total_cmp);
    Ok(membership)
}

/// Numbers below `count`, by a fixed sequence so that the same evidence gives the same verdict.
fn draws(count: usize) -> impl FnMut() -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        // Knuth's linear congruential generator; its upper bits are good enough for a bootstrap.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % count
    }
}

/// The picture `[side, side, 3]` mirrored, upside down, and with red and blue swapped, where that is another picture.
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
