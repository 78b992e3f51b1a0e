//! A lesson as the journal stores it: its initial settings and its progress.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use unmask_core::{
    Aggregation, Architecture, Defence, InitialWeights, OptimiserKind, Partition, Rule, TrainOn, TrainingPictures,
};
use unmask_data::datasets::Source;
use unmask_federation::{Room, RoomState, SavedRoom};
use unmask_wire::view::AccuracyPoint;

use super::{
    data_set::SharedDataSet, door::DoorRecord, history::HistoryRecord, initialiser::InitialiserRecord, log::LogRecord,
    roster::RosterRecord, sharing::SharingRecord, stage::Stage,
};
use crate::{attacks::AttacksRecord, config::RoomConfig, digest::digest, formats::upgraded, journaling::Arrays};

/// Identifies a lesson. It is not secret.
pub type LessonId = [u8; 16];

/// The lesson's identity and initial settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LessonHead {
    pub id: LessonId,
    /// In seconds since 1970.
    pub began: u64,
    pub beginning: Beginning,
}

/// The startup settings that define a lesson.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beginning {
    architecture: Architecture,
    defence: Defence,
    rule: Rule,
    optimiser: OptimiserKind,
    aggregation: Aggregation,
    batch: u16,
    initial_weights: InitialWeights,
    source: Source,
    train_on: TrainOn,
    partition: Partition,
    shards: u16,
    shard_pictures: u32,
    seed: Option<u64>,
}

/// The whole lesson except its arrays, and except data that must not be kept: pictures made from students' updates,
/// tickets and secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lesson {
    pub(super) head: LessonHead,
    pub(super) room: RoomState,
    pub(super) initialiser: InitialiserRecord,
    pub(super) roster: RosterRecord,
    pub(super) door: DoorRecord,
    pub(super) history: HistoryRecord,
    pub(super) log: LogRecord,
    pub(super) sharing: SharingRecord,
    pub(super) accuracies: Vec<AccuracyPoint>,
    pub(super) stage: Stage,
    pub(super) attacks: AttacksRecord,
    /// Time for measuring the model, a round.
    pub(super) measuring_seconds: f64,
    /// Whether clients are asked to check plans carefully.
    pub(super) is_careful: bool,
}

/// A lesson that was saved.
#[derive(Debug)]
pub struct LastLesson {
    pub(super) lesson: Lesson,
    pub(super) room: Room,
}

/// The state that a relay resumes from, for people and programs to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// The last round on disk.
    pub round: u32,
    pub model: String,
    /// SHA-256 of the weights, `[P]` in little-endian.
    pub weights: String,
    /// When the lesson began, in seconds since 1970.
    pub began: u64,
}

/// The lesson that a room opens: the last one, or a new one.
#[derive(Debug)]
pub struct Opening {
    pub head: LessonHead,
    pub last: Option<Box<LastLesson>>,
    /// Problems with what was saved, in sentences for the class.
    pub problems: Vec<String>,
    /// The data set, if it is already in memory.
    pub data_set: Option<SharedDataSet>,
}

impl Beginning {
    pub fn of(config: &RoomConfig) -> Self {
        Self {
            architecture: config.architecture,
            defence: config.defence,
            rule: config.rule,
            optimiser: config.optimiser,
            aggregation: config.aggregation,
            batch: config.batch,
            initial_weights: config.initial_weights,
            source: config.data.source.clone(),
            train_on: config.data.train_on,
            partition: config.data.partition,
            shards: config.data.shards,
            shard_pictures: config.data.shard_pictures,
            seed: config.seed,
        }
    }

