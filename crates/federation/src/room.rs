//! The room: its clients, its rounds and their order.

mod accepted;
mod choices;
mod learner;
mod members;
mod message;
mod refusal;
mod sealing;
mod seeds;
mod state;
mod summing;
mod training;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, ClientId, ClientState, KeyCheck, ModelState, RoundSettings, Rule, SecureSumSettings};

pub use self::{
    accepted::{Accepted, Refused},
    message::{Effect, Event, ReceivedUpdate, RoundSummary, Void},
    refusal::Refusal,
    sealing::Seal,
    state::{RestoreError, RoomRecords, RoomState, SavedRoom},
    summing::ReceivedKeys,
};
use self::{
    choices::Choices,
    learner::Learner,
    members::{Asked, Members},
    sealing::{Encryption, Sealing},
    seeds::UsedSeeds,
    summing::Summing,
    training::Round,
};
use crate::UpdateCounts;

/// The model that all clients train.
#[derive(Clone, PartialEq)]
pub struct GlobalModel {
    pub architecture: Architecture,
    /// Global weights w and running statistics.
    pub state: ModelState,
}

impl GlobalModel {
    /// What a round's values are a change of, `[P]`: these weights under FedAvg, nothing under FedSGD.
    pub fn reference(&self, rule: Rule) -> Option<&[f32]> {
        rule.is_fedavg().then_some(self.state.weights.as_slice())
    }
}

impl fmt::Debug for GlobalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalModel")
            .field("architecture", &self.architecture)
            .field("weights", &self.state.weights.len())
            .finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomPhase {
    /// No round runs until [`Event::Start`] or [`Event::OneRound`].
    Paused,
    /// Rounds should run, but no client is free.
    Waiting,
    /// A client is encrypting the model, before the first encrypted round.
    Sealing,
    Training,
    /// A round has closed; the next one starts with [`Event::Begin`].
    Between,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Run {
    Paused,
    Once,
    On,
}

/// What the room waits for. A phase owns what only it uses.
#[derive(Debug, Clone)]
enum Phase {
    /// For a free client, if rounds should run.
    Idle,
    /// For the end of the pause after a round or a failed encryption.
    Resting,
    Sealing(Sealing),
    Training(Round),
    /// The clients have trained, and add up their updates.
    Summing(Box<Summing>),
}

/// How many clients a round waits for and a step needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quorum {
    /// Share of the cohort that is enough, in (0, 1]. After that the rest get some more time, but not the whole
    /// deadline.
    pub share: f64,
    /// Least number of updates for a step; from this many people on, they must be people's. By default
    /// [`HIDES`](Self::HIDES) where so many clients are there, else one.
    pub updates: Option<u32>,
    /// Least number of a round's updates that must have a parameter's value for the step to move it. 1 moves what
    /// anybody sent; a larger number is also the least number of updates for a step.
    pub kept: u32,
}

impl Quorum {
    /// Updates in a step from which nobody computes another's alone. With two, each is the step without one's own.
    pub const HIDES: u32 = SecureSumSettings::LEAST;

    /// Least number of people in a secure sum or, without people, of robots.
    pub fn of_secure_sum(self) -> u32 {
        self.updates.unwrap_or_default().max(self.kept).max(Self::HIDES)
    }

    /// What a step needs in a round that waits for this many people and robots.
    fn needs(self, (people, robots): (u32, u32)) -> Needs {
        let usual = if people + robots < Self::HIDES { 1 } else { Self::HIDES };
        let updates = self.updates.unwrap_or(usual).max(self.kept);
        Needs { updates, people: if people < updates { 0 } else { updates } }
    }
}

/// Least numbers of updates for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Needs {
    updates: u32,
    /// How many of them from people.
    people: u32,
}

impl Needs {
    /// Why there is no step with this many updates, so many of them from people.
    fn lack(self, updates: u32, people: u32) -> Option<Void> {
        if updates < self.updates {
            Some(Void::TooFew { updates, least: self.updates })
        } else if people < self.people {
            Some(Void::TooFewPeople { people, least: self.people })
        } else {
            None
        }
    }
}

impl Default for Quorum {
    /// Four of five clients.
    fn default() -> Self {
        Self { share: 0.8, updates: None, kept: 1 }
    }
}

/// The room as a state machine. Each phase has its own file: `sealing` and `training`.
#[derive(Debug, Clone)]
pub struct Room {
    run: Run,
    begins_nothing: bool,
    phase: Phase,
    number: u32,
    policy: u32,
    quorum: Quorum,
    settings: RoundSettings,
    choices: Choices,
    learner: Learner,
    encryption: Encryption,
    members: Members,
    asked: Asked,
    seeds: UsedSeeds,
    /// The class's key in the last round's sum, if that succeeded.
    class_check: Option<KeyCheck>,
    /// Weights that clients get in place of the model's, `[P]`.
    doctored: Option<Vec<f32>>,
}

