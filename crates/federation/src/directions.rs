//! Which way the updates of a round point, and which of them point against the others.

use unmask_defence::CheckedUpdate;

/// With fewer updates than this no direction is the one of most: two hostile clients among four would lead.
const ENOUGH: usize = 5;

/// What f32 makes of nothing: updates that have nothing in common do not point against each other.
const ROUNDING: f64 = 1e-4;

/// Most of so many updates that may be left out: more than half stay.
pub(crate) fn most_opposed(updates: usize) -> usize {
    updates.saturating_sub(1) / 2
}

/// Which of these changes point against the others: a change does whose cosine with the sum of the others is negative, each of
/// them at unit length so that none leads by its size. The worse half of those that do is taken out of the sum, the rest is
/// compared again, and so on. More than half stay in any case: near a minimum each client pulls towards its own pictures, the
/// pulls add up to nothing, and whoever agrees with few others shall not lead.
///
/// A gradient with its sign turned is as long as an honest one. A mask hides no direction: what it dropped counts as no change.
pub(crate) fn opposed(changes: &[CheckedUpdate<'_>], parameters: usize) -> Vec<bool> {
    let mut opposed = vec![false; changes.len()];
    let lengths: Vec<f64> = changes.iter().map(CheckedUpdate::length).collect();
    let factors: Vec<f32> = lengths.iter().map(|length| (1.0 / length) as f32).collect();
    // What is zero has no direction, and what is as large as floats can be is nothing to compare with.
    let compared = |opposed: &[bool]| -> Vec<usize> {
        (0..changes.len()).filter(|&i| factors[i].is_normal() && !opposed[i]).collect()
    };
    let directed = compared(&opposed).len();
    let mut most = if directed < ENOUGH { 0 } else { most_opposed(directed) };
    while most > 0 {
        let kept = compared(&opposed);
        let mut sum = vec![0.0; parameters];
        kept.iter().for_each(|&i| changes[i].accumulate(factors[i], &mut sum));
        // Its own share of the sum points its own way.
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
