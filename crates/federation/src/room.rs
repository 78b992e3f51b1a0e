//! The room: its clients, its rounds and their order.

mod members;
mod message;
mod refusal;
mod sealing;
mod seeds;
mod state;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use unmask_core::{
    Architecture, ClientId, ClientState, EncryptionStart, ModelState, OptimiserKind, ParamGroup, ParamLayout,
    RoundSettings, Rule, TrainingPictures, UpdateForm,
};
use unmask_defence::FROZEN_SEED;

use self::{
    members::{MAX_REFUSALS, Members, Silent},
    sealing::Sealing,
    seeds::UsedSeeds,
};
pub use self::{
    message::{Effect, Event, ReceivedUpdate, RoundSummary, Void},
    refusal::Refusal,
    sealing::Seal,
    state::{RestoreError, RoomRecords, RoomState, SavedRoom},
};
use crate::{
    Aggregate, Optimiser, UpdateCounts,
    gate::{Reports, Statistics, mean_loss},
};

/// The model that all clients train.
#[derive(Clone, PartialEq)]
pub struct GlobalModel {
    pub architecture: Architecture,
    /// Global weights w and running statistics.
    pub state: ModelState,
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

/// What the room waits for.
#[derive(Debug)]
enum Work {
    Idle,
    Seal(Sealing),
    Round(Round),
}

/// How many clients a round waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quorum {
    /// Share of the cohort that is enough, in (0, 1]. After that the rest get some more time, but not the whole
    /// deadline.
    pub share: f64,
    /// Least number of updates for a step.
    pub updates: u32,
}

impl Default for Quorum {
    /// Four of five clients, and at least one update.
    fn default() -> Self {
        Self { share: 0.8, updates: 1 }
    }
}

/// No training step moves the weights by this many times their own norm, not even if training diverges. A larger update
/// is not a gradient.
const FARTHEST: f64 = 100.0;

#[derive(Debug)]
struct Round {
    /// Number of clients asked.
    cohort: usize,
    has_quorum: bool,
    model: Arc<GlobalModel>,
    reports: Reports,
}

#[derive(Debug)]
pub struct Room {
    run: Run,
    resting: bool,
    number: u32,
    policy: u32,
    quorum: Quorum,
    settings: RoundSettings,
    next_settings: Option<RoundSettings>,
    model: Arc<GlobalModel>,
    next_model: Option<GlobalModel>,
    /// Weights for `model` from the next round on.
    next_weights: Option<ModelState>,
    layout: Arc<ParamLayout>,
    optimiser: Optimiser,
    aggregate: Aggregate,
    statistics: Statistics,
    counts: UpdateCounts,
    seal: Option<Seal>,
    salt: Option<[u8; 16]>,
    /// The client last asked to encrypt a model.
    asked: Option<ClientId>,
    members: Members,
    seeds: UsedSeeds,
    work: Work,
}

impl Room {
    /// An empty, paused room.
    pub fn new(model: GlobalModel, settings: RoundSettings) -> Self {
        Self::with_model(Arc::new(model), settings)
    }

    fn with_model(model: Arc<GlobalModel>, settings: RoundSettings) -> Self {
        let layout = Arc::new(model.architecture.layout());
        Self {
            run: Run::Paused,
            resting: false,
            number: 0,
            policy: 1,
            quorum: Quorum::default(),
            settings,
            next_settings: None,
            model,
            next_model: None,
            next_weights: None,
            optimiser: Optimiser::new(settings.optimiser()),
            aggregate: Aggregate::new(Arc::clone(&layout), settings.defence(), settings.aggregation()),
            statistics: Statistics::default(),
            counts: UpdateCounts::new(Arc::clone(&layout), settings.defence()),
            layout,
            seal: None,
            salt: None,
            asked: None,
            members: Members::default(),
            seeds: UsedSeeds::default(),
            work: Work::Idle,
        }
    }

    #[must_use]
    pub fn with_quorum(self, quorum: Quorum) -> Self {
        Self { quorum, ..self }
    }

