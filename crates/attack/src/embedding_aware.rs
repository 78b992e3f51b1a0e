//! Embedding inversion that knows which entries were dropped.

use faer::Mat;
use unmask_core::AttackMethod;
use web_time::Instant;

use crate::{
    ALS_ITERATIONS, AccumulatedRounds, AttackError, AttackProgress, Evidence, OnProgress, Reconstruction, Rounding,
    als, embedding_inversion,
    least_squares::{Spectrum, least_squares},
    observed::Observed,
};

/// Solves G_pos^T X = G_E with the kept entries of both.
///
/// - Nothing hidden: [`embedding_inversion`].
/// - G_pos whole, and at least S of the D equations left for each pixel of a patch: exact, by least squares over those.
/// - Otherwise: [`als`] on this one update, which finds a likely picture, not an exact one.
///
/// `progress` is called for each pixel of a patch, or for each iteration of [`als`], and may end the attack.
///
/// # Errors
/// [`AttackError`]: a tensor is missing, all zero or all hidden, or `progress` ended the attack before there was a
/// picture ([`AttackError::Ended`]).
pub fn embedding_inversion_aware(evidence: &Evidence, progress: OnProgress<'_>) -> Result<Reconstruction, AttackError> {
    let clock = Instant::now();
    let round = AccumulatedRounds::of(evidence)?;
    let (position, patch) = (round.position(), round.patch());
    if position.is_whole() && patch.is_whole() {
        return embedding_inversion(&evidence.gradients);
    }
    let fewest = (0..patch.ncols()).map(|pixel| patch.known_in_column(pixel)).min().unwrap_or(0);
    if !position.is_whole() || fewest < position.nrows() {
        return als(&round, ALS_ITERATIONS, progress);
    }
    let rounding = evidence.gradients.rounding();
    let unsolvable = || AttackError::Unsolvable { method: AttackMethod::EmbeddingAware };
    let mut x = Mat::zeros(position.nrows(), patch.ncols());
    let mut worst: Option<Spectrum> = None;
    for pixel in 0..patch.ncols() {
        let at = AttackProgress { iteration: pixel, iterations: patch.ncols(), objective: 0.0, pictures: &[] };
        if progress(at).is_break() {
            return Err(AttackError::Ended { seconds: clock.elapsed().as_secs_f64() });
        }
        let (column, spectrum) = solve_pixel(position, patch, pixel, rounding).ok_or_else(unsolvable)?;
        x.col_mut(pixel).copy_from(column.col(0));
        if worst.is_none_or(|worst| spectrum.ratio < worst.ratio) {
            worst = Some(spectrum);
        }
    }
    let spectrum = worst.ok_or_else(unsolvable)?;
    let mut reconstruction = Reconstruction::from_patches(x.as_ref(), round.config(), spectrum);
    reconstruction.note(format!(
        "The position embedding's gradient arrived whole, so that the {fewest} or more equations left for each pixel \
         determine it."
    ));
    reconstruction.note_cutoff(spectrum, rounding);
    Ok(reconstruction)
}

/// Solves for one column of X `[S, L]` from its kept rows.
fn solve_pixel(
    position: &Observed,
    patch: &Observed,
    pixel: usize,
    rounding: Rounding,
) -> Option<(Mat<f64>, Spectrum)> {
    let s = position.nrows();
    let rows: Vec<usize> = (0..patch.nrows()).filter(|&row| patch.is_known(row, pixel)).collect();
    let a = Mat::from_fn(rows.len(), s, |i, j| position.values[(j, rows[i])]);
    let b = Mat::from_fn(rows.len(), 1, |i, _| patch.values[(rows[i], pixel)]);
    least_squares(a.as_ref(), b.as_ref(), rounding.cutoff())
}
