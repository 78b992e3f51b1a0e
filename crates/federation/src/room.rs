//! Who is in the room, and what happens when.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use unmask_defence::{Defence, MaskSeed, ProtectedUpdate, UpdateError};
use unmask_params::{ModelSpec, ParamLayout};

use crate::{Aggregate, Optimiser, OptimiserKind};

/// Number of a client in its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// The model all clients train.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalModel {
    /// Its shape.
    pub spec: ModelSpec,
    /// Global weights w, `[P]` in layout order.
    pub weights: Vec<f32>,
}

/// Where the room is in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No round runs and none will until [`Event::Start`] or [`Event::OneRound`].
    Paused,
    /// Rounds are to run, but nobody is there to train.
    Waiting,
    /// A cohort is training.
    Training,
    /// A round has closed; the next one begins with [`Event::Begin`].
    Between,
}

/// What a member of the room is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// Free, not in a running round.
    Joined,
    /// In the cohort, update awaited.
    Training,
    /// Its update of this round was taken.
    Sent,
    /// Still busy with a round that has closed; in again as soon as it answers.
    Late,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A client is there, new or again.
    Joined(ClientId),
    /// Its socket closed.
    Left(ClientId),
    /// It sent an update.
    Update {
        /// Who.
        client: ClientId,
        /// The round it answers.
        round: u32,
        /// The policy it was made under.
        policy: u32,
        /// Loss on the client's samples.
        loss: f32,
        /// The protected update.
        update: ProtectedUpdate,
    },
    /// It cannot take part in the round.
    Unable {
        /// Who.
        client: ClientId,
        /// The round.
        round: u32,
        /// The policy of that round.
        policy: u32,
    },
    /// The time for this round, armed by [`Effect::Deadline`], is over.
    Deadline {
        /// The round.
        round: u32,
        /// Its policy.
        policy: u32,
    },
    /// The pause asked for by [`Effect::Rest`] is over.
    Begin,
    /// Run round after round.
    Start,
    /// Run one round, then stop.
    OneRound,
    /// Let the running round end, then stop.
    Pause,
    /// From the next round on, this defence.
    SetDefence(Defence),
    /// From the next round on, this model, from round 1 again.
    SetModel(GlobalModel),
    /// Drop the running round and begin again with this model, paused.
    Reset(GlobalModel),
    /// Attack the updates of this client, or of nobody.
    SetTarget(Option<ClientId>),
}

/// What the caller has to do.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send the plan of the round to its cohort.
    Plan {
        /// The cohort.
        cohort: Vec<ClientId>,
        /// The round.
        round: u32,
        /// Its policy.
        policy: u32,
        /// The defence to use.
        defence: Defence,
        /// Model and weights.
        model: Arc<GlobalModel>,
    },
    /// Send [`Event::Deadline`] back when the time for a round is over.
    Deadline {
        /// The round.
        round: u32,
        /// Its policy.
        policy: u32,
    },
    /// Send [`Event::Begin`] back after the pause between rounds.
    Rest,
    /// Tell the client that its update was taken.
    Accepted {
        /// Who.
        client: ClientId,
        /// The round.
        round: u32,
    },
    /// Tell the client what was refused and why.
    Refused {
        /// Who.
        client: ClientId,
        /// Why.
        refusal: Refusal,
    },
    /// The update of the client under attack, for the attacks.
    Attack {
        /// Who.
        client: ClientId,
        /// The round.
        round: u32,
        /// The defence it was made under.
        defence: Defence,
        /// The model it was made with.
        model: Arc<GlobalModel>,
        /// What was sent.
        update: ProtectedUpdate,
    },
    /// A round is over, and the weights are the new ones.
    Closed(RoundSummary),
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The round is over, or not yet begun.
    #[error("the update is for round {update}, but {}", match current { Some(round) => format!("round {round} is running"), None => "no round is running".to_owned() })]
    Stale {
        /// The update's round.
        update: u32,
        /// The running round.
        current: Option<u32>,
    },
    /// Made under another policy than its round's.
    #[error("the update was made under policy {update}, the round runs under policy {current}; it is not mixed in")]
    Policy {
        /// The update's policy.
        update: u32,
        /// The round's policy.
        current: u32,
    },
    /// Not in the cohort, which is frozen when a round begins.
    #[error("this round began without this client; it is in from the next round on")]
    NotInCohort,
    /// A second update in one round.
    #[error("an update for round {round} was already taken")]
    Twice {
        /// The round.
        round: u32,
    },
    /// Dense where masked was asked for, or the other way round, or another rate.
    #[error("the update is {sent}, the round's defence is {defence}")]
    OtherDefence {
        /// What the update looks like.
        sent: String,
        /// What was asked for.
        defence: Defence,
    },
    /// A mask seed that was used before in this room.
    #[error("its mask seed was used before; a seed must be fresh for each round and client")]
    SeedReused,
    /// It does not fit the model.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The loss is not a number.
    #[error("the loss is {0}; the client's training has diverged")]
    Loss(String),
}