    pub fn phase(&self) -> RoomPhase {
        match (&self.work, self.run) {
            (Work::Round(_), _) => RoomPhase::Training,
            (Work::Seal(_), _) => RoomPhase::Sealing,
            (Work::Idle, Run::Paused) => RoomPhase::Paused,
            (Work::Idle, _) if self.resting => RoomPhase::Between,
            (Work::Idle, _) => RoomPhase::Waiting,
        }
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

    /// The settings from the next round on.
    pub fn coming(&self) -> RoundSettings {
        self.next_settings.unwrap_or(self.settings)
    }

    pub fn model(&self) -> &Arc<GlobalModel> {
        &self.model
    }

    /// The model from the next round on, if it will change.
    pub fn next_model(&self) -> Option<Architecture> {
        self.next_model.as_ref().map(|model| model.architecture)
    }

    /// Whether the room pauses after the next round.
    pub fn is_for_one_round(&self) -> bool {
        self.run == Run::Once
    }

    /// Whether the next round starts with weights from [`Event::SetWeights`].
    pub fn awaits_weights(&self) -> bool {
        self.next_weights.is_some()
    }

    /// The encryption of the weights, once a client has encrypted them.
    pub fn seal(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    /// Whether `settings` need fresh weights ([`Event::SetModel`]) to take effect: nobody here can decrypt encrypted
    /// weights, and a keyed start makes its own.
    pub fn needs_new_model(&self, settings: &RoundSettings) -> bool {
        if self.next_model.is_some() {
            return false;
        }
        match (self.seal.map(|seal| seal.start), settings.encryption()) {
            (Some(start), coming) => coming != Some(start),
            (None, Some(EncryptionStart::Keyed)) => self.settings.encryption() != settings.encryption(),
            (None, _) => false,
        }
    }

    /// Update counts under the current policy.
    pub fn update_counts(&self) -> &UpdateCounts {
        &self.counts
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
                self.go_on()
            }
            Event::Left(client) => {
                self.members.leave(client);
                if self.is_sealing(client) { self.give_up_sealing() } else { self.go_on() }
            }
            Event::Forgotten(client) => {
                self.members.forget(client);
                Vec::new()
            }
            Event::Visibility { client, is_hidden } => {
                self.members.see(client, is_hidden);
                self.go_on()
            }
            Event::Return(client) => {
                self.members.return_to_rounds(client);
                self.go_on()
            }
            Event::Update(received) => self.update(received),
            Event::Given { client, pictures } => {
                self.members.give(client, pictures);
                Vec::new()
            }
            Event::Readmit(client) => {
                self.members.readmit(client);
                self.go_on()
            }
            Event::Unable { client, round, policy } => self.unable(client, round, policy),
            Event::Sealed { client, policy, check, weights } => self.sealed(client, policy, check, weights),
            Event::Deadline { round, policy } => self.deadline(round, policy),
            Event::Salt(salt) => {
                self.salt = Some(salt);
                self.begin()
            }
            Event::Begin => {
                self.resting = false;
                self.begin()
            }
            Event::Start => self.run(Run::On),
            Event::OneRound => self.run(Run::Once),
            Event::Pause => {
                self.run = Run::Paused;
                Vec::new()
            }
            Event::SetSettings(settings) => {
                self.next_settings = Some(settings);
                self.drop_seal()
            }
            Event::SetModel(model) => {
                self.next_model = Some(model);
                self.drop_seal()
            }
            Event::SetWeights(state) => {
                self.next_weights = state;
                Vec::new()
            }
            Event::Reset(model) => {
                self.work = Work::Idle;
                self.members.drop_work();
                self.run = Run::Paused;
                self.next_model = Some(model);
                self.members.readmit_all();
                self.apply_choices();
                Vec::new()
            }
        }
    }

    fn run(&mut self, run: Run) -> Vec<Effect> {
        self.run = run;
        if self.resting { Vec::new() } else { self.begin() }
    }

    fn is_sealing(&self, client: ClientId) -> bool {
        matches!(&self.work, Work::Seal(sealing) if sealing.client == client)
    }

    /// Drops a running encryption, which was for other settings or another model. No round runs yet, so the choice
    /// takes effect immediately.
    fn drop_seal(&mut self) -> Vec<Effect> {
        if !matches!(self.work, Work::Seal(_)) {
            return Vec::new();
        }
        self.work = Work::Idle;
        self.members.drop_work();
        self.apply_choices();
        self.begin()
    }

    /// Applies the choices made since the last round. Called only between rounds, so that no average mixes two
    /// policies.
    fn apply_choices(&mut self) {
        // Encrypted weights must never be trained as plain ones: without fresh weights, the old settings remain.
        let settings = match self.next_settings {
            Some(settings) if !self.needs_new_model(&settings) => {
                self.next_settings = None;
                settings
            }
            _ => self.settings,
        };
        let model = self.next_model.take();
        if settings == self.settings && model.is_none() {
            return;
        }
        self.policy += 1;
        if model.is_some() || settings.optimiser() != self.settings.optimiser() {
            self.optimiser = Optimiser::new(settings.optimiser());
        }
        self.settings = settings;
        if let Some(model) = model {
            self.next_weights = None;
            self.number = 0;
            self.seal = None;
            if model.architecture != self.model.architecture {
                self.layout = Arc::new(model.architecture.layout());
                self.aggregate = Aggregate::new(Arc::clone(&self.layout), settings.defence(), settings.aggregation());
            }
            self.model = Arc::new(model);
        }
        self.aggregate.change(settings.defence(), settings.aggregation());
        self.statistics = Statistics::default();
        self.counts = UpdateCounts::new(Arc::clone(&self.layout), settings.defence());
    }

