//! What the patch embedding's gradient says of each patch, and how a token follows from it.

use faer::{Mat, MatRef};
use unmask_core::VitConfig;

use super::inputs::centred;
use crate::{
    AttackError, Tensors,
    least_squares::least_squares,
    model::{CLASS_TOKEN, PATCH_BIAS, PATCH_WEIGHT, POSITION},
    small_matrices::product,
};

/// The affine set that holds every patch of one position: x = first_n + along b.
///
/// G_E = sum_b G_b^T X_b `[D, L]` has rank BS, and sum_b G_b = G_pos `[S, D]`. With G_E = V S W^T, each patch is W y for
/// some y `[BS]`, and G_pos V S^-1 y is 1 at its own position and 0 at the others. That leaves (B - 1) S dimensions, the
/// same at every position.
#[derive(Debug, Clone)]
pub(super) struct PatchSpace {
    /// Shortest patch of each position, `[L, S]`.
    pub(super) first: Mat<f64>,
    /// Orthonormal directions, `[L, (B - 1) S]`.
    pub(super) along: Mat<f64>,
    /// Tokens of the shortest patches, `[D, S]`.
    pub(super) tokens: Mat<f64>,
    /// Changes of a token along the directions, `[D, (B - 1) S]`.
    pub(super) token_along: Mat<f64>,
    /// The class token with its position, `[D, 1]`.
    pub(super) class: Mat<f64>,
    /// The patch embedding `[D, L]`, and the bias and position of each patch, `[D, S]`.
    embedding: Mat<f64>,
    offset: Mat<f64>,
    /// The changes less their means, and their pseudo-inverse `[(B - 1) S, D]`.
    centred_along: Mat<f64>,
    inverse: Mat<f64>,
}

impl PatchSpace {
    /// # Errors
    /// A tensor is missing, or a system cannot be solved.
    pub(super) fn read(weights: &Tensors, gradients: &Tensors, batch: usize) -> Result<Self, AttackError> {
        let unsolved = || AttackError::BatchUnsolved {
            reason: "the gradient of the patch embedding could not be decomposed in f64".to_owned(),
        };
        let config: VitConfig = weights.vit()?;
        let (dim, patches) = (config.dim, config.patches());
        let rank = batch * patches;
        let svd = gradients.matrix(PATCH_WEIGHT, dim)?.thin_svd().map_err(|_| unsolved())?;
        let by_position = gradients.matrix(POSITION, config.tokens())?.subrows(1, patches);
        let mut mixes = product(by_position, svd.U().subcols(0, rank));
        for (column, singular) in mixes.col_iter_mut().zip(svd.S().column_vector().iter()) {
            if *singular <= 0.0 {
                return Err(unsolved());
            }
            column.iter_mut().for_each(|value| *value /= singular);
        }
        let basis = svd.V().subcols(0, rank);
        let full = mixes.svd().map_err(|_| unsolved())?;
        let mut shortest = full.U().transpose().to_owned();
        for (row, singular) in full.S().column_vector().iter().enumerate() {
            shortest.row_mut(row).iter_mut().for_each(|value| *value /= singular);
        }
        let shortest = product(full.V().subcols(0, patches), shortest.as_ref());
        let first = product(basis, shortest.as_ref());
        let along = product(basis, full.V().subcols(patches, rank - patches));

        let embedding = weights.matrix(PATCH_WEIGHT, dim)?;
        let bias = weights.get(PATCH_BIAS)?;
        let position = weights.matrix(POSITION, config.tokens())?;
        let class = weights.get(CLASS_TOKEN)?;
        let offset = Mat::from_fn(dim, patches, |row, n| bias[row] + position[(n + 1, row)]);
        let tokens = product(embedding, first.as_ref()) + &offset;
        let token_along = product(embedding, along.as_ref());
        let centred_along = centred(token_along.as_ref());
        let inverse = match along.ncols() {
            0 => Mat::zeros(0, dim),
            _ => {
                least_squares(centred_along.as_ref(), Mat::<f64>::identity(dim, dim).as_ref(), 1e-14)
                    .ok_or_else(unsolved)?
                    .0
            }
        };
        let class = Mat::from_fn(dim, 1, |row, _| class[row] + position[(0, row)]);
        let embedding = embedding.to_owned();
        Ok(Self { embedding, offset, first, along, tokens, token_along, class, centred_along, inverse })
    }

    /// S.
    pub(super) fn positions(&self) -> usize {
        self.first.ncols()
    }

    /// (B - 1) S.
    pub(super) fn freedom(&self) -> usize {
        self.along.ncols()
    }

    /// The coordinates b `[(B - 1) S, 1]` at which the patch of position n gives the token nearest to `z` `[D, 1]`, which
    /// lacks its mean, and the distance that is left.
    pub(super) fn nearest(&self, n: usize, z: MatRef<'_, f64>) -> (Mat<f64>, f64) {
        let left = z - centred(self.tokens.subcols(n, 1));
        let at = product(self.inverse.as_ref(), left.as_ref());
        let distance = (left - product(self.centred_along.as_ref(), at.as_ref())).norm_l2();
        (at, distance)
    }

    /// The distance of `z` `[D, 1]`, which lacks its mean, from the class token.
    pub(super) fn distance_to_class(&self, z: MatRef<'_, f64>) -> f64 {
        (z - centred(self.class.as_ref())).norm_l2()
    }

    /// The token of position n at coordinates b `[(B - 1) S, 1]`.
    pub(super) fn token(&self, n: usize, at: MatRef<'_, f64>) -> Mat<f64> {
        self.tokens.subcols(n, 1) + product(self.token_along.as_ref(), at)
    }

    /// The tokens `[D, S]` of patches `[L, S]`, one for each position.
    pub(super) fn embedded(&self, patches: MatRef<'_, f64>) -> Mat<f64> {
        product(self.embedding.as_ref(), patches) + &self.offset
    }

    /// The patches `[L, S]` in [-1, 1] at coordinates `[(B - 1) S, S]`.
    pub(super) fn patches(&self, at: MatRef<'_, f64>) -> Mat<f64> {
        &self.first + product(self.along.as_ref(), at)
    }
}
