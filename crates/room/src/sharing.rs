//! Shared pictures: the data set, its shards, and the rounds that train on them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_core::{ClientId, Partition, TrainOn, TrainingPictures};
use unmask_wire::view::DataView;

use super::data_set::{
    DataConfig, LoadError, Loader, SharedDataSet,
    division::{Division, DivisionError},
};
use crate::outbox::EncodedShard;

/// Why rounds cannot train on shared pictures, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    #[error("{0}.")]
    Load(#[from] LoadError),
    #[error("The shared pictures are not in memory yet.")]
    NotLoaded,
    #[error("{name} has {found} classes, and the room's model {classes}.")]
    Classes { name: String, found: usize, classes: usize },
    #[error(transparent)]
    Division(#[from] DivisionError),
}

#[derive(Debug)]
pub(super) struct Sharing {
    config: DataConfig,
    /// `None` until it is in memory.
    data_set: Option<Arc<SharedDataSet>>,
    /// Current and future divisions, oldest first.
    divisions: Vec<Division>,
    /// The partition of the next division.
    partition: Partition,
    seed: u64,
    loader: Loader,
}

#[derive(Debug)]
pub(super) struct Given {
    pub(super) client: ClientId,
    /// Number of the division that the shard belongs to.
    pub(super) number: u32,
    pub(super) shard: Arc<EncodedShard>,
    pub(super) pictures: u32,
}

/// The divisions as the journal stores them; the seed recreates them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharingRecord {
    partition: Partition,
    divisions: Vec<(u32, Partition)>,
}

impl SharingRecord {
    /// Whether the data set must be in memory.
    pub(crate) fn needs_data_set(&self) -> bool {
        !self.divisions.is_empty()
    }
}

impl Sharing {
    /// A room's data set, in memory or to be loaded later; `seed` draws its shards and samples.
    pub(super) fn new(config: DataConfig, seed: u64, data_set: Option<SharedDataSet>, loader: Loader) -> Self {
        let (data_set, partition) = (data_set.map(Arc::new), config.partition);
        Self { data_set, divisions: Vec::new(), partition, seed, loader, config }
    }

    pub(super) fn record(&self) -> SharingRecord {
        let divisions = self.divisions.iter().map(|division| (division.number(), division.partition())).collect();
        SharingRecord { partition: self.partition, divisions }
    }

    /// Recreates the divisions of a record.
    ///
    /// # Errors
    /// If the data set is not in memory, or cannot be divided that way.
    pub(super) fn restore(
        &mut self,
        SharingRecord { partition, divisions }: SharingRecord,
    ) -> Result<(), SharingError> {
        self.partition = partition;
        for division in divisions {
            let data_set = self.data_set.as_ref().ok_or(SharingError::NotLoaded)?;
            self.divisions.push(data_set.divide(&self.config, division, self.seed)?);
        }
        Ok(())
    }

    pub(super) fn data_set(&self) -> Option<&Arc<SharedDataSet>> {
        self.data_set.as_ref()
    }

    /// Returns the slow work of loading the data set, to be run on another thread.
    pub(super) fn loading(&self) -> impl FnOnce() -> Result<Box<SharedDataSet>, LoadError> + Send + use<> {
        let (loader, config, seed) = (self.loader, self.config.clone(), self.seed);
        move || SharedDataSet::load(loader, &config, seed).map(Box::new)
    }

    /// Takes the requested data set. If it was requested twice, the first one stays.
    pub(super) fn loaded(&mut self, data_set: Box<SharedDataSet>) {
        self.data_set.get_or_insert_with(|| Arc::from(data_set));
    }

    /// Returns the training pictures for rounds on shards, under the partition chosen last.
    pub(super) fn shared(&mut self) -> Result<TrainingPictures, SharingError> {
        let newest = self.divisions.last().map(|division| (division.number(), division.partition()));
        if let Some((shard, partition)) = newest
            && partition == self.partition
        {
            return Ok(TrainingPictures::Shared { shard });
        }
        let data_set = self.data_set.as_ref().ok_or(SharingError::NotLoaded)?;
        let shard = newest.map_or(1, |(number, _)| number + 1);
        self.divisions.push(data_set.divide(&self.config, (shard, self.partition), self.seed)?);
        Ok(TrainingPictures::Shared { shard })
    }

    fn division(&self, pictures: TrainingPictures) -> Option<&Division> {
        let TrainingPictures::Shared { shard } = pictures else { return None };
        self.divisions.iter().find(|division| division.number() == shard)
    }

    /// Forgets the divisions before the current one, which no round uses any more.
    fn prune(&mut self, in_force: TrainingPictures) {
        if let TrainingPictures::Shared { shard } = in_force {
            self.divisions.retain(|division| division.number() >= shard);
        }
    }

    /// Chooses the training pictures for a model with this many classes; also returns their description.
    pub(super) fn choose(
        &mut self,
        train_on: TrainOn,
        classes: usize,
    ) -> Result<(TrainingPictures, String), SharingError> {
        if train_on == TrainOn::Private {
            return Ok((TrainingPictures::Private, "the clients' private pictures".to_owned()));
        }
        let data_set = self.data_set.as_ref().ok_or(SharingError::NotLoaded)?;
        let found = data_set.classes.len();
        if found > classes {
            return Err(SharingError::Classes { name: data_set.name.clone(), found, classes });
        }
        let what = format!("shared pictures of {}", data_set.name);
        Ok((self.shared()?, what))
    }