    /// Starts a round if one is wanted and a client is free; has the model encrypted before the first encrypted round.
    fn begin(&mut self) -> Vec<Effect> {
        if self.run == Run::Paused || !matches!(self.work, Work::Idle) || self.resting {
            return Vec::new();
        }
        if self.members.free().next().is_none() {
            return Vec::new();
        }
        self.apply_choices();
        match self.seal_to_make() {
            Some(start) => self.begin_sealing(start),
            None => self.begin_round(),
        }
    }

    fn apply_weights(&mut self) {
        let Some(state) = self.next_weights.take() else { return };
        let (given, own) = (&state, &self.model.state);
        let lengths = |state: &ModelState| (state.weights.len(), state.statistics.len());
        if self.seal.is_none() && lengths(given) == lengths(own) {
            self.model = Arc::new(GlobalModel { architecture: self.model.architecture, state });
            self.optimiser = Optimiser::new(self.settings.optimiser());
        }
    }

    /// Starts a round with all free clients as its cohort.
    fn begin_round(&mut self) -> Vec<Effect> {
        self.apply_weights();
        self.number += 1;
        if self.run == Run::Once {
            self.run = Run::Paused;
        }
        let cohort = self.members.begin_round();
        let model = Arc::clone(&self.model);
        self.aggregate.begin(self.harmless_norm());
        self.statistics.restart();
        self.work = Work::Round(Round {
            cohort: cohort.len(),
            has_quorum: false,
            model: Arc::clone(&model),
            reports: Reports::default(),
        });
        let (round, policy, settings) = (self.number, self.policy, self.settings);
        let encryption = self.seal.map(|seal| (seal.salt, seal.check));
        vec![Effect::Plan { cohort, round, policy, settings, encryption, model }, Effect::Deadline { round, policy }]
    }

    /// The norm of an update that would, unclipped, move the weights by [`FARTHEST`] times their own norm. Adam's step
    /// length does not depend on the gradient's norm, so Adam counts as having a rate of 1.
    fn harmless_norm(&self) -> f64 {
        let rate = match (self.settings.rule(), self.settings.optimiser()) {
            (Rule::FedSgd, OptimiserKind::Sgd { rate }) => f64::from(rate),
            (Rule::FedSgd, OptimiserKind::Adam { .. }) | (Rule::FedAvg { .. }, _) => 1.0,
        };
        let square = |weight: &f32| f64::from(*weight) * f64::from(*weight);
        FARTHEST * self.model.state.weights.iter().map(square).sum::<f64>().sqrt() / rate
    }

    fn unable(&mut self, client: ClientId, round: u32, policy: u32) -> Vec<Effect> {
        if self.is_sealing(client) {
            if (round, policy) != (0, self.policy) {
                return Vec::new();
            }
            self.free(client);
            return self.give_up_sealing();
        }
        if self.is_answer(client, round, policy) {
            self.free(client);
        }
        self.after_answer()
    }

    /// Whether this message shows that a client has finished its task, in the current round or in a closed one.
    fn is_answer(&self, client: ClientId, round: u32, policy: u32) -> bool {
        match self.member(client) {
            state if state.is_behind() => true,
            ClientState::Training => {
                matches!(self.work, Work::Round(_)) && (round, policy) == (self.number, self.policy)
            }
            _ => false,
        }
    }

    fn free(&mut self, client: ClientId) {
        self.members.answered(client);
        self.members.set(client, ClientState::Joined);
    }

    fn deadline(&mut self, round: u32, policy: u32) -> Vec<Effect> {
        match self.work {
            Work::Round(_) if (round, policy) == (self.number, self.policy) => self.close(),
            Work::Seal(_) if (round, policy) == (0, self.policy) => {
                let mut effects = sit_out(self.members.end_round().sitting_out);
                effects.extend(self.give_up_sealing());
                effects
            }
            _ => Vec::new(),
        }
    }

