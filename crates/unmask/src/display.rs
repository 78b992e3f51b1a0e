//! The progress bar over all cases of an experiment or a sweep.

use std::path::PathBuf;

use indicatif::ProgressBar;
use unmask_experiments::ExperimentEvent;

use crate::{counted, progress};

const CASE: u64 = 1000;

/// A bar over the cases that remain; without a terminal, one printed line for each case.
pub struct Display {
    bar: ProgressBar,
    /// Name of the experiment or sweep.
    experiment: String,
    /// Folder of the finished cases.
    folder: PathBuf,
    /// Cases finished in this run.
    finished: u64,
    left: u64,
    name: String,
}

impl Display {
    pub fn new(experiment: &str, folder: PathBuf) -> Self {
        let experiment = experiment.to_owned();
        Self { bar: ProgressBar::no_length(), experiment, folder, finished: 0, left: 0, name: String::new() }
    }

    pub fn show(&mut self, event: ExperimentEvent<'_>) {
        match event {
            ExperimentEvent::Started { cases, left } => {
                self.left = left as u64;
                progress::style(&self.bar, progress::STYLE);
                self.bar.set_length(self.left * CASE);
                let before = match cases - left {
                    0 => String::new(),
                    before => format!(", {before} of them finished before"),
                };
                let cases = counted(cases as u64, "case");
                let (experiment, folder) = (&self.experiment, self.folder.display());
                let line = format!("{experiment}: {cases}{before}; finished cases are kept in {folder}");
                progress::say(&self.bar, &line);
            }
            ExperimentEvent::CasesAdded { cases } => {
                self.left += cases as u64;
                self.bar.set_length(self.left * CASE);
                let cases = counted(cases as u64, "case");
                progress::say(&self.bar, &format!("{}: {cases} more, since intervals are still wide", self.experiment));
            }
            ExperimentEvent::CaseStarted { name } => {
                self.name = format!("{}: {name}, case {} of {}", self.experiment, self.finished + 1, self.left);
                self.bar.set_message(self.name.clone());
                if self.bar.is_hidden() {
                    eprintln!("{}", self.name);
                }
            }
            ExperimentEvent::Progress { share, note } => {
                self.bar.set_position(self.finished * CASE + (share.clamp(0.0, 1.0) * CASE as f64) as u64);
                if !note.is_empty() {
                    self.bar.set_message(format!("{}, {note}", self.name));
                }
            }
            ExperimentEvent::CaseFinished => {
                self.finished += 1;
                self.bar.set_position(self.finished * CASE);
            }
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