    /// Chooses the partition. Returns the training pictures from the next round on, if those are shards.
    pub(super) fn choose_partition(
        &mut self,
        partition: Partition,
        coming: TrainingPictures,
    ) -> Result<Option<TrainingPictures>, SharingError> {
        let before = std::mem::replace(&mut self.partition, partition);
        if coming == TrainingPictures::Private {
            return Ok(None);
        }
        self.shared().map(Some).inspect_err(|_| self.partition = before)
    }

    /// Returns the shards for these clients; none if `in_force`, the current training pictures, are private.
    pub(super) fn hand_out(&mut self, in_force: TrainingPictures, clients: &[ClientId]) -> Vec<Given> {
        self.prune(in_force);
        let Some(division) = self.division(in_force) else { return Vec::new() };
        let given = |&client: &ClientId| {
            let shard = Arc::clone(division.shard_of(client)?);
            Some(Given { client, number: division.number(), shard, pictures: division.pictures(client) })
        };
        clients.iter().filter_map(given).collect()
    }

    /// The data set as the room shows it; `in_force` are the current training pictures.
    pub(super) fn view(&self, in_force: TrainingPictures) -> DataView {
        let config = &self.config;
        let division = self.division(in_force).or(self.divisions.last());
        let data_set = self.data_set.as_deref();
        let count = |pictures: Option<usize>| u32::try_from(pictures.unwrap_or(0)).unwrap_or(u32::MAX);
        DataView {
            source: config.source.to_string(),
            name: data_set.map_or_else(|| config.source.to_string(), |data_set| data_set.name.clone()),
            is_ready: data_set.is_some(),
            classes: data_set.map(|data_set| data_set.classes.clone()).unwrap_or_default(),
            pictures: count(data_set.map(SharedDataSet::len)),
            held_out: count(data_set.map(|data_set| data_set.test)),
            shards: division.map(|division| division.counts().to_vec()).unwrap_or_default(),
            shard_count: config.shards,
            shard_pictures: config.shard_pictures,
            partition: division.map_or(self.partition, |division| division.partition()),
            train_on: in_force.train_on(),
        }
    }

    /// Returns what changes with the next round: the kind of training pictures, and the partition.
    pub(super) fn next(&self, now: TrainingPictures, coming: TrainingPictures) -> (Option<TrainOn>, Option<Partition>) {
        let partition = |pictures| self.division(pictures).map(|division| division.partition());
        let is_other = partition(coming).is_some() && partition(now).is_some() && partition(now) != partition(coming);
        ((now.train_on() != coming.train_on()).then_some(coming.train_on()), partition(coming).filter(|_| is_other))
    }
}

#[cfg(test)]
mod tests {
    use unmask_data::datasets::{
        DataSet,
        generated::{Half, generate},
    };

    use super::*;

    const SKEWED: Partition = Partition::Dirichlet { alpha: 0.5 };

    fn load(_: &DataConfig, seed: u64) -> anyhow::Result<DataSet> {
        let half = |half, count| generate(half, count, seed);
        let (train, test) = (half(Half::Train, 60)?, half(Half::Test, 10)?);
        Ok(DataSet { name: "shapes".to_owned(), train, test, left_out: Vec::new() })
    }

    fn sharing() -> (Sharing, usize) {
        let config = DataConfig { shards: 3, shard_pictures: 10, ..DataConfig::default() };
        let data_set = SharedDataSet::load(load, &config, 1).unwrap();
        let classes = data_set.classes.len();
        (Sharing::new(config, 1, Some(data_set), load), classes)
    }

    fn shard(number: u32) -> TrainingPictures {
        TrainingPictures::Shared { shard: number }
    }

    #[test]
    fn a_model_needs_as_many_classes_as_the_data_set() {
        let (mut sharing, classes) = sharing();
        assert!(matches!(sharing.choose(TrainOn::Shared, classes - 1), Err(SharingError::Classes { .. })));
        assert_eq!(sharing.choose(TrainOn::Shared, classes).unwrap().0, shard(1));
        assert_eq!(sharing.choose(TrainOn::Shared, classes + 1).unwrap().0, shard(1));
        assert_eq!(sharing.choose(TrainOn::Private, 1).unwrap().0, TrainingPictures::Private);
    }

    #[test]
    fn another_partition_is_another_division_from_the_next_round_on() {
        let (mut sharing, classes) = sharing();
        let clients = [1, 2].map(ClientId);
        assert!(sharing.hand_out(TrainingPictures::Private, &clients).is_empty());
        sharing.choose(TrainOn::Shared, classes).unwrap();
        assert_eq!(sharing.choose_partition(Partition::Iid, shard(1)).unwrap(), Some(shard(1)));
        assert_eq!(sharing.choose_partition(SKEWED, TrainingPictures::Private).unwrap(), None);
        assert_eq!(sharing.choose_partition(SKEWED, shard(1)).unwrap(), Some(shard(2)));
        let partition = |sharing: &Sharing, number| sharing.view(shard(number)).partition;
        assert_eq!((partition(&sharing, 1), partition(&sharing, 2)), (Partition::Iid, SKEWED));
        assert_eq!(sharing.next(shard(1), shard(2)), (None, Some(SKEWED)));
        assert_eq!(sharing.next(shard(2), shard(2)), (None, None));
        assert_eq!(sharing.next(TrainingPictures::Private, shard(2)), (Some(TrainOn::Shared), None));
        assert_eq!(sharing.next(shard(2), TrainingPictures::Private), (Some(TrainOn::Private), None));
        for number in [1, 2] {
            let given = sharing.hand_out(shard(number), &clients);
            let given: Vec<_> = given.iter().map(|given| (given.client, given.number)).collect();
            assert_eq!(given, clients.map(|client| (client, number)));
        }
        assert!(sharing.hand_out(shard(1), &clients).is_empty(), "no round trains on it any more");
    }
}