/// How a round went.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundSummary {
    /// The round.
    pub round: u32,
    /// The defence it ran under.
    pub defence: Defence,
    /// Number of updates averaged.
    pub updates: u32,
    /// Mean of the losses reported, if any were.
    pub loss: Option<f32>,
    /// Who was in the cohort and did not answer in time.
    pub late: Vec<ClientId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Paused,
    Once,
    On,
}

#[derive(Debug)]
struct Round {
    model: Arc<GlobalModel>,
    aggregate: Aggregate,
    losses: f64,
}

/// The state of one room.
#[derive(Debug)]
pub struct Room {
    run: Run,
    resting: bool,
    number: u32,
    policy: u32,
    defence: Defence,
    next_defence: Option<Defence>,
    model: Arc<GlobalModel>,
    next_model: Option<GlobalModel>,
    optimiser: Optimiser,
    members: BTreeMap<ClientId, MemberState>,
    target: Option<ClientId>,
    seeds: HashSet<MaskSeed>,
    current: Option<Round>,
}

impl Room {
    /// An empty, paused room.
    pub fn new(model: GlobalModel, defence: Defence, optimiser: OptimiserKind) -> Self {
        Self {
            run: Run::Paused,
            resting: false,
            number: 0,
            policy: 1,
            defence,
            next_defence: None,
            model: Arc::new(model),
            next_model: None,
            optimiser: Optimiser::new(optimiser),
            members: BTreeMap::new(),
            target: None,
            seeds: HashSet::new(),
            current: None,
        }
    }

    /// Where the room is in its round.
    pub fn phase(&self) -> Phase {
        match (&self.current, self.run) {
            (Some(_), _) => Phase::Training,
            (None, Run::Paused) => Phase::Paused,
            (None, _) if self.resting => Phase::Between,
            (None, _) => Phase::Waiting,
        }
    }

    /// The round that runs, or the last one that ran; 0 before the first.
    pub fn round(&self) -> u32 {
        self.number
    }

    /// The defence in force.
    pub fn defence(&self) -> Defence {
        self.defence
    }

    /// The defence from the next round on, if it is another one.
    pub fn next_defence(&self) -> Option<Defence> {
        self.next_defence.filter(|defence| *defence != self.defence)
    }

    /// The model with the current weights.
    pub fn model(&self) -> &Arc<GlobalModel> {
        &self.model
    }

    /// The model from the next round on, if it is to change.
    pub fn next_model(&self) -> Option<ModelSpec> {
        self.next_model.as_ref().map(|model| model.spec)
    }

    /// The server's optimiser.
    pub fn optimiser(&self) -> OptimiserKind {
        self.optimiser.kind()
    }

    /// The client under attack.
    pub fn target(&self) -> Option<ClientId> {
        self.target
    }

    /// What a client is doing, if it is in the room.
    pub fn member(&self, client: ClientId) -> Option<MemberState> {
        self.members.get(&client).copied()
    }

