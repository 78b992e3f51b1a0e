//! What is known of a run after each round.

use std::io;

use crate::files::{self, rounded};

/// One round, and the test after it where one was due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Number of rounds closed; 0 before the first.
    pub round: u32,
    /// How often all training pictures were seen by then.
    pub epoch: f64,
    /// Mean cross-entropy of the clients' batches, measured where each of them began the round; `None` before the first.
    pub loss: Option<f32>,
    /// Learning rate of the round.
    pub rate: f32,
    /// Share of test pictures whose class was found, in [0, 1].
    pub test_accuracy: Option<f64>,
    /// Mean cross-entropy of the test pictures.
    pub test_loss: Option<f64>,
    /// Seconds the run has taken so far.
    pub seconds: f64,
}

pub(crate) const COLUMNS: [&str; 7] = ["round", "epoch", "loss", "rate", "test_accuracy", "test_loss", "seconds"];

impl Metrics {
    /// Numbers of one record in a checkpoint.
    pub(crate) const NUMBERS: usize = 7;

    /// For a checkpoint: NaN stands for what was not measured.
    pub(crate) fn numbers(&self) -> [f64; Self::NUMBERS] {
        let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let (loss, rate) = (or_nan(self.loss.map(f64::from)), f64::from(self.rate));
        let (accuracy, test_loss) = (or_nan(self.test_accuracy), or_nan(self.test_loss));
        [f64::from(self.round), self.epoch, loss, rate, accuracy, test_loss, self.seconds]
    }

    /// Takes [`numbers`](Self::numbers) back.
    pub(crate) fn from_numbers([round, epoch, loss, rate, accuracy, test_loss, seconds]: [f64; Self::NUMBERS]) -> Self {
        let measured = |value: f64| (!value.is_nan()).then_some(value);
        Self {
            round: round as u32,
            epoch,
            loss: measured(loss).map(|loss| loss as f32),
            rate: rate as f32,
            test_accuracy: measured(accuracy),
            test_loss: measured(test_loss),
            seconds,
        }
    }
}

/// Lines of `metrics.csv` below `columns`; what was not measured is left empty.
pub(crate) fn csv(columns: &[&str], metrics: &[Metrics]) -> io::Result<Vec<u8>> {
    let places = |value: Option<f64>| value.map(|value| rounded(value, 6));
    let rows = metrics.iter().map(|&Metrics { round, epoch, loss, rate, test_accuracy, test_loss, seconds }| {
        (round, rounded(epoch, 4), loss, rate, places(test_accuracy), places(test_loss), rounded(seconds, 3))
    });
    files::csv(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_gaps_stay_gaps() {
        let full = Metrics {
            round: 7,
            epoch: 0.1,
            loss: Some(2.3),
            rate: 0.001,
            test_accuracy: Some(0.25),
            test_loss: Some(2.1),
            seconds: 1.5,
        };
        let gaps = Metrics { round: 8, test_accuracy: None, test_loss: None, loss: None, ..full };
        for metrics in [full, gaps] {
            assert_eq!(Metrics::from_numbers(metrics.numbers()), metrics);
        }
        let lines =
            "round,epoch,loss,rate,test_accuracy,test_loss,seconds\n7,0.1,2.3,0.001,0.25,2.1,1.5\n8,0.1,,0.001,,,1.5\n";
        assert_eq!(String::from_utf8(csv(&COLUMNS, &[full, gaps]).unwrap()).unwrap(), lines);
    }
}
