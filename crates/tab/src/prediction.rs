//! Class probabilities from logits.

/// The `most` most probable classes with their softmax probabilities, best first; equal ones keep their order. Empty if
/// a logit is not finite.
pub fn most_probable(logits: &[f32], most: usize) -> Vec<(usize, f32)> {
    if logits.iter().any(|logit| !logit.is_finite()) {
        return Vec::new();
    }
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|logit| f64::from(logit - highest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let mut all: Vec<(usize, f32)> = powers.iter().map(|power| (power / sum) as f32).enumerate().collect();
    // The sort is stable.
    all.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    all.truncate(most);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_softmax() {
        let ln = |value: f32| value.ln();
        let best = most_probable(&[ln(1.0), ln(6.0), ln(2.0), ln(1.0)], 3);
        let places: Vec<usize> = best.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [1, 2, 0]);
        for ((_, found), expected) in best.iter().zip([0.6, 0.2, 0.1]) {
            assert!((found - expected).abs() < 1e-6, "{found} and {expected}");
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        assert_eq!(most_probable(&[1e30, 0.0], 5), [(0, 1.0), (1, 0.0)]);
        assert_eq!(most_probable(&[f32::NAN, 0.0], 5), []);
        assert_eq!(most_probable(&[], 5), []);
    }
}
