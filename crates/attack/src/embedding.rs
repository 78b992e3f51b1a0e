//! Embedding inversion.

use faer::Mat;
use unmask_core::AttackMethod;

use crate::{
    AttackError, Reconstruction, Tensors,
    least_squares::{least_squares, smallest_singular_value},
    model::{PATCH_WEIGHT, POSITION},
    reconstruction::patches_of,
};

/// Solves G_pos^T X = G_E for the patches X.
///
/// A patch embedding is z_s = E x_s + b + p_s, so dl/dE = sum_s (dl/dz_s) x_s^T and dl/dp_s = dl/dz_s. With G_pos =
/// dl/dE_pos without the class row `[S, D]` and G_E = dl/dE `[D, L]`, G_E = G_pos^T X holds exactly for one picture. It
/// needs D >= S and nothing else of the model: no weights, no label, no knowledge of the layers behind the embedding.
///
/// # Errors
/// [`AttackError`]: D < S, a tensor is missing, or the gradient of the position or the patch embedding is all zero.
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

/// The two tables that embedding inversion solves: G_pos without the class token's row, `[patches, dim]`, and G_E,
/// `[dim, patch * patch * 3]`, both row by row.
///
/// # Errors
/// [`AttackError`]: a tensor is missing, or the gradient of the position embedding is all zero.
pub fn embedding_tables(gradients: &Tensors) -> Result<(Vec<f64>, Vec<f64>), AttackError> {
    let dim = gradients.vit()?.dim;
    gradients.position_gradient(AttackMethod::Embedding, 0)?;
    Ok((gradients.get(POSITION)?[dim..].to_vec(), gradients.get(PATCH_WEIGHT)?.to_vec()))
}

/// Largest RMS difference over pixels in [0, 1] at which two pictures look the same: 40 dB.
pub const SAME_PICTURE: f64 = 0.01;

/// Bounds the distance from `image` to any picture that solves the embeddings' equations equally well, RMS over pixels
/// in [0, 1]. `None` if some pixel of a patch has S whole equations or fewer.
///
/// Each column x of X solves A x = b, with the rows of G_pos^T and G_E that arrived whole. Two solutions with residuals
/// of at most r differ by at most 2 r / sigma, where sigma is the smallest singular value of A. The equations hold for
/// any model behind the embeddings, so no model is needed. A mixture of pictures, a hidden entry taken for zero, and
/// noise all leave a large r. The bound does not tell whether the solution looks like a picture: ciphertext of one key
/// solves the equations too.
pub fn pixel_uncertainty(gradients: &Tensors, image: &[f32]) -> Option<f64> {
    let config = gradients.vit().ok()?;
    let (patches, pixels) = (config.patches(), config.patch_len());
    if image.len() != patches * pixels {
        return None;
    }
    let position = gradients.observed(POSITION, config.tokens()).ok()?;
    let patch = gradients.observed(PATCH_WEIGHT, config.dim).ok()?;
    let x = patches_of(image, &config);
    let is_whole = |row: &usize| (1..=patches).all(|token| position.is_known(token, *row));
    let whole: Vec<usize> = (0..config.dim).filter(is_whole).collect();
    let mut of_all: Option<f64> = None;
    let mut square = 0.0;
    for pixel in 0..pixels {
        let rows: Vec<usize> = whole.iter().copied().filter(|&row| patch.is_known(row, pixel)).collect();
        if rows.len() <= patches {
            return None;
        }
        let a = || Mat::from_fn(rows.len(), patches, |i, s| position.values[(s + 1, rows[i])]);
        let sigma = match of_all {
            Some(sigma) if patch.is_whole() => sigma,
            _ => *of_all.insert(smallest_singular_value(a().as_ref())?),
        };
        let left = |i: usize| {
            let explained: f64 = (0..patches).map(|s| position.values[(s + 1, rows[i])] * x[(s, pixel)]).sum();
            (explained - patch.values[(rows[i], pixel)]).powi(2)
        };
        // Distances in [-1, 1] are twice those in [0, 1].
        square += (0..rows.len()).map(left).sum::<f64>() / sigma.powi(2);
    }
    let error = (square / (patches * pixels) as f64).sqrt();
    error.is_finite().then_some(error)
}

#[cfg(test)]
mod tests {
    use unmask_core::{VitConfig, VitPreset};

