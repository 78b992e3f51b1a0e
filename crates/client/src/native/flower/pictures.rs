//! The pictures of a node: its own, or one shard of a data set.

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use unmask_core::{NthOf, Partition};
use unmask_data::{
    PHOTOGRAPH_CLASSES,
    datasets::{DataSet, Labelled, divide},
};

use crate::{PictureSelection, RoundPictures, RoundPlan, Shard, native::Sample, pictures::PrivatePictures};

const MOST_SHARDS: u16 = 10_000;

/// The pictures a node trains on. They never leave this machine.
#[derive(Debug, Clone)]
pub struct FlowerPictures(Origin);

#[derive(Debug, Clone)]
enum Origin {
    Own(Arc<Mutex<PrivatePictures>>),
    Shard { train: Arc<Shard>, held_out: Arc<Labelled> },
}

/// One shard of several, written `2/10`: the second of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardChoice {
    /// From 1.
    number: u16,
    of: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a shard; give its number and the number of shards (at most {MOST_SHARDS}), such as 1/10")]
pub struct ShardChoiceError(String);

impl FromStr for ShardChoice {
    type Err = ShardChoiceError;

    fn from_str(text: &str) -> Result<Self, ShardChoiceError> {
        let read = || {
            let share: NthOf = text.parse().ok()?;
            let (number, of) = (share.number().try_into().ok()?, share.of().try_into().ok()?);
            (of <= MOST_SHARDS).then_some(Self { number, of })
        };
        read().ok_or_else(|| ShardChoiceError(text.to_owned()))
    }
}

impl fmt::Display for ShardChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FlowerPictures {
    /// This client's own pictures; it trains on all of them in each round.
    pub fn own(samples: Vec<Sample>) -> Self {
        let classes = PHOTOGRAPH_CLASSES.map(str::to_owned);
        let pictures = samples.into_iter().map(|sample| sample.labelled(&classes)).collect();
        Self(Origin::Own(Arc::new(Mutex::new(PrivatePictures::new(pictures)))))
    }

    /// One shard of a data set. Clients with the same data, `partition` and `seed` divide it in the same way. The
    /// client also holds back its part of the test half.
    ///
    /// # Errors
    /// There are fewer pictures than shards.
    pub fn shard(set: &DataSet, partition: Partition, choice: ShardChoice, seed: u64) -> anyhow::Result<Self> {
        let part = |half: &Labelled, partition| -> anyhow::Result<Labelled> {
            let shards = divide(partition, half.labels(), choice.of.into(), seed)
                .with_context(|| format!("{} cannot be divided into {} shards", set.name, choice.of))?;
            Ok(half.subset(shards.get(usize::from(choice.number - 1)).map_or(&[][..], Vec::as_slice)))
        };
        let train = Shard::of(&part(&set.train, partition)?, &set.name, partition, (choice.number - 1, choice.of));
        let held_out = part(&set.test, Partition::Iid)?;
        Ok(Self(Origin::Shard { train: Arc::new(train), held_out: Arc::new(held_out) }))
    }

    /// The number of classes, if a data set gives it.
    pub(super) fn classes(&self) -> Option<usize> {
        match &self.0 {
            Origin::Own(_) => None,
            Origin::Shard { train, .. } => Some(train.classes().len()),
        }
    }

    pub(super) fn held_out(&self) -> Option<&Labelled> {
        match &self.0 {
            Origin::Own(_) => None,
            Origin::Shard { held_out, .. } => Some(held_out),
        }
    }

    pub(super) fn selection(&self) -> PictureSelection {
        match &self.0 {
            Origin::Own(_) => PictureSelection::Private,
            Origin::Shard { train, .. } => {
                PictureSelection::Shared { shard: Arc::clone(train), positions: (0..train.len()).collect() }
            }
        }
    }

    /// The pictures of a round. Errors are in words, as in a room's round.
    pub(super) fn of_round(&self, plan: &RoundPlan) -> Result<RoundPictures, String> {
        match &self.0 {
            Origin::Own(own) => own.lock().unwrap_or_else(PoisonError::into_inner).of_round(plan),
            Origin::Shard { .. } => PrivatePictures::default().of_round(plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unmask_data::datasets::Source;

    use super::*;

    #[test]
    fn shards_are_written_as_a_number_of_all() {
        assert_eq!("2/10".parse::<ShardChoice>().unwrap().to_string(), "2/10");
        for bad in ["", "1", "0/10", "11/10", "1/0", "-1/2", "1/10001", "a/b"] {
            let refused = bad.parse::<ShardChoice>().unwrap_err().to_string();
            assert!(refused.contains("such as 1/10"), "{refused}");
        }
    }

    #[test]
    fn the_shards_of_all_are_the_data_set() {
        let set = DataSet::load(&Source::Generated, Path::new(""), 1).unwrap();
        let (mut trained, mut held_out) = (0, 0);
        for number in 1..=3 {
            let choice = ShardChoice { number, of: 3 };
            let pictures = FlowerPictures::shard(&set, Partition::Iid, choice, 7).unwrap();
            let PictureSelection::Shared { shard, positions } = pictures.selection() else { panic!("a shard") };
            assert_eq!(positions.len(), shard.len());
            assert_eq!((pictures.classes(), shard.place()), (Some(10), (number - 1, 3)));
            trained += shard.len();
            held_out += pictures.held_out().unwrap().len();
        }
        assert_eq!((trained, held_out), (set.train.len(), set.test.len()));
    }
}
