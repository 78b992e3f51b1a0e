//! A room in saved form, to continue elsewhere.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, ClientId, MaskSeed, OptimiserKind, RoundSettings};

use super::{
    Encryption, GlobalModel, Learner, Phase, Quorum, Room, Run, Seal,
    choices::Choices,
    members::{Asked, MemberRecord, Members},
};
use crate::{Moments, Optimiser, UpdateCounts, norm_gate::NormGate, update_counts::CountsRecord};

/// Everything that a room needs to continue, except who is connected: clients join again.
#[derive(Debug, Clone)]
pub struct SavedRoom {
    pub state: RoomState,
    pub model: Arc<GlobalModel>,
    pub moments: Arc<Moments>,
    pub records: RoomRecords,
}

/// The small state of a room, which changes with every control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoomState {
    run: Run,
    resting: bool,
    number: u32,
    policy: u32,
    architecture: Architecture,
    settings: RoundSettings,
    next_settings: Option<RoundSettings>,
    next_architecture: Option<Architecture>,
    optimiser: OptimiserKind,
    steps: u32,
    norms: NormGate,
    statistics: NormGate,
    seal: Option<Seal>,
    salt: Option<[u8; 16]>,
    asked: Option<ClientId>,
    members: BTreeMap<ClientId, MemberRecord>,
}

/// The state that grows with rounds: update counts, and mask seeds that must not be used again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoomRecords {
    counts: CountsRecord,
    seeds: Vec<MaskSeed>,
}

/// Why a room cannot continue from saved data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    #[error("there are {given} {what}, and {architecture} has {expected}")]
    Length { what: &'static str, given: usize, expected: usize, architecture: Architecture },
    #[error("the model is {model}, and the room's was {room}")]
    Architecture { model: Architecture, room: Architecture },
    #[error("the update counts are of another model")]
    Counts,
}

impl RoomState {
    /// The last closed round; 0 before the first.
    pub fn round(&self) -> u32 {
        self.number
    }

    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    pub fn settings(&self) -> RoundSettings {
        self.settings
    }

    /// The settings from the next round on.
    pub fn coming(&self) -> RoundSettings {
        self.next_settings.unwrap_or(self.settings)
    }

    /// The model from the next round on, if it was to change. Its weights are not saved, since no client has seen them:
    /// a restored room needs new ones ([`Event::SetModel`](super::Event::SetModel)).
    pub fn next_architecture(&self) -> Option<Architecture> {
        self.next_architecture
    }

    /// Whether the room waits for [`Event::Begin`](super::Event::Begin).
    pub fn is_resting(&self) -> bool {
        self.resting
    }
}

impl Room {
    /// The room in saved form; large arrays are shared, not copied. A running round is not saved: the restored room
    /// repeats it.
    pub fn saved(&self) -> SavedRoom {
        let records = RoomRecords { counts: self.learner.counts().record_of(), seeds: self.seeds.iter().collect() };
        let moments = Arc::clone(self.learner.optimiser().moments());
        SavedRoom { state: self.state(), model: Arc::clone(self.model()), moments, records }
    }

    pub fn state(&self) -> RoomState {
        let (is_training, optimiser) =
            (matches!(self.phase, Phase::Training(_) | Phase::Summing(_)), self.learner.optimiser());
        RoomState {
            run: match self.run {
                // The running round is repeated, even if it was the last before a pause.
                Run::Paused if is_training => Run::Once,
                run => run,
            },
            resting: !matches!(self.phase, Phase::Idle),
            number: if is_training { self.number.saturating_sub(1) } else { self.number },
            policy: self.policy,
            architecture: self.model().architecture,
            settings: self.settings,
            next_settings: self.choices.settings,
            next_architecture: self.next_model(),
            optimiser: optimiser.kind(),
            steps: optimiser.steps(),
            norms: self.learner.aggregate().norms().cloned().unwrap_or_default(),
            statistics: self.learner.statistics().norms().clone(),
            seal: self.encryption.seal().copied(),
            salt: self.encryption.salt(),
            asked: self.encryption.asked(),
            members: self.members.records(),
        }
    }

    /// Restores a [saved](Self::saved) room, with nobody connected and the default quorum. It then answers events as
    /// the saved room would if everybody had left.
    ///
    /// # Errors
    /// The arrays do not fit the model.
    pub fn restore(saved: SavedRoom) -> Result<Self, RestoreError> {
        let SavedRoom { state, model, moments, records } = saved;
        let architecture = model.architecture;
        if architecture != state.architecture {
            return Err(RestoreError::Architecture { model: architecture, room: state.architecture });
        }
        let layout = Arc::new(architecture.layout());
        let check = |what, given, expected| match given == expected {
            true => Ok(()),
            false => Err(RestoreError::Length { what, given, expected, architecture }),
        };
        check("weights", model.state.weights.len(), layout.len())?;
        let statistics = architecture.statistics().len();
        // An encrypted model has no statistics, even if its architecture does.
        if !model.state.statistics.is_empty() {
            check("running statistics", model.state.statistics.len(), statistics)?;
        }
        for (what, moment) in [("first moments", &moments.first), ("second moments", &moments.second)] {
            if !moment.is_empty() {
                check(what, moment.len(), layout.len())?;
            }
        }
        check("second moments", moments.second.len(), moments.first.len())?;
        let counts = UpdateCounts::from_record(Arc::clone(&layout), state.settings.defence(), records.counts)
            .ok_or(RestoreError::Counts)?;
        let optimiser = Optimiser::with_moments(state.optimiser, state.steps, moments);
        let learner = Learner::resumed(model, layout, &state.settings, optimiser, counts);
        Ok(Self {
            run: state.run,
            begins_nothing: false,
            phase: if state.resting { Phase::Resting } else { Phase::Idle },
            number: state.number,
            policy: state.policy,
            quorum: Quorum::default(),
            settings: state.settings,
            choices: Choices { settings: state.next_settings, ..Choices::default() },
            learner: learner.with_norms(state.norms, state.statistics),
            encryption: Encryption::resumed(state.seal, state.salt, state.asked),
            members: Members::restore(state.members),
            asked: Asked::default(),
            seeds: records.seeds.into_iter().collect(),
            class_check: None,
            doctored: None,
        })
    }
}