    use super::*;
    use crate::{Ending, Evidence, Rounding, TensorSource};

    /// The embeddings' gradients of mixed pictures, with arbitrary position gradients.
    fn evidence(pictures: &[Reconstruction], hidden: usize) -> Evidence {
        let config = VitConfig::from(VitPreset::Pico);
        let layout = unmask_core::ParamLayout::vit(&config);
        let (dim, tokens, len) = (config.dim, config.tokens(), config.patch_len());
        let mut sum = vec![0.0; tokens * dim];
        let mut patch = vec![0.0; dim * len];
        for (number, picture) in pictures.iter().enumerate() {
            let position: Vec<f64> =
                (0..tokens * dim).map(|i| f64::from(((i * i + 31 * number) as f32 * 0.37).sin())).collect();
            let x = patches_of(&picture.image, &config);
            for row in 0..dim {
                for pixel in 0..len {
                    let explained = (0..config.patches()).map(|s| position[(s + 1) * dim + row] * x[(s, pixel)]);
                    patch[row * len + pixel] += explained.sum::<f64>();
                }
            }
            sum.iter_mut().zip(position).for_each(|(sum, value)| *sum += value);
        }
        let mut gradients = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
        let kept: Vec<bool> = (0..patch.len()).map(|i| i % 7 >= hidden).collect();
        gradients.insert(POSITION, &layout.get(POSITION).unwrap().shape, sum).unwrap();
        gradients.insert_kept(PATCH_WEIGHT, &layout.get(PATCH_WEIGHT).unwrap().shape, patch, kept).unwrap();
        Evidence { weights: Tensors::new(TensorSource::Weights, &config, Rounding::F32), gradients }
    }

    fn picture(seed: usize) -> Reconstruction {
        let image = (0..16 * 16 * 3).map(|i| ((i * (seed + 2)) as f32 * 0.11).sin() * 0.4 + 0.5).collect();
        Reconstruction { image, singular_ratio: 0.1, ending: Ending::Settled, notes: Vec::new() }
    }

    fn is_exact(evidence: &Evidence, found: &Reconstruction) -> bool {
        pixel_uncertainty(&evidence.gradients, &found.image).is_some_and(|error| error < SAME_PICTURE)
    }

    #[test]
    fn one_picture_solves_its_embeddings_and_no_other_does() {
        let alone = evidence(&[picture(1)], 0);
        let found = embedding_inversion(&alone.gradients).unwrap();
        assert!(is_exact(&alone, &found));
        assert!(!is_exact(&alone, &picture(2)), "another picture");
        let nearly = Reconstruction { image: found.image.iter().map(|v| v * 0.9).collect(), ..found };
        assert!(!is_exact(&alone, &nearly), "a picture that is only alike");
    }

    #[test]
    fn no_error_is_larger_than_the_bound() {
        let alone = evidence(&[picture(1)], 0);
        for size in [1e-4, 1e-2, 0.1] {
            let mut moved = picture(1);
            moved.image.iter_mut().enumerate().for_each(|(i, v)| *v += size * ((i * i) as f32 * 0.7).sin());
            let truth = picture(1).image;
            let squares = moved.image.iter().zip(&truth).map(|(a, b)| f64::from(a - b).powi(2));
            let error = (squares.sum::<f64>() / 768.0).sqrt();
            let bound = pixel_uncertainty(&alone.gradients, &moved.image).unwrap();
            assert!(bound >= error, "{bound} where {error} is true");
        }
    }

    #[test]
    fn mixtures_and_masks_do_not_pass_for_exact() {
        let mixed = evidence(&[picture(1), picture(2)], 0);
        assert!(!is_exact(&mixed, &embedding_inversion(&mixed.gradients).unwrap()));
        // With two of seven entries hidden, over 16 of the 48 equations are whole; with five hidden, too few are.
        let masked = evidence(&[picture(1)], 2);
        assert!(!is_exact(&masked, &embedding_inversion(&masked.gradients).unwrap()), "zeros for values");
        let aware = crate::embedding_inversion_aware(&masked, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        assert!(is_exact(&masked, &aware), "the equations that arrived whole");
        let few = evidence(&[picture(1)], 5);
        assert_eq!(pixel_uncertainty(&few.gradients, &picture(1).image), None, "as many unknowns as equations");
    }
}