impl Room {
    /// An empty, paused room.
    pub fn new(model: GlobalModel, settings: RoundSettings) -> Self {
        Self {
            run: Run::Paused,
            begins_nothing: false,
            phase: Phase::Idle,
            number: 0,
            policy: 1,
            quorum: Quorum::default(),
            settings,
            choices: Choices::default(),
            learner: Learner::new(Arc::new(model), &settings),
            encryption: Encryption::default(),
            members: Members::default(),
            asked: Asked::default(),
            seeds: UsedSeeds::default(),
            class_check: None,
            doctored: None,
        }
    }

    #[must_use]
    pub fn with_quorum(self, quorum: Quorum) -> Self {
        Self { quorum, learner: self.learner.with_min_kept(quorum.kept), ..self }
    }

    pub fn phase(&self) -> RoomPhase {
        match (&self.phase, self.run) {
            (Phase::Training(_) | Phase::Summing(_), _) => RoomPhase::Training,
            (Phase::Sealing(_), _) => RoomPhase::Sealing,
            (Phase::Idle | Phase::Resting, Run::Paused) => RoomPhase::Paused,
            (Phase::Resting, _) => RoomPhase::Between,
            (Phase::Idle, _) => RoomPhase::Waiting,
        }
    }

    /// Whether round follows round until the teacher pauses.
    pub fn runs_on(&self) -> bool {
        self.run == Run::On
    }

    /// The current or last round; 0 before the first.
    pub fn round(&self) -> u32 {
        self.number
    }

    /// Number of the current policy; changes with settings and model.
    pub fn policy(&self) -> u32 {
        self.policy
    }

    pub fn settings(&self) -> RoundSettings {
        self.settings
    }

    pub fn model(&self) -> &Arc<GlobalModel> {
        self.learner.model()
    }

    /// The model that the clients of the running round got; else the room's.
    pub fn round_model(&self) -> &Arc<GlobalModel> {
        match &self.phase {
            Phase::Training(round) => &round.model,
            Phase::Summing(summing) => summing.model(),
            Phase::Idle | Phase::Resting | Phase::Sealing(_) => self.model(),
        }
    }

    /// Whether clients get doctored weights from the next round on.
    pub fn sends_doctored(&self) -> bool {
        self.doctored.is_some()
    }

    /// Whether no round begins until [`Event::BeginNothing`] says otherwise.
    pub fn begins_nothing(&self) -> bool {
        self.begins_nothing
    }

    /// Whether the room pauses after the next round.
    pub fn is_for_one_round(&self) -> bool {
        self.run == Run::Once
    }

    /// The encryption of the weights, once a client has encrypted them.
    pub fn seal(&self) -> Option<&Seal> {
        self.encryption.seal()
    }

    /// Tells the class's key from others, if the last round had a secure sum.
    pub fn class_check(&self) -> Option<KeyCheck> {
        self.class_check
    }

    /// Update counts under the current policy.
    pub fn update_counts(&self) -> &UpdateCounts {
        self.learner.counts()
    }

    pub fn member(&self, client: ClientId) -> ClientState {
        self.members.state(client)
    }

