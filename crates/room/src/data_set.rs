//! The shared data set and its division into shards.

pub(super) mod division;

use std::{path::PathBuf, time::Duration};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use tracing::warn;
use unmask_core::{Partition, TrainOn};
use unmask_data::datasets::{DataSet, Labelled, Source};
use unmask_wire::{MAX_CLASS_NAME, MAX_CLASSES};

use crate::text::clean;

/// The shared data set, its shards and its held-out pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct DataConfig {
    /// Source of the pictures. Generated pictures are made on demand; others are read at the start.
    pub source: Source,
    /// The folder of CIFAR-10; the usual one if absent.
    pub cifar10: Option<PathBuf>,
    /// How the training pictures are divided into shards.
    pub partition: Partition,
    /// Number of shards; client n has shard (n - 1) mod `shards`.
    pub shards: u16,
    /// Upper limit of pictures in a shard.
    pub shard_pictures: u32,
    /// Whether rounds train on shards from the start.
    pub train_on: TrainOn,
    /// Upper limit of held-out pictures for measuring a model.
    pub test_pictures: u32,
    /// Time for measuring one model; 0 turns measuring off.
    pub evaluation_budget: Duration,
}

impl Default for DataConfig {
    /// Generated pictures, divided evenly into 10 shards of 200 pictures; rounds on private pictures; 500 held-out
    /// pictures within 2 s a round.
    fn default() -> Self {
        Self {
            source: Source::Generated,
            cifar10: None,
            partition: Partition::Iid,
            shards: 10,
            shard_pictures: 200,
            train_on: TrainOn::Private,
            test_pictures: 500,
            evaluation_budget: Duration::from_secs(2),
        }
    }
}

/// Reads or generates the data set of these settings; the seed draws generated and held-out pictures.
pub type Loader = fn(&DataConfig, u64) -> anyhow::Result<DataSet>;

/// Why a data set cannot be shared out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the data set {wanted} cannot be shared out: {reason}")]
    Unreadable { wanted: Source, reason: anyhow::Error },
    #[error("{name} has {classes} classes; a room can share out a data set of at most {MAX_CLASSES}")]
    ManyClasses { name: String, classes: usize },
}

/// The data set that a room shares out.
#[derive(Debug)]
pub struct SharedDataSet {
    pub(crate) name: String,
    /// Class names, shortened to fit the wire.
    pub classes: Vec<String>,
    /// Training pictures.
    train: Labelled,
    /// A sample of the test pictures, in random order.
    pub(crate) held_out: Labelled,
    /// Number of test pictures.
    pub(crate) test: usize,
}

impl SharedDataSet {
    /// Has `loader` read or generate the data set, which takes a while.
    ///
    /// # Errors
    /// If it cannot be loaded, or has too many classes to be shared out.
    pub fn load(loader: Loader, config: &DataConfig, seed: u64) -> Result<Self, LoadError> {
        let DataSet { name, train, test, left_out } =
            loader(config, seed).map_err(|reason| LoadError::Unreadable { wanted: config.source.clone(), reason })?;
        for sentence in left_out {
            warn!("{sentence}");
        }
        let name = match config.source {
            Source::Cifar10 => "CIFAR-10".to_owned(),
            Source::Generated => "generated shapes".to_owned(),
            Source::Folder(_) => clean(&name, 60),
        };
        let classes = train.classes().len();
        if classes > MAX_CLASSES {
            return Err(LoadError::ManyClasses { name, classes });
        }
        let classes = train.classes().iter().map(|class| fit(class)).collect();
        let sample = sample((0..test.len()).collect(), config.test_pictures as usize, seed);
        Ok(Self { name, classes, held_out: test.subset(&sample), test: test.len(), train })
    }

    pub(crate) fn len(&self) -> usize {
        self.train.len()
    }
}

/// Draws at most `most` of `all` in random order.
fn sample(mut all: Vec<usize>, most: usize, seed: u64) -> Vec<usize> {
    all.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    all.truncate(most);
    all
}

/// Shortens a class name to fit the wire.
fn fit(class: &str) -> String {
    let class = clean(class, MAX_CLASS_NAME);
    let end = class.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= MAX_CLASS_NAME).last();
    class[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data set with a picture of each of so many classes.
    fn classes(count: usize) -> anyhow::Result<Labelled> {
        let names = (0..count).map(|class| class.to_string()).collect();
        Ok(Labelled::new(1, names, vec![0; 3 * count], (0..count).map(|class| class as u8).collect())?)
    }

    fn load(config: &DataConfig, _: u64) -> anyhow::Result<DataSet> {
        let (train, test) = (classes(config.shards.into())?, classes(1)?);
        Ok(DataSet { name: "many".to_owned(), train, test, left_out: Vec::new() })
    }

    #[test]
    fn too_many_classes_are_refused() {
        let load = |shards: usize| {
            let config = DataConfig { shards: shards as u16, ..DataConfig::default() };
            SharedDataSet::load(load, &config, 1).map(|data_set| data_set.classes.len())
        };
        assert_eq!(load(MAX_CLASSES).ok(), Some(MAX_CLASSES));
        for count in [1, 2] {
            let error = load(MAX_CLASSES + count).unwrap_err().to_string();
            assert!(error.contains(&(MAX_CLASSES + count).to_string()), "{error}");
        }
    }

    #[test]
    fn names_fit_the_wire() {
        assert_eq!(fit(" ring\u{7} "), "ring");
        let long = fit(&"ä".repeat(40));
        assert_eq!((long.len(), long.chars().count()), (32, 16));
    }

    #[test]
    fn sample_is_drawn_without_repetition() {
        let drawn = sample((0..100).collect(), 30, 5);
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!((drawn.len(), sorted.len()), (30, 30));
        assert_ne!(drawn, sorted);
        assert_eq!(sample((0..100).collect(), 30, 5), drawn);
        assert_eq!(sample(vec![4], 30, 5), [4]);
    }
}
