//! How long a client waits before it tries again what a server did not answer.

use std::time::Duration;

/// Before the first attempt, in seconds.
const SHORTEST: f64 = 1.0;
/// Before any later one, in seconds: whoever starts a server again wants its clients back within a breath.
const LONGEST: f64 = 10.0;

/// Waits that double from attempt to attempt, each longer or shorter by up to a half, so that clients that were cut off at one
/// moment do not come back at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    seconds: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { seconds: SHORTEST }
    }
}

impl Backoff {
    /// The next wait. `draw` is a random number in [0, 1).
    pub fn wait(&mut self, draw: f64) -> Duration {
        let seconds = self.seconds * (0.5 + draw.clamp(0.0, 1.0));
        self.seconds = (2.0 * self.seconds).min(LONGEST);
        Duration::from_secs_f64(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let waits: Vec<f64> = (0..6).map(|_| backoff.wait(0.5).as_secs_f64()).collect();
        assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]);
        assert_eq!(Backoff::default().wait(0.5).as_secs_f64(), 1.0);
    }

    #[test]
    fn clients_that_were_cut_off_together_come_back_apart() {
        let first = |draw| Backoff::default().wait(draw).as_millis();
        assert_eq!((first(0.0), first(0.25), first(1.0)), (500, 750, 1500));
        // Whatever the random numbers are, a client waits neither for ever nor less than nothing.
        for draw in [-1.0, 2.0] {
            assert!((500..=1500).contains(&first(draw)));
        }
    }
}
