//! One pass over a batch: tokens, inputs, places, refinement and evidence.

use std::ops::ControlFlow;

use faer::Mat;
use unmask_core::VitConfig;

use super::{
    block::Block,
    counting::refinement_bytes,
    evidence::{Judged, judge},
    groups::pictures,
    inputs::{Inputs, inputs},
    levels::Levels,
    mlp::MlpSpans,
    parallel,
    patch_space::PatchSpace,
    places::{Places, denoised, places},
    refine::{Aim, normed_outputs, refine, tokens_of_patches},
    spans::Spans,
    tokens::{Tolerance, find},
};
use crate::{AttackError, Ending, Evidence};

/// Seed of the search's starts: the same update always gives the same result.
const SEED: u64 = 7;

/// Certain pictures, the others, and whether the attack was ended.
type Found = (Vec<Judged>, Vec<Judged>, bool);

/// One gradient of a batch of known size.
pub(super) struct Round<'a> {
    evidence: &'a Evidence,
    batch: usize,
    config: VitConfig,
    block: Block,
    spans: Spans,
    space: PatchSpace,
    levels: Levels,
}

impl<'a> Round<'a> {
    /// # Errors
    /// A tensor is missing, or has fewer directions than the batch has tokens or patches.
    pub(super) fn new(evidence: &'a Evidence, batch: usize, levels: Levels) -> Result<Self, AttackError> {
        let config = evidence.weights.vit()?;
        let block = Block::read(&evidence.weights)?;
        let spans = Spans::read(&block, &evidence.gradients, (batch, config.patches()))?;
        let space = PatchSpace::read(&evidence.weights, &evidence.gradients, batch)?;
        Ok(Self { evidence, batch, config, block, spans, space, levels })
    }

    /// Takes out as many pictures as it can. `progress` hears the number of tokens found, of starts, and of certain
    /// pictures.
    ///
    /// # Errors
    /// A tensor is missing, or a system of equations cannot be solved.
    pub(super) fn solve(
        &self,
        progress: &mut dyn FnMut(usize, usize, usize) -> ControlFlow<()>,
    ) -> Result<Found, AttackError> {
        if self.batch == 1 {
            // Nothing is free: the patch embedding alone gives the picture.
            let one = self.judge(self.space.first.clone());
            return Ok(if one.picture.is_certain {
                (vec![one], Vec::new(), false)
            } else {
                (Vec::new(), vec![one], false)
            });
        }
        let gradients = &self.evidence.gradients;
        let count = self.batch * self.config.tokens();
        let mlp = MlpSpans::read(&self.block, gradients, count)?.ok_or_else(|| AttackError::BatchUnsolved {
            reason: format!("the gradient of block 0's MLP has fewer than {count} directions"),
        })?;
        let tolerance = Tolerance::of(gradients.rounding());
        let tokens = find(&mlp, tolerance, SEED, &mut |found, starts| progress(found, starts, 0));
        let (mut certain, mut others) = (Vec::new(), Vec::new());
        if tokens.ending == Ending::Ended || tokens.found.is_empty() {
            return Ok((certain, others, tokens.ending == Ending::Ended));
        }
        let go_on = &mut || progress(tokens.found.len(), tokens.starts, 0);
        let inputs = inputs(&self.block, &mlp, &tokens.found, gradients, go_on)?;
        let mut free: Vec<usize> = (0..inputs.normed.ncols()).collect();
        while certain.len() < self.batch {
            let (sure, unsure): (Vec<Judged>, Vec<Judged>) = self
                .divide(&inputs.only(&free), self.batch - certain.len())
                .into_iter()
                .partition(|one| one.picture.is_certain);
            others = unsure;
            // Each picture of the batch solves the equations of the spans: two starts may lead to one.
            let mut new: Vec<Judged> = Vec::new();
            for one in sure {
                if !certain.iter().chain(&new).any(|known: &Judged| known.picture.image == one.picture.image) {
                    new.push(one);
                }
            }
            let sure = new;
            if sure.is_empty() {
                break;
            }
            for one in &sure {
                self.take(&inputs, &mut free, one);
            }
            certain.extend(sure);
            if progress(tokens.found.len(), tokens.starts, certain.len()).is_break() {
                return Ok((certain, others, true));
            }
        }
        Ok((certain, others, false))
    }

    pub(super) fn judge(&self, patches: Mat<f64>) -> Judged {
        let rounding = self.evidence.gradients.rounding();
        judge(rounding, &self.config, &self.block, &self.space, &self.spans, &self.levels, patches)
    }

    /// Divides tokens among `batch` pictures, refines and judges each.
    fn divide(&self, inputs: &Inputs, batch: usize) -> Vec<Judged> {
        let place_of = places(&self.space, inputs, batch);
        let (z, coordinates) = denoised(&self.space, inputs, &place_of);
        let groups = pictures(&self.block, inputs, &z, &place_of, batch);
        parallel::map_large(groups.len(), refinement_bytes(&self.config, self.batch), |index| {
            let places: &Places = &groups[index];
            let (freedom, positions) = (self.space.freedom(), self.space.positions());
            let start = Mat::from_fn(freedom, positions, |row, n| {
                places.get(n + 1).copied().flatten().map_or(0.0, |k| coordinates[k][(row, 0)])
            });
            let near = refine(&self.block, &self.space, Aim::Tokens(inputs, places), start);
            let fitted = refine(&self.block, &self.space, Aim::Spans(&self.spans), near.clone());
            let [fitted, near] = [fitted, near].map(|at| self.judge(self.space.patches(at.as_ref())));
            if near.picture.off_grid < fitted.picture.off_grid { near } else { fitted }
        })
    }

    /// Takes the tokens of a certain picture out of those that are `free`.
    fn take(&self, inputs: &Inputs, free: &mut Vec<usize>, picture: &Judged) {
        let z = tokens_of_patches(&self.space, &picture.patches);
        let normed = normed_outputs(&self.block, z.as_ref());
        for token in normed.col_iter() {
            let distance = |k: usize| (inputs.normed.col(k) - token).norm_l2();
            let nearest =
                free.iter().enumerate().map(|(index, &k)| (distance(k), index)).min_by(|a, b| a.0.total_cmp(&b.0));
            // Another token is further away by far; one that the search missed takes none with it.
            if let Some((_, index)) = nearest.filter(|(distance, _)| *distance < 0.1 * token.norm_l2()) {
                free.remove(index);
            }
        }
    }
}
