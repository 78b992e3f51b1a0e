//! The terminal output of a run.

use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar};
use unmask_core::Rule;
use unmask_data::datasets::DataSet;
use unmask_simulation::{Config, Metrics};

use super::RunEvent;
use crate::{counted, progress};

/// Prints a line about the run. Then shows a bar over the rounds with the newest loss and accuracy; if standard error
/// is not a terminal, a line for each test instead.
pub(super) struct Display<'a> {
    config: &'a Config,
    data: &'a DataSet,
    device: String,
    bar: ProgressBar,
    /// Total rounds; unknown until the run starts.
    rounds: Option<u32>,
    tested: String,
    begin: Instant,
    /// The round at which this process started.
    first: u32,
}

impl<'a> Display<'a> {
    pub(super) fn new(config: &'a Config, data: &'a DataSet, device: String) -> Self {
        let bar = ProgressBar::no_length();
        progress::style(&bar, progress::STYLE);
        Self { config, data, device, bar, rounds: None, tested: String::new(), begin: Instant::now(), first: 0 }
    }

    pub(super) fn show(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Started { rounds, notes } => {
                self.say(&self.head(rounds));
                notes.iter().for_each(|note| self.say(note));
                self.rounds = Some(rounds);
                self.bar.set_length(rounds.into());
            }
            RunEvent::Resumed { round, problems } => {
                problems.iter().for_each(|problem| self.say(&format!("ignored: {problem}")));
                self.say(&format!("continuing after round {round}"));
                self.first = round;
                self.bar.set_position(round.into());
                self.bar.reset_eta();
            }
            RunEvent::Round(metrics) => self.round(metrics),
        }
    }

    /// A line that describes the run.
    fn head(&self, rounds: u32) -> String {
        let Self { config, data, device, .. } = self;
        // Only FedSGD has a server's step.
        let step = match config.rule {
            Rule::FedSgd => format!(", {}", config.optimiser),
            Rule::FedAvg { .. } => String::new(),
        };
        let pictures = config.train_slice.map_or(data.train.len(), |slice| slice.range().len());
        format!(
            "{} on {} ({}), {}, {}, {}{step}, defence {}, {device}",
            config.model,
            data.name,
            counted(pictures as u64, "picture"),
            counted(config.clients as u64, "client"),
            counted(rounds, "round"),
            config.rule,
            config.defence,
        )
    }

    fn round(&mut self, metrics: &Metrics) {
        let loss = metrics.loss.map_or_else(String::new, |loss| format!(", loss {loss:.3}"));
        if let (Some(accuracy), Some(test_loss)) = (metrics.test_accuracy, metrics.test_loss) {
            self.tested = format!(", {:.1} % right on test pictures", 100.0 * accuracy);
            if self.bar.is_hidden() {
                let left = self.left(metrics.round);
                self.say(&format!("round {}{loss}, test loss {test_loss:.3}{}{left}", metrics.round, self.tested));
            }
        }
        self.bar.set_position(metrics.round.into());
        self.bar.set_message(format!("round {}{loss}{}", metrics.round, self.tested));
    }

    fn say(&self, line: &str) {
        progress::say(&self.bar, line);
    }

    fn left(&self, round: u32) -> String {
        let done = round.saturating_sub(self.first);
        match self.rounds {
            Some(rounds) if done > 0 && round < rounds => {
                let left = self.begin.elapsed() * (rounds - round) / done;
                format!(", {} left", HumanDuration(left))
            }
            _ => String::new(),
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