    /// Takes one event.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Joined(client) => {
                self.members.entry(client).or_insert(MemberState::Joined);
                if self.phase() == Phase::Waiting { self.begin() } else { Vec::new() }
            }
            Event::Left(client) => {
                self.members.remove(&client);
                self.close_if_complete()
            }
            Event::Update { client, round, policy, loss, update } => self.update(client, round, policy, loss, update),
            Event::Unable { client, round, policy } => {
                if let Some(state) = self.members.get_mut(&client) {
                    let current = self.current.is_some() && (round, policy) == (self.number, self.policy);
                    *state = match *state {
                        MemberState::Training if current => MemberState::Joined,
                        MemberState::Late => MemberState::Joined,
                        state => state,
                    };
                }
                self.after_answer()
            }
            Event::Deadline { round, policy } => {
                if self.current.is_some() && (round, policy) == (self.number, self.policy) {
                    self.close()
                } else {
                    Vec::new()
                }
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
            Event::SetDefence(defence) => {
                self.next_defence = Some(defence);
                Vec::new()
            }
            Event::SetModel(model) => {
                self.next_model = Some(model);
                Vec::new()
            }
            Event::Reset(model) => {
                if self.current.take().is_some() {
                    self.leave_behind();
                }
                self.run = Run::Paused;
                self.next_model = Some(model);
                self.apply_choices();
                Vec::new()
            }
            Event::SetTarget(client) => {
                self.target = client;
                Vec::new()
            }
        }
    }

    fn run(&mut self, run: Run) -> Vec<Effect> {
        self.run = run;
        if self.current.is_none() && !self.resting { self.begin() } else { Vec::new() }
    }

    /// Applies what was chosen since the last round. Called between rounds alone, so that no average mixes two policies.
    fn apply_choices(&mut self) {
        let defence = self.next_defence.take().unwrap_or(self.defence);
        let model = self.next_model.take();
        if defence != self.defence || model.is_some() {
            self.policy += 1;
            self.defence = defence;
        }
        if let Some(model) = model {
            self.number = 0;
            self.optimiser = Optimiser::new(self.optimiser.kind());
            self.model = Arc::new(model);
        }
    }

    /// Freezes the cohort and begins a round, if one is wanted and somebody is free.
    fn begin(&mut self) -> Vec<Effect> {
        if self.run == Run::Paused || self.current.is_some() || self.resting {
            return Vec::new();
        }
        let free = |state: &MemberState| *state != MemberState::Late;
        if !self.members.values().any(free) {
            return Vec::new();
        }
        self.apply_choices();
        self.number += 1;
        if self.run == Run::Once {
            self.run = Run::Paused;
        }
        let mut cohort = Vec::new();
        for (client, state) in &mut self.members {
            if free(state) {
                *state = MemberState::Training;
                cohort.push(*client);
            }
        }
        let model = Arc::clone(&self.model);
        let aggregate = Aggregate::new(model.weights.len());
        self.current = Some(Round { model: Arc::clone(&model), aggregate, losses: 0.0 });
        let (round, policy) = (self.number, self.policy);
        vec![Effect::Plan { cohort, round, policy, defence: self.defence, model }, Effect::Deadline { round, policy }]
    }

    fn update(&mut self, client: ClientId, round: u32, policy: u32, loss: f32, update: ProtectedUpdate) -> Vec<Effect> {
        let was = self.member(client);
        let outcome = self.accept(client, round, policy, loss, &update);
        let answered_this_round = round == self.number && policy == self.policy;
        let mut effects = match (outcome, &self.current) {
            (Ok(()), Some(current)) => {
                let mut effects = vec![Effect::Accepted { client, round }];
                if self.target == Some(client) {
                    let model = Arc::clone(&current.model);
                    effects.push(Effect::Attack { client, round, defence: self.defence, model, update });
                }
                effects
            }
            (Err(refusal), _) => {
                // A client whose answer was refused is done with its round: nobody waits for it any longer.
                let free = match was {
                    Some(MemberState::Late) => true,
                    Some(MemberState::Training) => answered_this_round,
                    _ => false,
                };
                if free {
                    self.members.insert(client, MemberState::Joined);
                }
                vec![Effect::Refused { client, refusal }]
            }
            (Ok(()), None) => Vec::new(),
        };
        effects.extend(self.after_answer());
        effects
    }

    fn accept(
        &mut self,
        client: ClientId,
        round: u32,
        policy: u32,
        loss: f32,
        update: &ProtectedUpdate,
    ) -> Result<(), Refusal> {
        let Some(current) = &mut self.current else {
            return Err(Refusal::Stale { update: round, current: None });
        };
        if policy != self.policy {
            return Err(Refusal::Policy { update: policy, current: self.policy });
        }
        if round != self.number {
            return Err(Refusal::Stale { update: round, current: Some(self.number) });
        }
        match self.members.get(&client) {
            Some(MemberState::Training) => {}
            Some(MemberState::Sent) => return Err(Refusal::Twice { round }),
            _ => return Err(Refusal::NotInCohort),
        }
        match (update, self.defence) {
            (ProtectedUpdate::Dense(_), Defence::None) => {}
            (ProtectedUpdate::Dense(values), Defence::FixedPosition) => {
                let layout = ParamLayout::vit(&current.model.spec.config());
                let position = layout.slice(values, "pos_embed").unwrap_or_default();
                if position.iter().any(|&value| value != 0.0) {
                    let sent = "one with a position embedding".to_owned();
                    return Err(Refusal::OtherDefence { sent, defence: self.defence });
                }
            }
            (ProtectedUpdate::Masked { rate, .. }, Defence::RandomBinary { rate: wanted }) if *rate == wanted => {}
            (ProtectedUpdate::Masked { rate, .. }, defence) => {
                return Err(Refusal::OtherDefence { sent: format!("masked at rate {rate}"), defence });
            }
            (ProtectedUpdate::Dense(_), defence) => {
                return Err(Refusal::OtherDefence { sent: "not masked".to_owned(), defence });
            }
        }
        if !loss.is_finite() {
            return Err(Refusal::Loss(loss.to_string()));
        }
        if let ProtectedUpdate::Masked { seed, .. } = update
            && self.seeds.contains(seed)
        {
            return Err(Refusal::SeedReused);
        }
        current.aggregate.add(update)?;
        current.losses += f64::from(loss);
        if let ProtectedUpdate::Masked { seed, .. } = update {
            self.seeds.insert(*seed);
        }
        self.members.insert(client, MemberState::Sent);
        Ok(())
    }

    /// Somebody answered: the round may be complete, or, with nobody free before, a new one may begin.
    fn after_answer(&mut self) -> Vec<Effect> {
        if self.current.is_some() { self.close_if_complete() } else { self.begin() }
    }

    fn close_if_complete(&mut self) -> Vec<Effect> {
        let complete = self.current.is_some() && !self.members.values().any(|state| *state == MemberState::Training);
        if complete { self.close() } else { Vec::new() }
    }

    /// Those still training are late, the others free again.
    fn leave_behind(&mut self) -> Vec<ClientId> {
        let mut late = Vec::new();
        for (client, state) in &mut self.members {
            *state = match *state {
                MemberState::Training | MemberState::Late => {
                    if *state == MemberState::Training {
                        late.push(*client);
                    }
                    MemberState::Late
                }
                MemberState::Sent | MemberState::Joined => MemberState::Joined,
            };
        }
        late
    }

    fn close(&mut self) -> Vec<Effect> {
        let Some(Round { model, aggregate, losses }) = self.current.take() else { return Vec::new() };
        let late = self.leave_behind();
        let updates = aggregate.updates();
        if updates > 0 {
            // Attacks may still hold the old weights, so the new ones are a copy where they do.
            drop(model);
            self.optimiser.step(&mut Arc::make_mut(&mut self.model).weights, &aggregate);
        }
        let loss = (updates > 0).then(|| (losses / f64::from(updates)) as f32);
        let summary = RoundSummary { round: self.number, defence: self.defence, updates, loss, late };
        self.resting = true;
        vec![Effect::Closed(summary), Effect::Rest]
    }
}

#[cfg(test)]
mod tests;
