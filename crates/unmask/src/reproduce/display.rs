//! The bar over all parts of an experiment.

use std::path::PathBuf;

use indicatif::ProgressBar;
use unmask_experiments::{Experiment, ExperimentEvent};

use crate::{counted, progress};

const PART: u64 = 1000;

/// A bar whose length is the parts that are left; without a terminal, a line for each part.
pub(super) struct Display {
    bar: ProgressBar,
    experiment: Experiment,
    /// Where its parts are kept.
    folder: PathBuf,
    /// Parts finished in this sitting.
    finished: u64,
    left: u64,
    name: String,
}

impl Display {
    pub(super) fn new(experiment: Experiment, folder: PathBuf) -> Self {
        Self { bar: ProgressBar::no_length(), experiment, folder, finished: 0, left: 0, name: String::new() }
    }

    pub(super) fn show(&mut self, event: ExperimentEvent<'_>) {
        match event {
            ExperimentEvent::Started { parts, left } => {
                self.left = left as u64;
                progress::style(&self.bar, progress::STYLE);
                self.bar.set_length(self.left * PART);
                let before = match parts - left {
                    0 => String::new(),
                    before => format!(", {before} of them finished before"),
                };
                let parts = counted(parts as u64, "part");
                let (experiment, folder) = (self.experiment, self.folder.display());
                let line = format!("{experiment}: {parts}{before}; what is finished is kept in {folder}");
                progress::say(&self.bar, &line);
            }
            ExperimentEvent::PartsAdded { parts } => {
                self.left += parts as u64;
                self.bar.set_length(self.left * PART);
                let parts = counted(parts as u64, "part");
                progress::say(&self.bar, &format!("{}: {parts} more, for intervals are still wide", self.experiment));
            }
            ExperimentEvent::PartStarted { name } => {
                self.name = format!("{}: {name}, part {} of {}", self.experiment, self.finished + 1, self.left);
                self.bar.set_message(self.name.clone());
                if self.bar.is_hidden() {
                    eprintln!("{}", self.name);
                }
            }
            ExperimentEvent::Progress { share, note } => {
                self.bar.set_position(self.finished * PART + (share.clamp(0.0, 1.0) * PART as f64) as u64);
                if !note.is_empty() {
                    self.bar.set_message(format!("{}, {note}", self.name));
                }
            }
            ExperimentEvent::PartFinished => {
                self.finished += 1;
                self.bar.set_position(self.finished * PART);
            }
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
