//! How a room begins.

use std::time::Duration;

use unmask_core::{Aggregation, Architecture, Defence, InitialWeights, OptimiserKind, Rule, VitPreset};
use unmask_federation::Quorum;

use crate::{data_set::DataConfig, initialiser::Pretrained};

#[derive(Debug, Clone)]
pub struct RoomConfig {
    pub architecture: Architecture,
    pub defence: Defence,
    pub rule: Rule,
    /// The server's optimiser under FedSGD.
    pub optimiser: OptimiserKind,
    pub aggregation: Aggregation,
    /// Number of clients a round waits for.
    pub quorum: Quorum,
    /// Samples per local step.
    pub batch: u16,
    /// Maximum duration of a round.
    pub deadline: Duration,
    /// Pause between rounds.
    pub pace: Duration,
    /// Seed of the initial weights; random if absent.
    pub seed: Option<u64>,
    /// Starts rounds immediately, without waiting for the teacher.
    pub start: bool,
    /// Time for the attacks on one round; 0 disables them.
    pub attack_budget: Duration,
    /// Whether newcomers wait until the teacher lets them in, in a new lesson.
    pub approve_first: bool,
    /// Whether newcomers are refused, in a new lesson.
    pub locked: bool,
    /// The data set that clients can be asked to train on.
    pub data: DataConfig,
    pub initial_weights: InitialWeights,
    pub pretrained: Option<Pretrained>,
    /// How the lesson is saved. If absent, nothing is written and a restart begins a new lesson.
    pub journal: Option<JournalConfig>,
    pub limits: RoomLimits,
}

impl RoomConfig {
    /// The seed that generates, partitions and samples the data set; the same in every lesson by default.
    pub fn data_seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    pub(crate) fn is_given(&self, flag: &str) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.given.iter().any(|given| given == flag))
    }
}

/// The classroom defaults: the nano model, no defence, Adam at 0.001, 5 s of attacks per round.
impl Default for RoomConfig {
    fn default() -> Self {
        Self {
            architecture: Architecture::from(VitPreset::Nano),
            defence: Defence::None,
            rule: Rule::FedSgd,
            optimiser: OptimiserKind::Adam { rate: 0.001 },
            aggregation: Aggregation::default(),
            quorum: Quorum::default(),
            batch: 1,
            deadline: Duration::from_secs(60),
            pace: Duration::from_secs(1),
            seed: None,
            start: false,
            attack_budget: Duration::from_secs(5),
            approve_first: false,
            locked: false,
            data: DataConfig::default(),
            initial_weights: InitialWeights::default(),
            pretrained: None,
            journal: None,
            limits: RoomLimits::default(),
        }
    }
}

/// How many clients a room takes, and how long it remembers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomLimits {
    pub clients: usize,
    /// Number of people's devices beyond which newcomers wait until the teacher lets them in.
    pub expected: Option<usize>,
    /// How long a client that left without ever sending an update stays in the view.
    pub gone: Duration,
    /// How long a client that left after sending updates stays, and can return with its ticket.
    pub remembered: Duration,
}

impl Default for RoomLimits {
    fn default() -> Self {
        Self { clients: 200, expected: None, gone: Duration::from_secs(30), remembered: Duration::from_secs(15 * 60) }
    }
}

/// How a lesson is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalConfig {
    /// How long a round may wait for the previous round to be saved.
    pub most_behind: Duration,
    /// Begins a new lesson and moves the last one aside.
    pub begins_anew: bool,
    /// Flags given on the command line, such as `--model`. A saved lesson with a different value for one of them is
    /// refused. All other settings come from the saved lesson.
    pub given: Vec<String>,
}

impl Default for JournalConfig {
    /// At most 5 s behind; resumes the last lesson with its own settings.
    fn default() -> Self {
        Self { most_behind: Duration::from_secs(5), begins_anew: false, given: Vec::new() }
    }
}
