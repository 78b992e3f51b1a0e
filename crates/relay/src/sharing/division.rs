//! Who gets which pictures.

use std::sync::Arc;

use unmask_core::{ClientId, Partition};
use unmask_data::datasets::divide;
use unmask_wire::{RelayMessage, ShardHeader};

use super::{DataConfig, SharedDataSet, sample};

/// One seat's shard, ready for the socket.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) header: RelayMessage,
    /// Labels and pixels, as the wire packs them.
    pub(crate) words: Vec<f32>,
}

/// The data set divided among the seats.
#[derive(Debug)]
pub(crate) struct Division {
    pub(crate) number: u32,
    pub(crate) partition: Partition,
    /// Pictures of each class in each shard, `[seats][classes]`.
    pub(crate) counts: Vec<Vec<u32>>,
    shares: Vec<Arc<Share>>,
}

impl Division {
    /// The shard of a client: clients come and go, so that shards belong to seats, and those that join take them in turn.
    pub(crate) fn share(&self, client: ClientId) -> Option<&Arc<Share>> {
        let seat = client.0.saturating_sub(1) as usize % self.shares.len().max(1);
        self.shares.get(seat)
    }
}

impl SharedDataSet {
    /// Divides the pictures among the seats; of a share larger than a shard the seed draws which pictures stay in it.
    ///
    /// # Errors
    /// A sentence: there are fewer pictures than seats, or a shard is too long to be sent.
    pub(crate) fn divide(
        &self,
        config: &DataConfig,
        (number, partition): (u32, Partition),
        seed: u64,
    ) -> Result<Division, String> {
        let seats = config.seats;
        let parts = divide(partition, self.train.labels(), seats.into(), seed).map_err(|error| {
            format!("{} cannot be divided among {seats} seats: {error}; start the relay with fewer.", self.name)
        })?;
        let (mut shares, mut counts) = (Vec::new(), Vec::new());
        for (seat, part) in parts.into_iter().enumerate() {
            let mut kept = sample(part, config.shard as usize, seed.wrapping_add(1 + seat as u64));
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
                data: self.name.clone(),
                partition,
                seat: u16::try_from(seat).unwrap_or(u16::MAX),
                seats,
                classes: self.classes.clone(),
                side: u16::try_from(shard.side()).unwrap_or(u16::MAX),
                pictures: u32::try_from(shard.len()).unwrap_or(u32::MAX),
            };
            let pixels: Vec<u8> = (0..shard.len()).filter_map(|i| shard.rgb(i)).flatten().copied().collect();
            let words = header
                .words(shard.labels(), &pixels)
                .map_err(|error| format!("{} cannot be shared out: {error}.", self.name))?;
            shares.push(Arc::new(Share { header: RelayMessage::Shard(header), words }));
        }
        Ok(Division { number, partition, counts, shares })
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

    fn divide(seats: u16, shard: u32, partition: &str, seed: u64) -> Result<Division, String> {
        let config = DataConfig { seats, shard, ..DataConfig::default() };
        data_set().divide(&config, (1, partition.parse().unwrap()), seed)
    }

    #[test]
    fn seats_share_the_classes_as_the_partition_says() {
        let even = divide(4, 30, "iid", 3).unwrap();
        assert!(even.counts.iter().all(|counts| counts.iter().sum::<u32>() == 30));
        assert!(even.counts.iter().flatten().all(|count| (4..=17).contains(count)), "{:?}", even.counts);
        let skewed = divide(4, 30, "dirichlet:0.05", 3).unwrap();
        assert!(skewed.counts.iter().flatten().filter(|count| **count == 0).count() >= 3, "{:?}", skewed.counts);
        assert_eq!(divide(4, 30, "dirichlet:0.05", 3).unwrap().counts, skewed.counts);
        assert_ne!(divide(4, 30, "dirichlet:0.05", 4).unwrap().counts, skewed.counts);
    }

    #[test]
    fn clients_take_the_seats_in_turn() {
        let division = divide(4, 30, "iid", 3).unwrap();
        let seat = |client| match &division.share(ClientId(client)).unwrap().header {
            RelayMessage::Shard(header) => header.seat,
            other => panic!("no shard but {other:?}"),
        };
        assert_eq!([1, 2, 4, 5, 9].map(seat), [0, 1, 3, 0, 0]);
    }

    #[test]
    fn what_cannot_be_divided_is_named() {
        let error = divide(301, 30, "iid", 3).unwrap_err();
        assert!(error.contains("shapes cannot be divided among 301 seats: 300 pictures are too few"), "{error}");
        assert!(divide(4, 0, "iid", 3).unwrap_err().contains("holds nothing to train on"));
    }
}