    /// The settings as command line flags.
    pub fn flags(&self) -> [(&'static str, String); 14] {
        [
            ("--model", self.architecture.to_string()),
            ("--april-block", self.architecture.april_block().to_string()),
            ("--defence", self.defence.to_string()),
            ("--rule", self.rule.to_string()),
            ("--optimiser", self.optimiser.to_string()),
            ("--aggregate", self.aggregation.to_string()),
            ("--batch", self.batch.to_string()),
            ("--weights", self.initial_weights.to_string()),
            ("--data", self.source.to_string()),
            ("--train-on", self.train_on.to_string()),
            ("--partition", self.partition.to_string()),
            ("--seats", self.shards.to_string()),
            ("--shard", self.shard_pictures.to_string()),
            ("--seed", self.seed.map_or_else(|| "none".to_owned(), |seed| seed.to_string())),
        ]
    }

    /// Checks that the flags given on the command line agree with the lesson's initial settings.
    fn check(&self, config: &RoomConfig) -> anyhow::Result<()> {
        for ((flag, then), (_, now)) in self.flags().into_iter().zip(Self::of(config).flags()) {
            if then != now && config.is_given(flag) {
                bail!(
                    "the last lesson began with {flag} {then}, and {flag} {now} was given; leave {flag} out to go on \
                     with that lesson, or begin another with --new"
                );
            }
        }
        Ok(())
    }
}

impl Lesson {
    /// Whether rounds train on the data set, are about to, or have a division of it.
    fn needs_data_set(&self) -> bool {
        let is_shared = |pictures| matches!(pictures, TrainingPictures::Shared { .. });
        self.sharing.needs_data_set()
            || is_shared(self.room.settings().pictures())
            || is_shared(self.room.coming().pictures())
    }
}

impl LastLesson {
    /// Reads a lesson from the header that the room encoded in this format, and the arrays for its model.
    ///
    /// # Errors
    /// If they cannot be decoded, or do not belong together, or if this version does not read the format.
    pub fn read(
        format: u32,
        header: &[u8],
        arrays: impl FnOnce(Architecture) -> anyhow::Result<Arrays>,
    ) -> anyhow::Result<Self> {
        let header = upgraded(format, header)?;
        let lesson: Lesson = postcard::from_bytes(&header).context("its lesson cannot be understood")?;
        let Arrays { model, moments, records } = arrays(lesson.room.architecture())?;
        let room = Room::restore(SavedRoom { state: lesson.room.clone(), model, moments, records })?;
        Ok(Self { lesson, room })
    }

    /// Changes the settings to those of this lesson.
    ///
    /// # Errors
    /// If a flag given on the command line contradicts the lesson.
    pub fn adapt(&self, config: &mut RoomConfig) -> anyhow::Result<()> {
        let Self { lesson, room } = self;
        let Beginning { source, shards, shard_pictures, seed, .. } = &lesson.head.beginning;
        lesson.head.beginning.check(config)?;
        config.architecture = room.model().architecture;
        config.aggregation = room.settings().aggregation();
        (config.seed, config.data.source) = (*seed, source.clone());
        (config.data.shards, config.data.shard_pictures) = (*shards, *shard_pictures);
        config.data.train_on = if lesson.needs_data_set() { TrainOn::Shared } else { TrainOn::Private };
        Ok(())
    }

    pub fn head(&self) -> &LessonHead {
        &self.lesson.head
    }

    pub fn resumed(&self) -> Resumed {
        let model = self.room.model();
        Resumed {
            round: self.room.round(),
            model: model.architecture.to_string(),
            weights: digest(&model.state.weights),
            began: self.lesson.head.began,
        }
    }
}

impl Opening {
    /// Opens a new lesson that began at `began`, in seconds since 1970. `id` must be random.
    pub fn new(config: &RoomConfig, id: LessonId, began: u64) -> Self {
        let head = LessonHead { id, began, beginning: Beginning::of(config) };
        Self { head, last: None, problems: Vec::new(), data_set: None }
    }

    /// Number of PINs that the lesson had before the current one.
    pub fn pins(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.lesson.door.pins())
    }

    /// Number of keys that students had before the present one.
    pub fn keys(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.lesson.door.keys())
    }

    /// The state that the room resumes from, if it resumes a lesson.
    pub fn resumed(&self) -> Option<Resumed> {
        self.last.as_ref().map(|last| last.resumed())
    }
}
