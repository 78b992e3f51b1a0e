//! The directions of a round's updates, and which updates point against the others.

use unmask_defence::CheckedUpdate;

/// Fewer updates have no majority direction: two hostile clients among four would lead.
const ENOUGH: usize = 5;

/// f32 rounding error of a dot product of orthogonal updates, which do not point against each other.
const ROUNDING: f64 = 1e-4;

/// Most updates that may be left out: more than half stay.
pub(super) fn most_opposed(updates: usize) -> usize {
    updates.saturating_sub(1) / 2
}

/// Finds the changes that point against the others: those with a negative cosine to the sum of the others, where each
/// change has unit length so that none leads by its size. The worse half of them is taken out of the sum, the rest is
/// compared again, and so on. More than half always stay: near a minimum each client pulls towards its own pictures,
/// the pulls cancel out, and a client that agrees with few others must not lead.
///
/// A gradient with flipped sign is as long as an honest one, so a bound on norms cannot catch it. Masks hide no
/// direction: dropped values count as no change.
pub(super) fn opposed(changes: &[CheckedUpdate<'_>], parameters: usize) -> Vec<bool> {
    let mut opposed = vec![false; changes.len()];
    let lengths: Vec<f64> = changes.iter().map(CheckedUpdate::length).collect();
    let factors: Vec<f32> = lengths.iter().map(|length| (1.0 / length) as f32).collect();
    // A zero change has no direction, and the length of a near-overflow change cannot be inverted.
    let compared = |opposed: &[bool]| -> Vec<usize> {
        (0..changes.len()).filter(|&i| factors[i].is_normal() && !opposed[i]).collect()
    };
    let directed = compared(&opposed).len();
    let mut most = if directed < ENOUGH { 0 } else { most_opposed(directed) };
    while most > 0 {
        let kept = compared(&opposed);
        let mut sum = vec![0.0; parameters];
        kept.iter().for_each(|&i| changes[i].accumulate(factors[i], &mut sum));
        // Leave out the change's own share of the sum.
        let own = |i: usize| (f64::from(factors[i]) * lengths[i]).powi(2);
        let with_others = |&i: &usize| (i, f64::from(factors[i]) * changes[i].dot(&sum) - own(i));
        let is_against = |(_, product): &(usize, f64)| *product < -ROUNDING;
        let mut against: Vec<(usize, f64)> = kept.iter().map(with_others).filter(is_against).collect();
        against.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        against.truncate(against.len().div_ceil(2).min(most));
        if against.is_empty() {
            break;
        }
        most -= against.len();
        against.iter().for_each(|(i, _)| opposed[*i] = true);
    }
    opposed
}
