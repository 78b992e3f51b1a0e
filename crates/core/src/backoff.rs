//! How long a client waits before it tries again to reach a server.

use std::time::Duration;

/// Mean wait before the first attempt, in seconds.
const SHORTEST: f64 = 1.0;
/// Longest mean wait, in seconds: clients should be back soon after a server restarts.
const LONGEST: f64 = 10.0;

/// Waits that double with each attempt and vary by up to a half, so that clients that lost their connection together do
/// not all reconnect together.
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
        // A draw out of range must give neither a negative nor an endless wait.
        for draw in [-1.0, 2.0] {
            assert!((500..=1500).contains(&first(draw)));
        }
    }
}
