//! Embedding inversion.

use unmask_core::AttackMethod;

use crate::{AttackError, Reconstruction, Tensors, least_squares::least_squares, model::PATCH_WEIGHT};

/// Solves G_pos^T X = G_E for the patches X.
///
/// A patch embedding is z_s = E x_s + b + p_s, so dl/dE = sum_s (dl/dz_s) x_s^T and dl/dp_s = dl/dz_s: with
/// G_pos = dl/dE_pos without the class row `[S, D]` and G_E = dl/dE `[D, L]`, G_E = G_pos^T X exactly for one picture.
/// It needs D >= S, and nothing else of the model: no weights, no label, no architecture behind the embedding.
///
/// # Errors
/// [`AttackError`]: D < S, a tensor is missing, the position embedding's gradient or the patch embedding's is all zero.
pub fn embedding_inversion(gradients: &Tensors) -> Result<Reconstruction, AttackError> {
    let config = gradients.vit()?;
    let position = gradients.position_gradient(AttackMethod::Embedding, config.patches())?;
    let patch = gradients.matrix(PATCH_WEIGHT, config.dim)?;
    if gradients.get(PATCH_WEIGHT)?.iter().all(|&value| value == 0.0) {
        return Err(AttackError::ZeroGradient { name: PATCH_WEIGHT });
    }
    let patches_of_position = position.subrows(1, config.patches());
    let (x, spectrum) = least_squares(patches_of_position.transpose(), patch, gradients.rounding().cutoff())
        .ok_or(AttackError::Unsolvable { method: AttackMethod::Embedding })?;
    let mut reconstruction = Reconstruction::from_patches(x.as_ref(), &config, spectrum);
    reconstruction.note_cutoff(spectrum, gradients.rounding());
    Ok(reconstruction)
}
