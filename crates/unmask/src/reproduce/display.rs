//! The bar over all parts of an experiment.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use unmask_papers::{Event, Experiment};

/// Length of one part.
const PART: u64 = 1000;

/// A bar whose length is the parts that are left; without a terminal, a line for each part.
pub(super) struct Display {
    bar: ProgressBar,
    experiment: Experiment,
    /// Parts finished in this sitting.
    finished: u64,
    left: u64,
    name: String,
}

impl Display {
    pub(super) fn new(experiment: Experiment) -> Self {
        Self { bar: ProgressBar::no_length(), experiment, finished: 0, left: 0, name: String::new() }
    }

    pub(super) fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Begins { parts, left } => {
                self.left = left as u64;
                if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}%, {eta} left, {msg}") {
                    self.bar.set_style(style);
                }
                self.bar.set_length(self.left * PART);
                if left < parts {
                    self.bar.println(format!(
                        "{}: {} of {parts} parts were finished before",
                        self.experiment,
                        parts - left
                    ));
                }
            }
            Event::Part { name } => {
                self.name = format!("{}: {name}, part {} of {}", self.experiment, self.finished + 1, self.left);
                self.bar.set_message(self.name.clone());
                if !std::io::stderr().is_terminal() {
                    eprintln!("{}", self.name);
                }
            }
            Event::Step { share, note } => {
                self.bar.set_position(self.finished * PART + (share.clamp(0.0, 1.0) * PART as f64) as u64);
                if !note.is_empty() {
                    self.bar.set_message(format!("{}, {note}", self.name));
                }
            }
            Event::Ends => {
                self.finished += 1;
                self.bar.set_position(self.finished * PART);
            }
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
