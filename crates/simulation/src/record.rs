//! `run.json`: the config, program and data of a run, its times and its results.

use std::{fmt, fs, io, path::Path};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unmask_data::datasets::{DataSet, Labelled};

use crate::{Config, RunOutcome, files::write_whole};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// Every key as resolved, except the passphrase.
    pub(crate) config: serde_json::Value,
    pub(crate) seed: u64,
    pub(crate) version: String,
    pub(crate) commit: Option<String>,
    pub(crate) device: String,
    pub(crate) threads: usize,
    pub(crate) data: DataRecord,
    /// UTC.
    pub(crate) started: Timestamp,
    /// UTC; absent until the last round is done.
    pub(crate) finished: Option<Timestamp>,
    /// Time in rounds and tests, over all parts of the run.
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
    pub(crate) rounds_done: u32,
    pub(crate) loss: Option<f32>,
    pub(crate) test_accuracy: Option<f64>,
    pub(crate) test_loss: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub sha: String,
    /// Whether the working tree differed from the commit.
    pub has_local_changes: bool,
}

impl Commit {
    /// The suffix of the hash if the working tree differed.
    pub const CHANGED: &str = "-dirty";
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sha, if self.has_local_changes { Self::CHANGED } else { "" })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataRecord {
    pub(crate) name: String,
    pub(crate) classes: Vec<String>,
    pub(crate) train_pictures: usize,
    pub(crate) test_pictures: usize,
    pub(crate) sha256: String,
}

impl DataRecord {
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

impl RunRecord {
    pub(crate) fn new(config: &Config, data: DataRecord, device: String, threads: usize, rounds: u32) -> Self {
        Self {
            // This cannot fail: the config has only numbers, flags and strings.
            config: serde_json::to_value(config).unwrap_or_default(),
            seed: config.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: None,
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

    pub(crate) fn with_outcome(mut self, outcome: &RunOutcome) -> Self {
        let last = outcome.metrics.last();
        self.finished = outcome.finished.then(now);
        self.seconds = outcome.seconds;
        self.rounds_done = last.map_or(0, |metrics| metrics.round);
        self.loss = last.and_then(|metrics| metrics.loss);
        self.test_accuracy = outcome.last_test().and_then(|metrics| metrics.test_accuracy);
        self.test_loss = outcome.last_test().and_then(|metrics| metrics.test_loss);
        self
    }

    /// When the first part of the run began, from its `run.json`.
    pub(crate) fn started(path: &Path) -> Option<Timestamp> {
        let record: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        Some(record.started)
    }
}

/// Adds a result to the `run.json` in the folder of a run.
///
/// # Errors
/// The file cannot be read or written.
pub fn add_to_record(out: &Path, key: &str, value: serde_json::Value) -> io::Result<()> {
    let path = out.join("run.json");
    let mut record: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&fs::read(&path)?)?;
    record.insert(key.to_owned(), value);
    write_whole(&path, (serde_json::to_string_pretty(&record)? + "\n").as_bytes())
}

pub(crate) fn fingerprint(set: &Labelled) -> String {
    let mut hash = Sha256::new();
    hash.update(set.labels());
    (0..set.len()).filter_map(|index| set.rgb(index)).for_each(|rgb| hash.update(rgb));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_to_the_second() {
        let now = now();
        let text = now.to_string();
        assert!(text.len() == "2024-03-01T00:00:00Z".len() && text.ends_with('Z'), "{text}");
        assert_eq!(text.parse::<Timestamp>().unwrap(), now);
        assert_eq!(Timestamp::from_second(1_709_251_200).unwrap().to_string(), "2024-03-01T00:00:00Z");
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
