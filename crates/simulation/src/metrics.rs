//! The metrics of each round.

use std::io;

use crate::files::{self, rounded};

/// Metrics of one round, with the test after it if one was due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Number of closed rounds; 0 before the first.
    pub round: u32,
    /// Passes over all training pictures up to this round.
    pub epoch: f64,
    /// Mean cross-entropy of the clients' batches, measured at the weights with which each client began the round;
    /// `None` before the first round.
    pub loss: Option<f32>,
    pub rate: f32,
    /// Share of test pictures classified correctly, in [0, 1].
    pub test_accuracy: Option<f64>,
    /// Mean cross-entropy of the test pictures.
    pub test_loss: Option<f64>,
    pub seconds: f64,
}

pub(crate) const COLUMNS: [&str; 7] = ["round", "epoch", "loss", "rate", "test_accuracy", "test_loss", "seconds"];

impl Metrics {
    pub(crate) const NUMBERS: usize = 7;

    /// The values for a checkpoint. NaN marks a value that was not measured.
    pub(crate) fn numbers(&self) -> [f64; Self::NUMBERS] {
        let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let (loss, rate) = (or_nan(self.loss.map(f64::from)), f64::from(self.rate));
        let (accuracy, test_loss) = (or_nan(self.test_accuracy), or_nan(self.test_loss));
        [f64::from(self.round), self.epoch, loss, rate, accuracy, test_loss, self.seconds]
    }

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

/// Rows of `metrics.csv` under `columns`. Values that were not measured are empty.
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
