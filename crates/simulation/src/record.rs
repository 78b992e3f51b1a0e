//! `run.json`: what was run, by what, when, and what came of it.

use std::{
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unmask_data::datasets::{DataSet, Labelled};

use crate::{Config, Outcome};

/// The contents of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Every key as resolved, but for the passphrase.
    pub(crate) config: serde_json::Value,
    pub(crate) seed: u64,
    pub(crate) version: String,
    /// The commit the program was built at, where its checkout is still there.
    pub(crate) commit: Option<String>,
    pub(crate) device: String,
    pub(crate) threads: usize,
    pub(crate) data: Data,
    /// UTC.
    pub(crate) started: String,
    /// UTC; absent while rounds are left.
    pub(crate) finished: Option<String>,
    /// Spent in rounds and tests, over all parts of the run.
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
    pub(crate) rounds_done: u32,
    pub(crate) loss: Option<f32>,
    pub(crate) test_accuracy: Option<f64>,
    pub(crate) test_loss: Option<f64>,
}

/// The pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Data {
    pub(crate) name: String,
    pub(crate) classes: Vec<String>,
    pub(crate) train_pictures: usize,
    pub(crate) test_pictures: usize,
    /// SHA-256 of training pictures and labels.
    pub(crate) sha256: String,
}

impl Data {
    pub(crate) fn new(data: &DataSet) -> Self {
        Self {
            name: data.name.clone(),
            classes: data.train.classes().to_vec(),
            train_pictures: data.train.len(),
            test_pictures: data.test.len(),
            sha256: fingerprint(&data.train),
        }
    }
}

impl Record {
    /// A run that begins now.
    pub(crate) fn new(config: &Config, data: Data, device: String, threads: usize, rounds: u32) -> Self {
        Self {
            // The config is a table of numbers, flags and strings.
            config: serde_json::to_value(config).unwrap_or_default(),
            seed: config.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
            device,
            threads,
            data,
            started: now(),
            finished: None,
            seconds: 0.0,
            rounds,
            rounds_done: 0,
            loss: None,
            test_accuracy: None,
            test_loss: None,
        }
    }

    /// The same with what has come of it.
    pub(crate) fn with_outcome(mut self, outcome: &Outcome) -> Self {
        let last = outcome.metrics.last();
        self.finished = outcome.finished.then(now);
        self.seconds = outcome.seconds;
        self.rounds_done = last.map_or(0, |metrics| metrics.round);
        self.loss = last.and_then(|metrics| metrics.loss);
        self.test_accuracy = outcome.last_test().and_then(|metrics| metrics.test_accuracy);
        self.test_loss = outcome.last_test().and_then(|metrics| metrics.test_loss);
        self
    }

    /// When an earlier part of the run began, from its `run.json`.
    pub(crate) fn started(path: &Path) -> Option<String> {
        let record: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        Some(record.started)
    }
}

/// Tells these pictures from others.
pub(crate) fn fingerprint(set: &Labelled) -> String {
    let mut hash = Sha256::new();
    hash.update(set.labels());
    (0..set.len()).filter_map(|index| set.rgb(index)).for_each(|rgb| hash.update(rgb));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn commit() -> Option<String> {
    let described = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
        .output()
        .ok()?;
    let text = String::from_utf8(described.stdout).ok()?.trim().to_owned();
    (described.status.success() && !text.is_empty()).then_some(text)
}

/// The time in UTC as RFC 3339 writes it, to the second.
fn now() -> String {
    written(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date and a time (Hinnant, chrono-compatible low-level date algorithms).
fn written(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the leap day is a year's last; 719468 days lie between March of year 0 and 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(written(seconds), text);
        }
    }

    #[test]
    fn another_pixel_or_label_is_another_set() {
        let set = |pixel, label| {
            let pixels = vec![pixel; 3 * 2 * 2];
            fingerprint(&Labelled::new(2, vec!["a".to_owned(), "b".to_owned()], pixels, vec![label]).unwrap())
        };
        assert_eq!(set(1, 0), set(1, 0));
        assert!(set(1, 0) != set(2, 0) && set(1, 0) != set(1, 1));
    }
}
