//! Attack scores of the newest rounds.

use serde::{Deserialize, Serialize};

/// SSIM by round, newest last. The journal stores it as is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Scores {
    by_round: Vec<(u32, f32)>,
}

impl Scores {
    /// Adds a round's score and keeps the newest `most` rounds. Replaces an earlier score of the same round, because a
    /// search is scored many times.
    pub(crate) fn push(&mut self, round: u32, ssim: f32, most: usize) {
        self.by_round.retain(|(scored, _)| *scored != round);
        self.by_round.push((round, ssim));
        let surplus = self.by_round.len().saturating_sub(most);
        self.by_round.drain(..surplus);
    }

    pub(crate) fn values(&self) -> Vec<f32> {
        self.by_round.iter().map(|(_, ssim)| *ssim).collect()
    }

    /// Returns the median, the mean of the middle two for an even number; `None` without scores.
    pub(crate) fn median(&self) -> Option<f32> {
        let mut values = self.values();
        values.sort_by(f32::total_cmp);
        let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
        Some((low + high) / 2.0)
    }

    pub(crate) fn clear(&mut self) {
        self.by_round.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_the_newest_rounds() {
        let mut scores = Scores::default();
        let median_of = |scores: &mut Scores, round, ssim| {
            scores.push(round, ssim, 3);
            scores.median()
        };
        assert_eq!(scores.median(), None);
        assert_eq!(median_of(&mut scores, 1, 0.5), Some(0.5));
        assert_eq!(median_of(&mut scores, 2, 0.25), Some(0.375));
        assert_eq!(median_of(&mut scores, 3, 0.75), Some(0.5));
        assert_eq!(median_of(&mut scores, 3, 0.0), Some(0.25), "the round's last score");
        assert_eq!(median_of(&mut scores, 4, 0.125), Some(0.125), "round 1 is too long ago");
        assert_eq!(scores.values(), [0.25, 0.0, 0.125]);
    }
}
