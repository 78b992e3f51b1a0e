//! Embedding inversion that knows which entries were dropped.

use std::ops::ControlFlow;

use faer::Mat;
use unmask_core::AttackMethod;

use crate::{
    ALS_ITERATIONS, AccumulatedRounds, AttackError, Evidence, Reconstruction, Rounding, als, embedding_inversion,
    least_squares::{Spectrum, least_squares},
    observed::Observed,
};

/// Solves G_pos^T X = G_E with what was kept of both.
///
/// - Nothing hidden: [`embedding_inversion`].
/// - G_pos whole and each pixel of a patch left with at least S of its D equations: least squares over those, exactly.
/// - Otherwise [`als`] on this one update, which shows a likely picture rather than the picture.
///
/// # Errors
/// [`AttackError`]: a tensor is missing, all zero or all hidden.
pub fn embedding_inversion_aware(evidence: &Evidence) -> Result<Reconstruction, AttackError> {
    let round = AccumulatedRounds::of(evidence)?;
    let (position, patch) = (round.position(), round.patch());
    if position.is_whole() && patch.is_whole() {
        return embedding_inversion(&evidence.gradients);
    }
    let fewest = (0..patch.ncols()).map(|pixel| patch.known_in_column(pixel)).min().unwrap_or(0);
    if !position.is_whole() || fewest < position.nrows() {
        return als(&round, ALS_ITERATIONS, |_| ControlFlow::Continue(()));
    }
    let rounding = evidence.gradients.rounding();
    let (patches, spectrum) = solve_pixels(position, patch, rounding)
        .ok_or(AttackError::Unsolvable { method: AttackMethod::EmbeddingAware })?;
    let mut reconstruction = Reconstruction::from_patches(patches.as_ref(), round.config(), spectrum);
    reconstruction.note(format!(
        "The position embedding's gradient arrived whole, so that the {fewest} or more equations left for each pixel \
         determine it."
    ));
    reconstruction.note_cutoff(spectrum, rounding);
    Ok(reconstruction)
}

/// X `[S, L]` column by column, from the rows that were kept; the worst of all spectra.
fn solve_pixels(position: &Observed, patch: &Observed, rounding: Rounding) -> Option<(Mat<f64>, Spectrum)> {
    let s = position.nrows();
    let mut x = Mat::zeros(s, patch.ncols());
    let mut worst: Option<Spectrum> = None;
    for pixel in 0..patch.ncols() {
        let rows: Vec<usize> = (0..patch.nrows()).filter(|&row| patch.is_known(row, pixel)).collect();
        let a = Mat::from_fn(rows.len(), s, |i, j| position.values[(j, rows[i])]);
        let b = Mat::from_fn(rows.len(), 1, |i, _| patch.values[(rows[i], pixel)]);
        let (solution, spectrum) = least_squares(a.as_ref(), b.as_ref(), rounding.cutoff())?;
        x.col_mut(pixel).copy_from(solution.col(0));
        if worst.is_none_or(|worst| spectrum.ratio < worst.ratio) {
            worst = Some(spectrum);
        }
    }
    Some((x, worst?))
}
