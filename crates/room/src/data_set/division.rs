//! The division of the data set among clients.

use std::sync::Arc;

use unmask_core::{ClientId, Partition};
use unmask_data::datasets::{PartitionError, divide};
use unmask_wire::{RelayMessage, ShardError, ShardHeader};

use super::{DataConfig, SharedDataSet, sample};
use crate::outbox::EncodedShard;

/// Why a data set cannot be divided among clients, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum DivisionError {
    #[error("{name} cannot be divided into {shards} shards: {source}; start the relay with fewer --seats.")]
    Shards { name: String, shards: u16, source: PartitionError },
    #[error("{name} cannot be shared out: {source}.")]
    Shard { name: String, source: ShardError },
}

#[derive(Debug)]
pub(crate) struct Division {
    number: u32,
    partition: Partition,
    counts: Vec<Vec<u32>>,
    shards: Vec<Arc<EncodedShard>>,
}

impl Division {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn partition(&self) -> Partition {
        self.partition
    }

    /// Number of pictures of each class in each shard, `[shards][classes]`.
    pub(crate) fn counts(&self) -> &[Vec<u32>] {
        &self.counts
    }

    /// Returns a client's shard. Clients take the shards in turn as they join.
    pub(crate) fn shard_of(&self, client: ClientId) -> Option<&Arc<EncodedShard>> {
        self.shards.get(client.0.saturating_sub(1) as usize % self.shards.len().max(1))
    }

    pub(crate) fn pictures(&self, client: ClientId) -> u32 {
        let index = client.0.saturating_sub(1) as usize % self.counts.len().max(1);
        self.counts.get(index).map_or(0, |counts| counts.iter().sum())
    }
}

impl SharedDataSet {
    /// Divides the pictures. Where a part exceeds a shard's limit, the seed draws the pictures to keep.
    pub(crate) fn divide(
        &self,
        config: &DataConfig,
        (number, partition): (u32, Partition),
        seed: u64,
    ) -> Result<Division, DivisionError> {
        let DataConfig { shards: shard_count, shard_pictures, .. } = *config;
        let name = || self.name.clone();
        let parts = divide(partition, self.train.labels(), shard_count.into(), seed)
            .map_err(|source| DivisionError::Shards { name: name(), shards: shard_count, source })?;
        let (mut shards, mut counts) = (Vec::new(), Vec::new());
        for (index, part) in parts.into_iter().enumerate() {
            let mut kept = sample(part, shard_pictures as usize, seed.wrapping_add(1 + index as u64));
            kept.sort_unstable();
            let shard = self.train.subset(&kept);
            let mut count = vec![0; self.classes.len()];
            for label in shard.labels() {
                if let Some(count) = count.get_mut(usize::from(*label)) {
                    *count += 1;
                }
            }
            counts.push(count);
            let header = ShardHeader {
                number,
                data: name(),
                partition,
                index: u16::try_from(index).unwrap_or(u16::MAX),
                shards: shard_count,
                classes: self.classes.clone(),
                side: u16::try_from(shard.side()).unwrap_or(u16::MAX),
                pictures: u32::try_from(shard.len()).unwrap_or(u32::MAX),
            };
            let pixels: Vec<u8> = (0..shard.len()).filter_map(|i| shard.rgb(i)).flatten().copied().collect();
            let words = header
                .words(shard.labels(), &pixels)
                .map_err(|source| DivisionError::Shard { name: name(), source })?;
            shards.push(Arc::new(EncodedShard { header: RelayMessage::Shard(header), words }));
        }
        Ok(Division { number, partition, counts, shards })
    }
}

#[cfg(test)]
mod tests {
    use unmask_data::datasets::Labelled;

    use super::*;

    fn data_set() -> SharedDataSet {
        let labels: Vec<u8> = (0..300).map(|i| (i / 100) as u8).collect();
        let classes: Vec<String> = ["ring", "cross", "spiral"].map(str::to_owned).to_vec();
        let train = Labelled::new(1, classes.clone(), vec![7; 900], labels).unwrap();
        SharedDataSet { name: "shapes".into(), classes, held_out: train.subset(&[]), test: 0, train }
    }

    fn divide(shards: u16, shard_pictures: u32, partition: &str, seed: u64) -> Result<Division, DivisionError> {
        let config = DataConfig { shards, shard_pictures, ..DataConfig::default() };
        data_set().divide(&config, (1, partition.parse().unwrap()), seed)
    }

    #[test]
    fn shards_hold_the_classes_that_the_partition_gives_them() {
        let even = divide(4, 30, "iid", 3).unwrap();
        assert!(even.counts.iter().all(|counts| counts.iter().sum::<u32>() == 30));
        assert!(even.counts.iter().flatten().all(|count| (4..=17).contains(count)), "{:?}", even.counts);
        let skewed = divide(4, 30, "dirichlet:0.05", 3).unwrap();
        assert!(skewed.counts.iter().flatten().filter(|count| **count == 0).count() >= 3, "{:?}", skewed.counts);
        assert_eq!(divide(4, 30, "dirichlet:0.05", 3).unwrap().counts, skewed.counts);
        assert_ne!(divide(4, 30, "dirichlet:0.05", 4).unwrap().counts, skewed.counts);
    }

    #[test]
    fn clients_take_the_shards_in_turn() {
        let division = divide(4, 30, "iid", 3).unwrap();
        let index = |client| match &division.shard_of(ClientId(client)).unwrap().header {
            RelayMessage::Shard(header) => header.index,
            other => panic!("no shard but {other:?}"),
        };
        assert_eq!([1, 2, 4, 5, 9].map(index), [0, 1, 3, 0, 0]);
    }

    #[test]
    fn what_cannot_be_divided_is_named() {
        let error = divide(301, 30, "iid", 3).unwrap_err().to_string();
        assert!(error.contains("shapes cannot be divided into 301 shards: 300 pictures are too few"), "{error}");
        assert!(divide(4, 0, "iid", 3).unwrap_err().to_string().contains("holds nothing to train on"));
    }
}
