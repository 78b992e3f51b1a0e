//! The client's share of the room's data set.

use unmask_core::Partition;
#[cfg(feature = "native")]
use unmask_data::datasets::Labelled;
use unmask_wire::{ShardError, ShardHeader};

/// Labelled pictures that the relay distributes. They are public: the relay has them too.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    header: ShardHeader,
    labels: Vec<u8>,
    pixels: Vec<u8>,
}

impl Shard {
    /// Parses a shard from the socket.
    pub(crate) fn new(header: ShardHeader, words: &[f32]) -> Result<Self, ShardError> {
        let (labels, pixels) = header.read(words)?;
        Ok(Self { header, labels, pixels })
    }

    /// The shard `index` (from 0) of `shards` of a data set, without a room.
    #[cfg(feature = "native")]
    pub(crate) fn of(set: &Labelled, data: &str, partition: Partition, (index, shards): (u16, u16)) -> Self {
        let side = u16::try_from(set.side()).unwrap_or(u16::MAX);
        let header = ShardHeader {
            number: 0,
            data: data.to_owned(),
            partition,
            index,
            shards,
            classes: set.classes().to_vec(),
            side,
            pictures: u32::try_from(set.len()).unwrap_or(u32::MAX),
        };
        let pixels = (0..set.len()).filter_map(|index| set.rgb(index)).flatten().copied().collect();
        Self { header, labels: set.labels().to_vec(), pixels }
    }

    /// Number of the division of the data set that it belongs to.
    pub fn number(&self) -> u32 {
        self.header.number
    }

    pub fn data(&self) -> &str {
        &self.header.data
    }

    pub fn partition(&self) -> Partition {
        self.header.partition
    }

    /// Its index (from 0) and the number of shards.
    pub fn place(&self) -> (u16, u16) {
        (self.header.index, self.header.shards)
    }

    pub fn classes(&self) -> &[String] {
        &self.header.classes
    }

    /// Side of each picture in pixels.
    pub fn side(&self) -> usize {
        self.header.side.into()
    }

    /// Number of pictures; there is at least one.
    #[expect(clippy::len_without_is_empty, reason = "an empty shard is refused when it comes")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The labels, one for each picture, each below the number of classes.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Picture `index` as RGB bytes `[side, side, 3]`; `None` beyond the last.
    pub fn rgb(&self, index: usize) -> Option<&[u8]> {
        let each = 3 * self.side() * self.side();
        let start = index.checked_mul(each)?;
        self.pixels.get(start..start.checked_add(each)?)
    }

    /// Positions of the pictures for one gradient of `batch` pictures in `round` (from 1). They are the next ones of a
    /// cyclic order that is the same for everybody, so that no client has to remember its position. From a shard
    /// smaller than the batch, each picture is taken once.
    pub(crate) fn batch(&self, round: u32, batch: usize) -> Vec<usize> {
        let (len, batch) = (self.len() as u64, batch.min(self.len()) as u64);
        let (first, stride) = (u64::from(round.saturating_sub(1)) * batch, stride(len));
        (first..first + batch).map(|turn| (turn % len * stride % len) as usize).collect()
    }
}

/// A stride near the golden section of `len` that reaches every position. Pictures are often sorted by class, and these
/// steps spread any part of the order over all of it.
fn stride(len: u64) -> u64 {
    let golden = (len as f64 * 0.618_033_988_749_895).round() as u64;
    (golden.max(1)..=len).find(|stride| greatest_common_divisor(*stride, len) == 1).unwrap_or(1)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shard(labels: Vec<u8>) -> Shard {
        let header = ShardHeader {
            number: 1,
            data: "stripes".into(),
            partition: Partition::Iid,
            index: 0,
            shards: 1,
            classes: (0..10).map(|class| class.to_string()).collect(),
            side: 1,
            pictures: labels.len() as u32,
        };
        let pixels: Vec<u8> = (0..3 * labels.len()).map(|i| i as u8).collect();
        let words = header.words(&labels, &pixels).unwrap();
        Shard::new(header, &words).unwrap()
    }

    #[test]
    fn pictures_are_those_that_came() {
        let shard = shard(vec![3, 9, 0]);
        assert_eq!((shard.labels(), shard.rgb(1), shard.rgb(3)), (&[3, 9, 0][..], Some(&[3, 4, 5][..]), None));
        assert_eq!(shard.rgb(usize::MAX), None);
    }

    /// Sorted by class, as folders are: a batch of 20 still sees all ten classes.
    #[test]
    fn batches_of_a_sorted_shard_see_all_classes() {
        let shard = shard((0..200).map(|i| i / 20).collect());
        for round in 1..=20 {
            let batch = shard.batch(round, 20);
            let classes: std::collections::BTreeSet<u8> = batch.iter().map(|&i| shard.labels()[i]).collect();
            assert!(classes.len() >= 9, "round {round}: {classes:?}");
        }
    }

    proptest! {
        /// In as many turns as there are pictures, each is taken once, from any start.
        #[test]
        fn every_picture_has_its_turn(len in 1usize..120, batch in 1usize..40, start in 1u32..1000) {
            let shard = shard(vec![0; len]);
            let batches = (start..).flat_map(|round| shard.batch(round, batch));
            let mut seen: Vec<usize> = batches.take(len).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..len).collect::<Vec<_>>());
            prop_assert_eq!(shard.batch(start, batch).len(), batch.min(len));
        }
    }
}
