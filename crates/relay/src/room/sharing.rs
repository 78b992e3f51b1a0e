//! Pictures for everybody: which data set, who gets what of it, and when rounds train on it.

use std::sync::Arc;

use unmask_core::{ClientId, Partition, TrainOn, TrainingPictures};
use unmask_federation::Event;
use unmask_wire::view::DataView;

use super::{Actor, Input, Reply};
use crate::{
    config::RelayConfig,
    connection::{OutboxMessage, Slot},
    room::data_set::{Division, SharedDataSet},
};

/// The data set in the room.
#[derive(Debug)]
pub(super) struct Sharing {
    /// Once it is in memory.
    data_set: Option<Arc<SharedDataSet>>,
    /// The divisions in force and to come, oldest first.
    divisions: Vec<Division>,
    /// How the next division is made.
    partition: Partition,
    /// What shards and samples are drawn with.
    seed: u64,
}

impl Sharing {
    /// A room's data set, in memory or yet to be made.
    pub(super) fn new(config: &RelayConfig, data_set: Option<SharedDataSet>) -> Self {
        let (partition, seed) = (config.data.partition, config.data_seed());
        Self { data_set: data_set.map(Arc::new), divisions: Vec::new(), partition, seed }
    }

    pub(super) fn data_set(&self) -> Option<&Arc<SharedDataSet>> {
        self.data_set.as_ref()
    }

    /// What rounds train on that are to be on shards, divided as was chosen last.
    pub(super) fn shared(&mut self, config: &RelayConfig) -> Result<TrainingPictures, String> {
        let newest = self.divisions.last().map(|division| (division.number, division.partition));
        if let Some((shard, partition)) = newest
            && partition == self.partition
        {
            return Ok(TrainingPictures::Shared { shard });
        }
        let data_set = self.data_set.as_ref().ok_or("The shared pictures are not there yet.")?;
        let shard = newest.map_or(1, |(number, _)| number + 1);
        self.divisions.push(data_set.divide(&config.data, (shard, self.partition), self.seed)?);
        Ok(TrainingPictures::Shared { shard })
    }

    /// The division that rounds on `pictures` take shards from.
    fn division(&self, pictures: TrainingPictures) -> Option<&Division> {
        let TrainingPictures::Shared { shard } = pictures else { return None };
        self.divisions.iter().find(|division| division.number == shard)
    }

    /// Forgets divisions that no round can take shards from any more: those before the one in force.
    fn prune(&mut self, in_force: TrainingPictures) {
        if let TrainingPictures::Shared { shard } = in_force {
            self.divisions.retain(|division| division.number >= shard);
        }
    }
}

impl Actor {
    /// Chooses what rounds train on; with shared pictures that are not in memory, makes them first on another thread.
    pub(super) fn train_on(&mut self, train_on: TrainOn, reply: Reply) {
        match train_on {
            TrainOn::Shared if self.sharing.data_set.is_none() => self.load_data_set(reply),
            train_on => drop(reply.send(self.choose_pictures(train_on))),
        }
    }

    fn load_data_set(&self, reply: Reply) {
        let (data, seed, inputs) = (self.config.data.clone(), self.config.data_seed(), self.inputs.clone());
        tokio::task::spawn_blocking(move || {
            let data_set = SharedDataSet::load(&data, seed).map(Box::new).map_err(|error| format!("{error:#}."));
            if let Some(inputs) = inputs.upgrade() {
                drop(inputs.blocking_send(Input::DataSetLoaded { data_set, reply }));
            }
        });
    }

    /// Takes the data set that was asked for, and trains on it from the next round on.
    pub(super) fn set_data_set(&mut self, data_set: Result<Box<SharedDataSet>, String>) -> Result<(), String> {
        let data_set = data_set?;
        // Somebody may have asked twice.
        self.sharing.data_set.get_or_insert_with(|| Arc::from(data_set));
        self.choose_pictures(TrainOn::Shared)
    }

