//! How long a round waits once most of its clients have answered.

use std::time::Duration;

use tokio::time::Instant;

/// When a round began, and how long its clients took.
#[derive(Debug)]
pub(super) struct RoundClock {
    began: Instant,
    answers: Vec<Duration>,
}

impl RoundClock {
    /// Those who are slower than the others by more than this are not waited for.
    const FACTOR: u32 = 2;

    pub(super) fn start(now: Instant) -> Self {
        Self { began: now, answers: Vec::new() }
    }

    /// An update was taken.
    pub(super) fn answered(&mut self, now: Instant) {
        self.answers.push(now - self.began);
    }

    /// When twice the median time to an answer has passed.
    pub(super) fn enough(&mut self) -> Instant {
        self.answers.sort();
        let median = self.answers.get(self.answers.len() / 2).copied().unwrap_or_default();
        self.began + Self::FACTOR * median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_twice_as_long_as_the_median_answer_took() {
        let began = Instant::now();
        let mut clock = RoundClock::start(began);
        for seconds in [10, 1, 2] {
            clock.answered(began + Duration::from_secs(seconds));
        }
        assert_eq!(clock.enough(), began + Duration::from_secs(4));
    }
}
