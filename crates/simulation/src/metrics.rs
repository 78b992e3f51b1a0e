//! What is known of a run after each round.

use std::fmt::Write;

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

/// The first line of `metrics.csv`.
pub(crate) const HEADER: &str = "round,epoch,loss,rate,test_accuracy,test_loss,seconds\n";

impl Metrics {
    /// Numbers of one record in a checkpoint.
    pub(crate) const NUMBERS: usize = 7;

    /// As a line of `metrics.csv`; what was not measured is left empty.
    pub(crate) fn csv(&self) -> String {
        let mut line = format!("{},{:.4},", self.round, self.epoch);
        let mut number = |value: Option<f64>| {
            // Writing to a string cannot fail.
            let _ = value.map(|value| write!(line, "{value:.6}"));
            line.push(',');
        };
        number(self.loss.map(f64::from));
        number(Some(f64::from(self.rate)));
        number(self.test_accuracy);
        number(self.test_loss);
        line + &format!("{:.3}\n", self.seconds)
    }

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

/// The whole of `metrics.csv`.
pub(crate) fn csv(metrics: &[Metrics]) -> String {
    metrics.iter().fold(HEADER.to_owned(), |text, metrics| text + &metrics.csv())
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
        let lines = "7,0.1000,2.300000,0.001000,0.250000,2.100000,1.500\n8,0.1000,,0.001000,,,1.500\n";
        assert_eq!(csv(&[full, gaps]), format!("{HEADER}{lines}"));
    }
}