    fn choose_pictures(&mut self, train_on: TrainOn) -> Result<(), String> {
        let (pictures, what) = if train_on == TrainOn::Shared {
            let data_set = self.sharing.data_set.as_ref().ok_or("The shared pictures are not there yet.")?;
            let (classes, known) = (data_set.classes.len(), self.coming_architecture().classes());
            if classes > known {
                return Err(format!("{} has {classes} classes, and the room's model {known}.", data_set.name));
            }
            let what = format!("shared pictures of {}", data_set.name);
            (self.sharing.shared(&self.config)?, what)
        } else {
            (TrainingPictures::Private, "the clients' private pictures".to_owned())
        };
        let settings = self.room.coming().with_pictures(pictures);
        self.teacher(&format!("has rounds train on {what} from the next one on"), Event::SetSettings(settings));
        Ok(())
    }

    /// Chooses how the data set is divided.
    pub(super) fn choose_partition(&mut self, partition: Partition) -> Result<(), String> {
        let before = std::mem::replace(&mut self.sharing.partition, partition);
        let coming = self.room.coming();
        let line = format!("divides the shared pictures anew from the next round on: {partition}");
        if coming.pictures() == TrainingPictures::Private {
            self.say(format!("The teacher {line}."));
            return Ok(());
        }
        match self.sharing.shared(&self.config) {
            Ok(pictures) => {
                self.teacher(&line, Event::SetSettings(coming.with_pictures(pictures)));
                Ok(())
            }
            Err(reason) => {
                self.sharing.partition = before;
                Err(reason)
            }
        }
    }

    /// Sends clients the shards that rounds in force train on, unless they have them.
    pub(super) fn hand_out(&mut self, clients: &[ClientId]) {
        let pictures = self.room.settings().pictures();
        self.sharing.prune(pictures);
        let Some(division) = self.sharing.division(pictures) else { return };
        let (mut messages, mut given) = (Vec::new(), Vec::new());
        for &client in clients {
            let Some(entry) = self.roster.get_mut(client) else { continue };
            if entry.shard != Some(division.number)
                && let Some(shard) = division.shard_of(client)
            {
                entry.shard = Some(division.number);
                given.push((client, division.pictures(client)));
                messages.push((client, OutboxMessage::Shard(Arc::clone(shard))));
            }
        }
        for (client, message) in messages {
            self.put(client, Slot::Shard, message);
        }
        for (client, pictures) in given {
            self.handle(Event::Given { client, pictures });
        }
    }

    /// The data set as the room shows it.
    pub(super) fn data(&self) -> DataView {
        let (config, pictures) = (&self.config.data, self.room.settings().pictures());
        let division = self.sharing.division(pictures).or(self.sharing.divisions.last());
        let data_set = self.sharing.data_set.as_deref();
        let count = |pictures: Option<usize>| u32::try_from(pictures.unwrap_or(0)).unwrap_or(u32::MAX);
        DataView {
            source: config.source.to_string(),
            name: data_set.map_or_else(|| config.source.to_string(), |data_set| data_set.name.clone()),
            is_ready: data_set.is_some(),
            classes: data_set.map(|data_set| data_set.classes.clone()).unwrap_or_default(),
            pictures: count(data_set.map(SharedDataSet::len)),
            held_out: count(data_set.map(|data_set| data_set.test)),
            shards: division.map(|division| division.counts.clone()).unwrap_or_default(),
            shard_count: config.shards,
            shard_pictures: config.shard_pictures,
            partition: division.map_or(self.sharing.partition, |division| division.partition),
            train_on: pictures.train_on(),
        }
    }

    /// What was chosen of it for the next round: what to train on, and the partition.
    pub(super) fn next_pictures(&self) -> (Option<TrainOn>, Option<Partition>) {
        let (now, coming) = (self.room.settings().pictures(), self.room.coming().pictures());
        let partition = |pictures| self.sharing.division(pictures).map(|division| division.partition);
        let is_other = partition(coming).is_some() && partition(now).is_some() && partition(now) != partition(coming);
        ((now.train_on() != coming.train_on()).then_some(coming.train_on()), partition(coming).filter(|_| is_other))
    }
}
