//! Recorded updates, attacked one after the other.

use std::path::Path;

use anyhow::anyhow;
use indicatif::ProgressBar;
use unmask_audit::{Audit as Report, HowToAttack, recorded_files};
use unmask_matching::GradientMatching;
use unmask_model::device::OpenDevice;

use super::Audit;
use crate::{Failure, interrupt::Interrupt, invert, progress};

impl Audit {
    pub(super) fn of_folder(&self, folder: &Path, interrupt: &Interrupt) -> Result<Report, Failure> {
        let files = recorded_files(folder).map_err(|error| Failure::Input(error.into()))?;
        let how = HowToAttack {
            attacks: self.attacks.clone(),
            model: self.asked().map_err(Failure::Input)?,
            rate: self.rate,
            truth_may_be_of_another: files.len() > 1,
        };
        // Reported before any work is done.
        invert::known(&self.truth, None, (32, 32)).map_err(Failure::Input)?;
        let known = |size| invert::known(&self.truth, None, size).unwrap_or_default();
        let searches = GradientMatching::new(OpenDevice::cpu());
        let bar = ProgressBar::new(files.len() as u64);
        progress::style(&bar, progress::STYLE);
        let mut updates = Vec::new();
        for file in files {
            bar.set_message(file.name.clone());
            updates.push(file.attack(&how, &known, &searches, &|| interrupt.flow()));
            bar.inc(1);
            if interrupt.flow().is_break() {
                bar.finish_and_clear();
                return Err(Failure::Other(anyhow!("stopped after {} updates; nothing was written", updates.len())));
            }
        }
        bar.finish_and_clear();
        Ok(Report::of_updates(updates))
    }
}