    fn update(&mut self, received: ReceivedUpdate) -> Vec<Effect> {
        let ReceivedUpdate { client, round, policy, .. } = received;
        let mut effects = match self.accept(&received) {
            Ok(()) => {
                self.members.accepted(client);
                vec![Effect::Accepted { client, round }, Effect::Spent(received.update.values)]
            }
            Err(refusal) => {
                // A client whose answer was refused has finished its round, so nobody waits for it.
                if self.is_answer(client, round, policy) {
                    self.free(client);
                }
                let is_excluded = refusal.is_fault() && self.members.refused(client);
                let mut effects = vec![Effect::Refused { client, refusal }, Effect::Spent(received.update.values)];
                effects.extend(is_excluded.then_some(Effect::Excluded { client, refusals: MAX_REFUSALS }));
                effects
            }
        };
        effects.extend(self.after_answer());
        effects
    }

    /// Most samples that this client's update may count for: the pictures it was given, or one batch of its own.
    fn most_samples(&self, client: ClientId) -> u32 {
        let batch = u32::from(self.settings.batch());
        match (self.settings.pictures(), self.settings.rule()) {
            (TrainingPictures::Shared { .. }, Rule::FedAvg { .. }) => {
                self.members.given(client).unwrap_or(batch).max(1)
            }
            _ => batch,
        }
    }

