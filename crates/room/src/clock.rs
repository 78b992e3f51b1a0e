//! How long a round waits once most of its clients have answered.

use std::time::Duration;

use super::time::Moment;

/// When a round began, and how long its clients took to answer.
#[derive(Debug)]
pub(super) struct RoundClock {
    began: Moment,
    answers: Vec<Duration>,
}

impl RoundClock {
    /// The round waits for this multiple of the median answer time.
    const FACTOR: u32 = 2;

    /// Shortest wait for clients that usually answer. Without it, a phone would be late in every round beside clients
    /// on this machine.
    pub(super) const LEAST: Duration = Duration::from_secs(5);

    pub(super) fn start(now: Moment) -> Self {
        Self { began: now, answers: Vec::new() }
    }

    pub(super) fn answered(&mut self, now: Moment) {
        self.answers.push(now - self.began);
    }

    /// Returns when the round has waited twice the median answer time; at least [`Self::LEAST`] if `awaited`.
    pub(super) fn enough(&mut self, awaited: bool) -> Moment {
        self.answers.sort();
        let median = self.answers.get(self.answers.len() / 2).copied().unwrap_or_default();
        self.began + (Self::FACTOR * median).max(if awaited { Self::LEAST } else { Duration::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_twice_as_long_as_the_median_answer_took() {
        let began = Moment::START;
        let mut clock = RoundClock::start(began);
        for seconds in [20, 3, 4] {
            clock.answered(began + Duration::from_secs(seconds));
        }
        assert_eq!(clock.enough(true), began + Duration::from_secs(8));
    }

    #[test]
    fn fast_clients_leave_slow_ones_their_time() {
        let began = Moment::START;
        let mut clock = RoundClock::start(began);
        for _ in 0..4 {
            clock.answered(began + Duration::from_millis(20));
        }
        assert_eq!(clock.enough(true), began + RoundClock::LEAST);
        assert_eq!(clock.enough(false), began + Duration::from_millis(40), "nobody is waited for");
    }
}
