//! APRIL (Lu et al., CVPR 2022).

use faer::Mat;

use crate::{
    AttackKind, CannotAttack, Precision, Reconstruction, Tensors,
    kind::{PATCH_BIAS, PATCH_WEIGHT, POSITION, QKV},
    least_squares::least_squares,
    patch_prior::likeliest_patches,
};

/// Solves A^T z = b for the tokens z that entered the first attention block, then inverts the patch embedding.
///
/// With neither LayerNorm nor residual around attention, dl/dz = A reaches the position embedding through q, k and v
/// alone, so that b = W_q^T dW_q + W_k^T dW_k + W_v^T dW_v = A^T z, with A = dl/dE_pos `[S + 1, D]` including the class
/// row. Biases do not matter. Subtracting E_pos and dropping the class row leaves z_s = E x_s + E_b. Where D < L that
/// leaves many patches x_s; the likeliest under a prior of smooth patches is taken. (The papers print the last step as
/// x' = E (z0 - E_pos)^T; the inverse of the patch embedding is meant.)
///
/// On a standard pre-LN block the equations do not hold: the result carries a note and no picture. `weights` must hold
/// [`AttackKind::weights`], `gradients` [`AttackKind::gradients`], of the same model.
///
/// # Errors
/// [`CannotAttack`]: D < S + 1, a tensor is missing, or a gradient is all zero.
pub fn april(weights: &Tensors, gradients: &Tensors) -> Result<Reconstruction, CannotAttack> {
    let kind = AttackKind::April;
    let unsolvable = CannotAttack::Unsolvable { kind };
    let config = gradients.config();
    let dim = config.dim;
    let a = gradients.position_gradient(kind, config.tokens())?;
    let qkv_gradient = gradients.matrix(QKV, 3 * dim)?;
    if gradients.get(QKV)?.iter().all(|&value| value == 0.0) {
        return Err(CannotAttack::ZeroGradient { name: QKV });
    }
    // W and dW stack q, k and v by rows, so that one product is the sum of the three.
    let b = weights.matrix(QKV, 3 * dim)?.transpose() * qkv_gradient;
    let (tokens, spectrum) =
        least_squares(a.transpose(), b.as_ref(), gradients.precision().cutoff()).ok_or(unsolvable.clone())?;

    let position = weights.matrix(POSITION, config.tokens())?;
    let bias = weights.get(PATCH_BIAS)?;
    let embedding = weights.matrix(PATCH_WEIGHT, dim)?;
    let embedded = Mat::from_fn(dim, config.patches(), |d, s| tokens[(s + 1, d)] - position[(s + 1, d)] - bias[d]);
    let weight_cutoff = Precision::F64.cutoff();
    let determined = dim >= config.patch_len();
    let (patches, _) = if determined {
        least_squares(embedding, embedded.as_ref(), weight_cutoff)
    } else {
        likeliest_patches(embedding, embedded.as_ref(), config.patch, weight_cutoff)
    }
    .ok_or(unsolvable)?;

    let mut reconstruction = Reconstruction::from_patches(patches.transpose(), config, spectrum);
    if !config.april_block {
        reconstruction.note(
            "The first block of this model normalises before attention and has a residual: APRIL's equations do not hold \
             there, and it recovers nothing."
                .to_owned(),
        );
    }
    if !determined {
        reconstruction.note(format!(
            "D = {dim} embedding dimensions cannot hold the {} values of a patch: the likeliest smooth patches are shown.",
            config.patch_len(),
        ));
    }
    reconstruction.note_cutoff(spectrum, gradients.precision());
    Ok(reconstruction)
}