    /// Checks whether an update would be accepted now, without changing anything.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn check(&self, received: &ReceivedUpdate) -> Result<(), Refusal> {
        let (weight, reference) = self.check_sender(received)?;
        self.aggregate.check_weight(weight)?;
        let update = received.update.checked(&self.layout)?;
        self.aggregate.check_norm(&update, reference).map(drop)
    }

    /// The checks before those of the values; returns the update's weight and what its values are a change of.
    fn check_sender(&self, received: &ReceivedUpdate) -> Result<(u32, Option<&[f32]>), Refusal> {
        let ReceivedUpdate { client, round, policy, loss, samples, update, statistics } = received;
        let Work::Round(current) = &self.work else {
            return Err(Refusal::Stale { update: *round, current: None });
        };
        if *policy != self.policy {
            return Err(Refusal::Policy { update: *policy, current: self.policy });
        }
        if *round != self.number {
            return Err(Refusal::Stale { update: *round, current: Some(self.number) });
        }
        match self.members.state(*client) {
            ClientState::Training => {}
            ClientState::Sent => return Err(Refusal::Twice { round: *round }),
            _ => return Err(Refusal::NotInCohort),
        }
        if !loss.is_finite() {
            return Err(Refusal::Loss(loss.to_string()));
        }
        if *samples == 0 {
            return Err(Refusal::Samples(*samples));
        }
        self.aggregate.check_form(update.form)?;
        if !statistics.is_empty() {
            // If values are missing, the first statistics may have been taken for values.
            update.check(&self.layout)?;
        }
        current.model.architecture.check_statistics(statistics)?;
        let defence = self.settings.defence();
        match update.form {
            UpdateForm::Masked { seed, .. } if defence.has_common_mask() && seed != FROZEN_SEED => {
                return Err(Refusal::SeedNotCommon(defence));
            }
            UpdateForm::Masked { seed, .. } if !defence.has_common_mask() && self.seeds.contains(&seed) => {
                return Err(Refusal::SeedReused);
            }
            UpdateForm::Encrypted { check } if self.seal.is_none_or(|seal| seal.check != check) => {
                return Err(Refusal::OtherKey);
            }
            _ => {}
        }
        let is_fedavg = self.settings.rule().is_fedavg();
        let reference = is_fedavg.then_some(current.model.state.weights.as_slice());
        let mut fixed = ParamGroup::ALL.into_iter().filter(|group| defence.fixes(*group));
        if let Some(group) = fixed.find(|group| !is_kept(&self.layout, *group, &update.values, reference)) {
            let sent = format!("one with a {group} of its own");
            return Err(Refusal::OtherDefence { sent, defence });
        }
        Ok((if is_fedavg { self.counted(received) } else { 1 }, reference))
    }

    /// Samples that count, at most one batch: a client's own folder may hold more pictures.
    fn counted(&self, received: &ReceivedUpdate) -> u32 {
        received.samples.min(self.most_samples(received.client))
    }

    fn accept(&mut self, received: &ReceivedUpdate) -> Result<(), Refusal> {
        let (weight, _) = self.check_sender(received)?;
        let samples = self.counted(received);
        let ReceivedUpdate { client, round, loss, update, statistics, .. } = received;
        let Work::Round(current) = &mut self.work else {
            return Err(Refusal::Stale { update: *round, current: None });
        };
        let is_fedavg = self.settings.rule().is_fedavg();
        let reference = is_fedavg.then_some(current.model.state.weights.as_slice());
        self.aggregate.add(update, weight, reference)?;
        self.statistics.add(statistics, weight);
        current.reports.add(*client, *loss, samples);
        if let UpdateForm::Masked { seed, .. } = update.form {
            self.seeds.insert(seed);
        }
        Ok(())
    }

    /// After an answer, a round may be complete, or a new one may start because a client is free again.
    fn after_answer(&mut self) -> Vec<Effect> {
        match self.work {
            Work::Round(_) if self.members.is_anybody_training() => self.quorum_reached(),
            Work::Round(_) => self.close(),
            Work::Idle => self.begin(),
            Work::Seal(_) => Vec::new(),
        }
    }

    /// A client joined, left or now counts differently.
    fn go_on(&mut self) -> Vec<Effect> {
        if matches!(self.work, Work::Round(_)) || self.phase() == RoomPhase::Waiting {
            self.after_answer()
        } else {
            Vec::new()
        }
    }

    /// Reports once per round that it need not wait for the deadline. Clients in the background, and clients that
    /// missed two rounds, do not count: they get only the time that the others take.
    fn quorum_reached(&mut self) -> Vec<Effect> {
        let (awaited, others) = self.members.training();
        let (round, policy) = (self.number, self.policy);
        let Work::Round(current) = &mut self.work else { return Vec::new() };
        let counted = current.cohort.saturating_sub(others);
        let answered = counted.saturating_sub(awaited);
        let is_enough = self.aggregate.updates() >= self.quorum.updates.max(1)
            && answered as f64 >= self.quorum.share * counted as f64;
        if current.has_quorum || !is_enough {
            return Vec::new();
        }
        current.has_quorum = true;
        vec![Effect::Quorum { round, policy, awaited: awaited > 0 }]
    }

    fn close(&mut self) -> Vec<Effect> {
        let Work::Round(round) = std::mem::replace(&mut self.work, Work::Idle) else { return Vec::new() };
        let Round { model, reports, .. } = round;
        let Silent { late, sitting_out } = self.members.end_round();
        let rule = self.settings.rule();
        // The updates that wait are judged together, now that no more will arrive.
        let left_out = self.aggregate.judge(rule.is_fedavg().then_some(&model.state.weights));
        self.statistics.leave_out(left_out);
        let reports = reports.without(left_out);
        let (updates, clipped, opposed) =
            (self.aggregate.updates(), self.aggregate.clipped(), self.aggregate.opposed());
        let (samples, losses) = (reports.samples(), reports.plausible_losses(model.architecture.classes()));
        let (mut loss, mut void) = (None, None);
        let least = self.quorum.updates;
        if updates > 0 && updates < least {
            void = Some(Void::TooFew { updates, least });
        } else if updates > 0 {
            let statistics = self.statistics.mean(&model.state.statistics, self.settings.aggregation());
            // If attacks still hold the old weights, the new ones are a copy.
            drop(model);
            let state = &mut Arc::make_mut(&mut self.model).state;
            match self.aggregate.close(rule, &mut self.optimiser, &mut state.weights, &mut self.counts) {
                Ok(()) => state.statistics = statistics,
                Err(overflow) => void = Some(overflow.into()),
            }
            loss = mean_loss(&losses);
        }
        if void.is_some() {
            self.aggregate.forget_norms();
        }
        let (round, settings) = (self.number, self.settings);
        let summary = RoundSummary { round, settings, updates, clipped, opposed, samples, loss, losses, void, late };
        self.resting = true;
        let mut effects = vec![Effect::Closed(summary)];
        effects.extend(sit_out(sitting_out));
        effects.push(Effect::Rest);
        effects
    }
}

fn sit_out(clients: Vec<ClientId>) -> Vec<Effect> {
    clients.into_iter().map(Effect::SittingOut).collect()
}

/// Whether the group's values equal those of `reference` bit for bit, or are zero if there is no reference.
fn is_kept(layout: &ParamLayout, group: ParamGroup, values: &[f32], reference: Option<&[f32]>) -> bool {
    layout.group_ranges(group).all(|range| {
        let values = values.get(range.clone()).unwrap_or_default();
        match reference.and_then(|reference| reference.get(range)) {
            Some(reference) => values.iter().zip(reference).all(|(value, kept)| value.to_bits() == kept.to_bits()),
            None => values.iter().all(|value| *value == 0.0),
        }
    })
}

#[cfg(test)]
mod tests;
