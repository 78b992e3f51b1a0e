//! A lower bound of epsilon, by trying: a guesser who knows everything but one picture tells which of two it was.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

/// Whether `sent` is likelier the first than the second of two protected updates, `[P]` each without their noise, if the
/// noise is Gaussian and the same on all values (Neyman and Pearson): <u - (m_0 + m_1) / 2, m_0 - m_1> > 0.
pub fn is_first_likelier(sent: &[f32], [first, second]: [&[f64]; 2]) -> bool {
    let pairs = first.iter().zip(second);
    let likelihood: f64 = sent
        .iter()
        .zip(pairs)
        .map(|(sent, (first, second))| (f64::from(*sent) - (first + second) / 2.0) * (first - second))
        .sum();
    likelihood > 0.0
}

/// How often the guesser was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CanaryScore {
    pub trials: u32,
    pub right: u32,
}

impl CanaryScore {
    /// Confidence of [`epsilon`](Self::epsilon).
    pub const CONFIDENCE: f64 = 0.95;

    /// Counts a guess.
    pub fn count(&mut self, is_right: bool) {
        self.trials += 1;
        self.right += u32::from(is_right);
    }

    /// The smallest epsilon at `delta` with which so many right guesses are plausible. Under (epsilon, delta)-differential
    /// privacy a guess is right with probability at most (e^epsilon + delta) / (e^epsilon + 1); the probability is at least
    /// Clopper and Pearson's one-sided limit.
    pub fn epsilon(self, delta: f64) -> f64 {
        let Self { trials, right } = self;
        let limit = match Beta::new(f64::from(right), f64::from(trials - right) + 1.0) {
            Ok(beta) => beta.inverse_cdf(1.0 - Self::CONFIDENCE),
            // No guess was right.
            Err(_) => 0.0,
        };
        ((limit - delta) / (1.0 - limit)).ln().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_tables() {
        // 0.05^(1/300) and, for 150 of 300, R: binom.test(150, 300, alternative = "greater")$conf.int[1] = 0.4507.
        let all = CanaryScore { trials: 300, right: 300 };
        assert!(
            (all.epsilon(0.0) - (0.05_f64.powf(1.0 / 300.0) / (1.0 - 0.05_f64.powf(1.0 / 300.0))).ln()).abs() < 1e-6
        );
        assert_eq!(CanaryScore { trials: 300, right: 150 }.epsilon(0.0), 0.0);
        assert_eq!(CanaryScore { trials: 300, right: 0 }.epsilon(0.0), 0.0);
        assert_eq!(CanaryScore::default().epsilon(1e-5), 0.0);
        let most = CanaryScore { trials: 300, right: 200 }.epsilon(0.0);
        assert!((0.4..0.6).contains(&most), "{most}");
    }

    #[test]
    fn the_nearer_one_is_likelier() {
        let means: [&[f64]; 2] = [&[1.0, 0.0], &[0.0, 1.0]];
        assert!(is_first_likelier(&[0.9, 0.6], means));
        assert!(!is_first_likelier(&[0.5, 0.6], means));
    }
}