    /// Whether a client is connected and in the background.
    pub fn is_hidden(&self, client: ClientId) -> bool {
        self.members.is_hidden(client)
    }

    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Joined(client) => {
                self.members.join(client);
                self.advance()
            }
            Event::Robot(client) => {
                self.members.is_a_robot(client);
                Vec::new()
            }
            Event::Consent { client, consents } => {
                self.members.consent(client, consents);
                self.advance()
            }
            Event::AskOnlyConsenting(is_only) => {
                self.asked = if is_only { Asked::Consenting } else { Asked::Everybody };
                self.advance()
            }
            Event::Left(client) => {
                self.members.leave(client);
                self.leaves_sum(client);
                if self.is_sealing(client) { self.give_up_sealing() } else { self.advance() }
            }
            Event::Forgotten(client) => {
                self.members.forget(client);
                match &mut self.phase {
                    Phase::Training(round) => round.forget(client),
                    Phase::Summing(summing) => summing.forget(client),
                    Phase::Idle | Phase::Resting | Phase::Sealing(_) => {}
                }
                Vec::new()
            }
            Event::Visibility { client, is_hidden } => {
                self.members.see(client, is_hidden);
                self.advance()
            }
            Event::Return(client) => {
                self.members.return_to_rounds(client);
                self.advance()
            }
            Event::Update(received) => {
                let checked = self.accept(received);
                self.checked(checked)
            }
            Event::Checked(checked) => self.checked(checked),
            Event::SumTerms(terms) => {
                self.begin_keying(terms);
                Vec::new()
            }
            Event::SumKeys(received) => self.keys(received),
            Event::Sum { client, round, policy, message } => self.summand(client, (round, policy), message),
            Event::Quick(client) => {
                self.members.quick(client);
                Vec::new()
            }
            Event::Given { client, pictures } => {
                self.members.give(client, pictures);
                Vec::new()
            }
            Event::Readmit(client) => {
                self.members.readmit(client);
                self.advance()
            }
            Event::LeaveOut(client) => {
                self.members.leave_out(client);
                Vec::new()
            }
            Event::Unable { client, round, policy, is_locked } => {
                // Clients take turns at encrypting the model.
                let takes_passphrase =
                    self.settings.encryption().is_some() || self.settings.aggregation().secure_sum().is_some();
                let is_excused = is_locked && takes_passphrase || self.is_sealing(client);
                self.unable(client, (round, policy), is_excused)
            }
            Event::Doubtful { client, round, policy } => self.unable(client, (round, policy), true),
            Event::Sealed { client, policy, check, weights } => self.sealed(client, policy, check, weights),
            Event::Waited { round, policy } => {
                if !matches!(self.phase, Phase::Training(_)) || (round, policy) != (self.number, self.policy) {
                    return Vec::new();
                }
                self.members.waited();
                Vec::new()
            }
            Event::Deadline { round, policy } => self.deadline(round, policy),
            Event::Salt(salt) => {
                self.encryption.give_salt(salt);
                self.begin()
            }
            Event::Begin => {
                if matches!(self.phase, Phase::Resting) {
                    self.phase = Phase::Idle;
                }
                self.begin()
            }
            Event::Start => self.run(Run::On),
            Event::OneRound => self.run(Run::Once),
            Event::Pause => {
                self.run = Run::Paused;
                Vec::new()
            }
            Event::BeginNothing(begins_nothing) => {
                self.begins_nothing = begins_nothing;
                self.begin()
            }
            Event::SetSettings(settings) => {
                self.choices.settings = Some(settings);
                self.drop_sealing()
            }
            Event::SetModel(model) => {
                self.choices.model = Some(model);
                self.drop_sealing()
            }
            Event::SetWeights(state) => {
                self.choices.weights = state;
                Vec::new()
            }
            Event::SendDoctored(weights) => {
                let fits = |weights: &Vec<f32>| weights.len() == self.model().state.weights.len();
                self.doctored = weights.filter(fits);
                Vec::new()
            }
            Event::Reset(model) => {
                // A pause is not cut short: its end is already on the caller's clock.
                if !matches!(self.phase, Phase::Resting) {
                    self.phase = Phase::Idle;
                }
                self.members.drop_work();
                self.run = Run::Paused;
                self.choices.model = Some(model);
                self.class_check = None;
                self.members.readmit_all();
                self.apply_choices();
                Vec::new()
            }
        }
    }

    fn run(&mut self, run: Run) -> Vec<Effect> {
        self.run = run;
        self.begin()
    }

    /// Starts a round if one is wanted and a client that it may ask is free; has the model encrypted before the first encrypted round.
    fn begin(&mut self) -> Vec<Effect> {
        let is_anybody_free = || self.members.askable(self.asked).next().is_some();
        if self.run == Run::Paused || self.begins_nothing || !matches!(self.phase, Phase::Idle) || !is_anybody_free() {
            return Vec::new();
        }
        self.apply_choices();
        match self.seal_to_make() {
            Some(start) => self.begin_sealing(start),
            None => self.begin_round(),
        }
    }

    /// Moves on as far as the clients allow, after one of them joined, left, answered or now counts differently: the
    /// running round may be complete, or a new one may start because a client is free.
    fn advance(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Training(_) => self.close_if_complete(),
            Phase::Summing(_) => self.go_on(),
            Phase::Idle => self.begin(),
            Phase::Resting | Phase::Sealing(_) => Vec::new(),
        }
    }

    fn unable(&mut self, client: ClientId, task: (u32, u32), is_excused: bool) -> Vec<Effect> {
        let current = match self.phase {
            Phase::Sealing(_) => (0, self.policy),
            _ => (self.number, self.policy),
        };
        let mut effects = Vec::new();
        if self.member(client) == ClientState::Training {
            if task != current {
                return effects;
            }
            let sits_out = self.members.unable(client, is_excused);
            effects.extend(sits_out.then_some(Effect::SittingOut(client)));
        } else {
            if task == current {
                self.leaves_sum(client);
            }
            self.members.unable_late(client);
        }
        effects.extend(if self.is_sealing(client) { self.give_up_sealing() } else { self.advance() });
        effects
    }

    /// Frees a client that has finished its task, in the current round or in a closed one.
    fn free_if_answer(&mut self, client: ClientId, round: u32, policy: u32) {
        let is_answer = match self.member(client) {
            state if state.is_behind() => true,
            ClientState::Training => {
                matches!(self.phase, Phase::Training(_)) && (round, policy) == (self.number, self.policy)
            }
            _ => false,
        };
        if is_answer {
            self.members.free_after_answer(client);
        }
    }

    fn deadline(&mut self, round: u32, policy: u32) -> Vec<Effect> {
        match self.phase {
            Phase::Training(_) if (round, policy) == (self.number, self.policy) => self.close(),
            Phase::Summing(_) if (round, policy) == (self.number, self.policy) => self.sum_deadline(),
            Phase::Sealing(_) if (round, policy) == (0, self.policy) => {
                let mut effects = sit_out(self.members.end_round().sitting_out);
                effects.extend(self.give_up_sealing());
                effects
            }
            _ => Vec::new(),
        }
    }
}

fn sit_out(clients: Vec<ClientId>) -> Vec<Effect> {
    clients.into_iter().map(Effect::SittingOut).collect()
}

#[cfg(test)]
mod tests;
