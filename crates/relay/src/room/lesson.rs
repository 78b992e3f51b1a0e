//! A lesson as the journal stores it: its initial settings and its progress.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tracing::info;
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
use crate::{
    attacks::AttacksRecord,
    config::{JournalConfig, RelayConfig},
    journal::{Arrays, Contents, LessonId, Opened, Store, digest, read_arrays},
    random,
    unix_time::unix_now,
};

/// The lesson's identity and initial settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LessonHead {
    pub(crate) id: LessonId,
    /// In seconds since 1970.
    pub(crate) began: u64,
    pub(crate) beginning: Beginning,
}

/// The startup settings that define a lesson.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beginning {
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
}

#[derive(Debug)]
pub(super) struct LastLesson {
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

/// The lesson that a relay opens: the last one, or a new one.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) head: LessonHead,
    /// `None` if the lesson is not saved.
    pub(super) journal: Option<(Store, JournalConfig)>,
    pub(super) last: Option<Box<LastLesson>>,
    /// Problems with the existing journal, in sentences.
    pub(super) problems: Vec<String>,
    /// The data set, if it is already in memory.
    pub(crate) data_set: Option<SharedDataSet>,
}

impl Beginning {
    pub(crate) fn of(config: &RelayConfig) -> Self {
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
    pub(crate) fn flags(&self) -> [(&'static str, String); 14] {
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

    /// Checks that the flags `given` to the relay agree with the lesson's initial settings.
    fn check(&self, config: &RelayConfig, given: &[String]) -> anyhow::Result<()> {
        for ((flag, then), (_, now)) in self.flags().into_iter().zip(Self::of(config).flags()) {
            if then != now && given.iter().any(|given| given == flag) {
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

    fn read(contents: &Contents) -> anyhow::Result<LastLesson> {
        let lesson: Self = postcard::from_bytes(&contents.header).context("its lesson cannot be understood")?;
        let Arrays { model, moments, records } = read_arrays(contents, lesson.room.architecture())?;
        let room = Room::restore(SavedRoom { state: lesson.room.clone(), model, moments, records })?;
        Ok(LastLesson { lesson, room })
    }
}

impl LastLesson {
    fn resumed(&self) -> Resumed {
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
    /// Looks for the last lesson and adapts `config` to it. Reads and writes files, so it takes a while.
    ///
    /// # Errors
    /// If another relay keeps its journal in that folder, if the flags contradict the lesson there, or if the operating
    /// system has no random numbers.
    pub(crate) fn find(config: &mut RelayConfig) -> anyhow::Result<Self> {
        let head = LessonHead { id: random::bytes()?, began: unix_now(), beginning: Beginning::of(config) };
        let Some(journal) = config.journal.clone() else {
            return Ok(Self { head, journal: None, last: None, problems: Vec::new(), data_set: None });
        };
        std::fs::create_dir_all(&config.data_dir).with_context(|| {
            format!("cannot create the data folder {}; choose another with --data-dir", config.data_dir.display())
        })?;
        if journal.begins_anew {
            // Opening the store fails if another relay is using it.
            drop(Store::open(&config.data_dir)?);
            Store::set_aside(&config.data_dir)?;
        }
        let Opened { mut store, contents, mut problems } = Store::open(&config.data_dir)?;
        let last = match contents.map(|contents| Lesson::read(&contents)) {
            None => None,
            Some(Ok(last)) => Some(Box::new(last)),
            Some(Err(error)) => {
                problems.extend(store.reject(&error));
                None
            }
        };
        if let Some(last) = &last {
            let LastLesson { lesson, room } = last.as_ref();
            let Beginning { source, shards, shard_pictures, seed, .. } = &lesson.head.beginning;
            lesson.head.beginning.check(config, &journal.given)?;
            config.architecture = room.model().architecture;
            config.aggregation = room.settings().aggregation();
            (config.seed, config.data.source) = (*seed, source.clone());
            (config.data.shards, config.data.shard_pictures) = (*shards, *shard_pictures);
            config.data.train_on = if lesson.needs_data_set() { TrainOn::Shared } else { TrainOn::Private };
            let Resumed { round, weights, .. } = last.resumed();
            info!(round, weights, "goes on with the last lesson");
        }
        let head = last.as_ref().map_or(head, |last| last.lesson.head.clone());
        Ok(Self { head, journal: Some((store, journal)), last, problems, data_set: None })
    }

    /// Number of PINs that the lesson had before the current one.
    pub(crate) fn pins(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.lesson.door.pins())
    }

    /// The state that the relay resumes from, if it resumes a lesson.
    pub(crate) fn resumed(&self) -> Option<Resumed> {
        self.last.as_ref().map(|last| last.resumed())
    }
}

/// Returns the state saved in a data folder; `None` if there is none.
///
/// # Errors
/// If a relay has the journal open, or all of it is damaged. Damaged files are set aside.
pub fn last_lesson(data_dir: &std::path::Path) -> anyhow::Result<Option<Resumed>> {
    let Opened { contents, problems, .. } = Store::open(data_dir)?;
    match contents {
        Some(contents) => Ok(Some(Lesson::read(&contents)?.resumed())),
        None if problems.is_empty() => Ok(None),
        None => bail!("{}", problems.join(" ")),
    }
}
