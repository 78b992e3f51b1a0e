//! How a run looks on the terminal.

use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use unmask_datasets::DataSet;
use unmask_model::device::OpenDevice;
use unmask_simulation::{Config, Metrics};

use super::Event;

/// A bar over the rounds, with the newest loss and accuracy beside it. Where standard error is no terminal, a line for
/// each test instead.
pub(super) struct Display {
    bar: ProgressBar,
    /// In all; unknown until the run begins.
    rounds: Option<u32>,
    tested: String,
    begin: Instant,
    /// The round it began in.
    first: u32,
}

impl Display {
    pub(super) fn new(config: &Config, data: &DataSet, device: &OpenDevice) -> Self {
        eprintln!(
            "{} on {} ({} pictures), {} clients, {}, {}, defence {}, {}",
            config.model,
            data.name,
            config.train_slice.map_or(data.train.len(), |slice| slice.range().len()),
            config.clients,
            config.rule,
            config.optimiser,
            config.defence,
            device.description()
        );
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}%, {eta} left, {msg}") {
            bar.set_style(style);
        }
        Self { bar, rounds: None, tested: String::new(), begin: Instant::now(), first: 0 }
    }

    pub(super) fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Begins { rounds, notes } => {
                notes.iter().for_each(|note| self.say(note));
                self.rounds = Some(rounds);
                self.bar.set_length(rounds.into());
            }
            Event::Resumed { round, problems } => {
                problems.iter().for_each(|problem| self.say(&format!("left aside: {problem}")));
                self.say(&format!("going on after round {round}"));
                self.first = round;
                self.bar.set_position(round.into());
                self.bar.reset_eta();
            }
            Event::Round(metrics) => self.round(metrics),
        }
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

    /// A line that stays; the bar prints none where it is hidden.
    fn say(&self, line: &str) {
        if self.bar.is_hidden() { eprintln!("{line}") } else { self.bar.println(line) }
    }

    /// How long it will go on.
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
