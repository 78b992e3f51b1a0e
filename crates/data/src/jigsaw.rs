//! Pictures with shuffled patches.
//!
//! When the position embedding is held fixed, gradient matching recovers patches but not their positions. To measure
//! how much content was recovered, each patch is put where it fits best. This needs the true picture, so an attacker
//! cannot do it.

mod assignment;

use self::assignment::cheapest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotArrange {
    #[error(
        "pictures of {found} and {truth} values do not both consist of {patch} x {patch} patches in a square of side {side}"
    )]
    Sizes { found: usize, truth: usize, side: usize, patch: usize },
}

/// Returns `found` with its patches where they fit `truth` best: the assignment of patches to places with the smallest
/// sum of squared differences. Pictures are `[side, side, 3]` in [0, 1], patches are `patch` pixels wide.
///
/// # Errors
/// The sizes do not match.
pub fn best_arrangement(found: &[f32], truth: &[f32], side: usize, patch: usize) -> Result<Vec<f32>, CannotArrange> {
    let expected = side.saturating_mul(side).saturating_mul(3);
    if patch == 0 || side == 0 || !side.is_multiple_of(patch) || found.len() != expected || truth.len() != expected {
        return Err(CannotArrange::Sizes { found: found.len(), truth: truth.len(), side, patch });
    }
    let places = rows_of_patches(side, patch);
    let cost = |place: &[usize], piece: &[usize]| -> f64 {
        let rows = place.iter().zip(piece);
        let squares = rows
            .flat_map(|(&place, &piece)| truth[place..place + 3 * patch].iter().zip(&found[piece..piece + 3 * patch]));
        let sum: f64 = squares.map(|(&truth, &found)| (f64::from(truth) - f64::from(found)).powi(2)).sum();
        // A patch with NaN or infinity fits nowhere.
        if sum.is_finite() { sum } else { f64::from(f32::MAX) }
    };
    let costs: Vec<Vec<f64>> =
        places.iter().map(|place| places.iter().map(|piece| cost(place, piece)).collect()).collect();
    let pieces = cheapest(&costs);
    let mut arranged = vec![0.0; expected];
    for (place, piece) in places.iter().zip(pieces) {
        for (&to, &from) in place.iter().zip(&places[piece]) {
            arranged[to..to + 3 * patch].copy_from_slice(&found[from..from + 3 * patch]);
        }
    }
    Ok(arranged)
}

/// For each patch, the offsets of its rows in `[side, side, 3]`.
fn rows_of_patches(side: usize, patch: usize) -> Vec<Vec<usize>> {
    let corners = (0..side).step_by(patch).flat_map(|top| (0..side).step_by(patch).map(move |left| (top, left)));
    corners.map(|(top, left)| (top..top + patch).map(|y| (y * side + left) * 3).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Undoes any order of the patches, and does not make an unrelated picture worse.
    #[test]
    fn patches_find_their_places() {
        let (side, patch) = (12, 4);
        let truth: Vec<f32> = (0..side * side * 3).map(|i| ((i * i) as f32 * 0.013).sin() * 0.5 + 0.5).collect();
        let places = rows_of_patches(side, patch);
        let mut found = vec![0.0; truth.len()];
        for (index, place) in places.iter().enumerate() {
            for (&to, &from) in place.iter().zip(&places[(index * 4 + 3) % 9]) {
                found[to..to + 3 * patch].copy_from_slice(&truth[from..from + 3 * patch]);
            }
        }
        assert_ne!(found, truth);
        assert_eq!(best_arrangement(&found, &truth, side, patch), Ok(truth.clone()));
        let distance = |a: &[f32]| a.iter().zip(&truth).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        let other: Vec<f32> = (0..truth.len()).map(|i| (i as f32 * 0.7).cos() * 0.5 + 0.5).collect();
        assert!(distance(&best_arrangement(&other, &truth, side, patch).unwrap()) <= distance(&other));
    }

    #[test]
    fn sizes_must_fit() {
        let picture = vec![0.0; 12 * 12 * 3];
        for (side, patch, len) in [(12, 5, 432), (12, 0, 432), (0, 4, 432), (12, 4, 431)] {
            let error = best_arrangement(&picture, &picture[..len], side, patch).unwrap_err();
            assert_eq!(error, CannotArrange::Sizes { found: 432, truth: len, side, patch });
        }
    }
}
