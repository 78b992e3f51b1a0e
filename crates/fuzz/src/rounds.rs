//! Fuzzes messages of several clients to the state machine of the rounds.

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use unmask_core::{
    Aggregation, Architecture, ClientId, ClientState, KeyCheck, MaskSeed, ModelState, RoundSettings, SecureSumSettings,
    Threshold, UpdateForm, VitPreset,
};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_federation::{
    Effect, Event, GlobalModel, Quorum, ReceivedKeys, ReceivedUpdate, Room, RoomPhase, RoundSummary, Void,
};
use unmask_secagg::{LEAST_PEOPLE, Terms, hash_of_weights};

use crate::{
    sums::{Lie, Sums},
    values::{Float, Values, steps},
};

/// More steps would make an input slower but not different.
const MAX_STEPS: usize = 40;
const CLIENTS: u8 = 5;
/// Nobody sits at this one.
const ROBOT: ClientId = ClientId(CLIENTS as u32 - 1);
/// No input can address these clients.
const HONEST: [ClientId; 3] =
    [ClientId(CLIENTS as u32 + 1), ClientId(CLIENTS as u32 + 2), ClientId(CLIENTS as u32 + 3)];

const DEFENCES: [&str; 6] =
    ["none", "fixed-position", "random-binary:0.5", "frozen-binary:0.5", "encrypted", "encrypted:keyed"];
const RULES: [&str; 2] = ["fedsgd", "fedavg:epochs=2,rate=0.1"];
const OPTIMISERS: [&str; 2] = ["sgd:0.1", "adam:0.001"];
const SUM: Aggregation =
    Aggregation::SecureSum(SecureSumSettings { threshold: Threshold::TWO_THIRDS, clip: Some(1.0) });
const AGGREGATIONS: [Aggregation; 6] = [
    Aggregation::Mean,
    Aggregation::Clipped,
    Aggregation::Aligned,
    Aggregation::TrimmedMean { share: 0.2 },
    Aggregation::Median,
    SUM,
];

#[derive(Debug, Arbitrary)]
enum Step {
    Join(u8),
    Leave(u8),
    /// The tab goes to the background, or comes back.
    Hide(u8, bool),
    Return(u8),
    Forget(u8),
    Update(Update),
    /// An honest answer, so that inputs reach later states.
    Answer(u8),
    Unable {
        client: u8,
        is_current: bool,
        is_locked: bool,
    },
    /// Another answer than a secure sum asks for.
    Lie(u8, Lie),
    /// It came from a browser that is left out.
    LeaveOut(u8),
    /// A late answer that was quick.
    Quick(u8),
    Waited,
    Sealed {
        client: u8,
        is_asked: bool,
        values: Option<Values>,
    },
    Given {
        client: u8,
        pictures: u32,
    },
    Readmit(u8),
    Deadline {
        is_current: bool,
    },
    Begin,
    Start,
    Once,
    Pause,
    Salt,
    Settings(Settings),
    Model {
        has_april_block: bool,
    },
    Reset,
    /// The relay sends other weights than the model's, or stops that.
    Doctored(bool),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Settings {
    defence: u8,
    rule: u8,
    optimiser: u8,
    aggregation: u8,
    batch: u8,
}

#[derive(Debug, Arbitrary)]
struct Update {
    client: u8,
    round: Number,
    policy: Number,
    loss: Float,
    samples: u32,
    form: Form,
    values: Values,
    statistics: u8,
}

#[derive(Debug, Arbitrary)]
enum Number {
    Current,
    Last,
    Other(u32),
}

#[derive(Debug, Arbitrary)]
enum Form {
    AsAsked { seed: u8 },
    Dense,
    Masked { seed: u8, rate: u8 },
    Encrypted { check: u8 },
}

/// Weights stay finite and round numbers stay in order under any input, and honest clients that join afterwards
/// complete a round, whose updates they add up secretly if the first byte's third bit is set. A step needs two updates
/// if that byte is odd, a parameter two that keep it if the second bit is set, and one otherwise.
pub(crate) fn run(data: &[u8]) {
    let is_set = |bit: u8| u32::from(data.first().is_some_and(|byte| byte >> bit & 1 == 1));
    let mut world = World::new(1 + is_set(0), 1 + is_set(1));
    for step in steps(data, MAX_STEPS) {
        if let Some(event) = world.event(step) {
            world.take(event);
        }
    }
    world.goes_on(is_set(2) == 1);
}

struct World {
    room: Room,
    /// With fewer updates no step is taken.
    least: u32,
    /// The client that the room asked to encrypt the model.
    asked: Option<ClientId>,
    /// Whether the room asked for a salt and has not received it.
    awaits_salt: bool,
    /// The round and the policy of the last quorum, and whether clients were still awaited.
    quorum: Option<(u32, u32, bool)>,
    /// Updates that the room accepted since it last asked for some.
    accepted: u32,
    seeds: u32,
    /// The clients of the last round's secure sum, if it had one.
    sums: Option<Sums>,
}

impl World {
    fn new(updates: u32, kept: u32) -> Self {
        let room = Room::new(model(false), settings(None));
        let room = room.with_quorum(Quorum { updates: Some(updates), kept, ..Quorum::default() });
        Self {
            room,
            least: updates.max(kept),
            asked: None,
            awaits_salt: false,
            quorum: None,
            accepted: 0,
            seeds: 0,
            sums: None,
        }
    }

    fn event(&mut self, step: Step) -> Option<Event> {
        let (round, policy) = (self.current_round(), self.room.policy());
        Some(match step {
            Step::Join(client) => {
                if id(client) == ROBOT {
                    self.take(Event::Robot(ROBOT));
                }
                Event::Joined(id(client))
            }
            Step::Leave(client) => Event::Left(id(client)),
            Step::Hide(client, is_hidden) => Event::Visibility { client: id(client), is_hidden },
            Step::Return(client) => Event::Return(id(client)),
            // Only a client that has left can be forgotten.
            Step::Forget(client) if self.room.member(id(client)) != ClientState::Gone => return None,
            Step::Forget(client) => Event::Forgotten(id(client)),
            Step::Update(update) => Event::Update(self.received(&update)),
            Step::Answer(client) => self.honest(id(client)),
            Step::Unable { client, is_current, is_locked } => {
                let round = if is_current { round } else { round + 1 };
                Event::Unable { client: id(client), round, policy, is_locked }
            }
            Step::Lie(client, lie) => return self.answer_to_sum(id(client), Some(&lie)),
            Step::LeaveOut(client) => Event::LeaveOut(id(client)),
            Step::Quick(client) => Event::Quick(id(client)),
            Step::Waited => Event::Waited { round, policy },
            Step::Sealed { client, is_asked, values } => {
                let mut weights = self.room.model().state.weights.clone();
                match values {
                    Some(values) => weights = values.fill(weights.len()),
                    None => self.seal(&mut weights),
                }
                let client = self.asked.filter(|_| is_asked).unwrap_or(id(client));
                Event::Sealed { client, policy, check: KeyCheck([7; 16]), weights }
            }
            Step::Given { client, pictures } => Event::Given { client: id(client), pictures },
            Step::Readmit(client) => Event::Readmit(id(client)),
            Step::Deadline { is_current } => {
                Event::Deadline { round: if is_current { round } else { round.wrapping_sub(1) }, policy }
            }
            Step::Begin => Event::Begin,
            Step::Start => Event::Start,
            Step::Once => Event::OneRound,
            Step::Pause => Event::Pause,
            Step::Salt => Event::Salt([5; 16]),
            Step::Settings(chosen) => Event::SetSettings(settings(Some(chosen))),
            Step::Model { has_april_block } => Event::SetModel(model(has_april_block)),
            Step::Reset => Event::Reset(model(false)),
            Step::Doctored(is_doctored) => {
                let weights = &self.room.model().state.weights;
                Event::SendDoctored(is_doctored.then(|| weights.iter().map(|weight| weight * 0.5).collect()))
            }
        })
    }

    /// The round that clients are asked for; 0 is the encryption of the model.
    fn current_round(&self) -> u32 {
        if self.room.phase() == RoomPhase::Sealing { 0 } else { self.room.round() }
    }

    fn received(&mut self, update: &Update) -> ReceivedUpdate {
        let number = |number: &Number, current: u32| match number {
            Number::Current => current,
            Number::Last => current.wrapping_sub(1),
            Number::Other(other) => *other,
        };
        let values = update.values.fill(self.room.model().state.weights.len());
        let (loss, samples) = (update.loss.value(), update.samples);
        let protected = match update.form {
            Form::AsAsked { seed } => self.protect(values, u32::from(seed)),
            Form::Dense => ProtectedUpdate::dense(values),
            Form::Masked { seed, rate } => {
                let rates = format!("{}", f32::from(rate) / 256.0).parse().expect("a rate below 1");
                ProtectedUpdate { form: UpdateForm::Masked { seed: MaskSeed([seed; 32]), rates }, values }
            }
            Form::Encrypted { check } => {
                ProtectedUpdate { form: UpdateForm::Encrypted { check: KeyCheck([check; 16]) }, values }
            }
        };
        ReceivedUpdate {
            client: id(update.client),
            round: number(&update.round, self.room.round()),
            policy: number(&update.policy, self.room.policy()),
            loss,
            samples,
            update: protected,
            statistics: vec![loss; usize::from(update.statistics % 3)],
        }
    }

    /// What a client of the running secure sum sends, if there is one.
    fn answer_to_sum(&mut self, client: ClientId, lie: Option<&Lie>) -> Option<Event> {
        if self.room.phase() != RoomPhase::Training {
            return None;
        }
        let sums = self.sums.as_mut()?;
        let Terms { round, policy, .. } = sums.terms();
        if self.room.member(client) == ClientState::Training {
            return Some(Event::SumKeys(sums.keys(client, client == ROBOT, lie)));
        }
        sums.message(client, lie, id).map(|message| Event::Sum { client, round, policy, message })
    }

    /// A valid update or an encrypted model, depending on what the room waits for.
    fn honest(&mut self, client: ClientId) -> Event {
        if let Some(event) = self.answer_to_sum(client, None) {
            return event;
        }
        let (round, policy) = (self.room.round(), self.room.policy());
        let mut weights = self.room.model().state.weights.clone();
        if self.room.phase() == RoomPhase::Sealing {
            self.seal(&mut weights);
            return Event::Sealed { client, policy, check: KeyCheck([7; 16]), weights };
        }
        let values = if self.room.settings().rule().is_fedavg() { weights } else { vec![0.01; weights.len()] };
        // Higher than the seeds that an input can choose.
        self.seeds += 1;
        let update = self.protect(values, 0x0100_0000 + self.seeds);
        let statistics = Vec::new();
        Event::Update(ReceivedUpdate { client, round, policy, loss: 2.0, samples: 1, update, statistics })
    }

    /// Values protected under the room's defence; unprotected if that fails.
    fn protect(&self, values: Vec<f32>, seed: u32) -> ProtectedUpdate {
        let settings = self.room.settings();
        if settings.encryption().is_some() {
            let check = self.room.seal().map_or(KeyCheck([7; 16]), |seal| seal.check);
            return ProtectedUpdate { form: UpdateForm::Encrypted { check }, values };
        }
        let GlobalModel { architecture, state } = self.room.model().as_ref();
        if values.len() != state.weights.len() {
            return ProtectedUpdate::dense(values);
        }
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&seed.to_le_bytes());
        let reference = settings.rule().is_fedavg().then_some(state.weights.as_slice());
        let keys = KeyMaterial { seed: MaskSeed(bytes), cipher: None };
        let plain = PlainUpdate { values: values.clone(), reference };
        settings
            .defence()
            .protect(&architecture.layout(), plain, keys)
            .unwrap_or_else(|_| ProtectedUpdate::dense(values))
    }

    /// Another patch embedding, which is all that the room can see of an encryption.
    fn seal(&self, weights: &mut [f32]) {
        let layout = self.room.model().architecture.layout();
        let patch = layout.iter().find(|param| param.name == "patch_embed.proj.weight").expect("a ViT has one");
        for weight in &mut weights[patch.range.clone()] {
            *weight += 1.0;
        }
    }

    fn take(&mut self, event: Event) -> Vec<Effect> {
        let before = (self.room.round(), Arc::clone(self.room.model()));
        // The client that caused this event may be asked again.
        let asker = asker(&event);
        let left_out: Vec<ClientId> =
            clients().filter(|client| asker != Some(*client) && self.is_left_out(*client)).collect();
        if matches!(event, Event::Salt(_)) {
            self.awaits_salt = false;
        }
        let effects = self.room.handle(event);
        for effect in &effects {
            match effect {
                Effect::Accepted { .. } => self.accepted += 1,
                Effect::Plan { cohort, round, policy, settings, model, least, .. } => {
                    self.accepted = 0;
                    self.sums = settings.aggregation().secure_sum().map(|sum| {
                        let weights = &model.state.weights;
                        let terms = Terms {
                            nonce: [9; 16],
                            round: *round,
                            policy: *policy,
                            weights: hash_of_weights(weights),
                            values: weights.len() as u32,
                            threshold: sum.threshold,
                            people: (*least).max(LEAST_PEOPLE),
                        };
                        Sums::new(terms, *settings, model)
                    });
                    assert!(!cohort.is_empty(), "a round without clients");
                    assert!(*round == before.0 + 1 || *round == 1, "round {round} after round {}", before.0);
                    for client in cohort {
                        assert_eq!(self.room.member(*client), ClientState::Training);
                        assert!(!left_out.contains(client), "asked although it sits out or is left out");
                    }
                }
                Effect::NeedSalt => self.awaits_salt = true,
                Effect::Seal { client, .. } => {
                    assert!(!left_out.contains(client), "asked although it sits out or is left out");
                    self.asked = Some(*client);
                }
                Effect::Quorum { round, policy, awaited } => {
                    assert_eq!((self.room.phase(), self.room.round()), (RoomPhase::Training, *round));
                    let before = self.quorum.filter(|(number, under, _)| (number, under) == (round, policy));
                    let is_news = before.is_none_or(|(.., was_awaited)| was_awaited && !awaited);
                    assert!(is_news, "it is reported when enough have answered, and when all have");
                    self.quorum = Some((*round, *policy, *awaited));
                }
                Effect::SittingOut(client) => {
                    assert_eq!(self.room.member(*client), ClientState::SittingOut);
                    assert!(!self.room.is_hidden(*client), "away, not silent");
                    assert!(!left_out.contains(client), "it is told once");
                }
                Effect::Sum { round, policy, next } => {
                    assert_eq!((*round, *policy), (self.room.round(), self.room.policy()));
                    self.sums.as_mut().expect("a round with a sum").take(next.clone());
                }
                Effect::Summed { mean, clients, .. } => {
                    let people = clients.iter().filter(|client| **client != ROBOT).count();
                    self.sums.as_ref().expect("a round with a sum").check_mean(mean, people);
                }
                Effect::Closed(summary) => {
                    if summary.void.is_some() {
                        assert!(before.1.state == self.room.model().state, "a void round moved the model");
                    }
                    assert!(summary.loss.is_none_or(f32::is_finite), "loss {:?}", summary.loss);
                    self.check_counts(summary);
                    let is_enough = summary.updates == 0 || summary.updates >= self.least;
                    assert!(is_enough || summary.void.is_some(), "a step on {} updates", summary.updates);
                    for client in &summary.late {
                        let state = self.room.member(*client);
                        assert!(matches!(state, ClientState::Late | ClientState::SittingOut), "{state:?}");
                        assert!(!self.room.is_hidden(*client), "away, not late");
                    }
                }
                _ => {}
            }
        }
        if effects.iter().any(|effect| matches!(effect, Effect::Plan { .. }))
            && let Some(sums) = &self.sums
        {
            self.room.handle(Event::SumTerms(sums.terms()));
        }
        if !Arc::ptr_eq(&before.1, self.room.model()) {
            let GlobalModel { architecture, state } = self.room.model().as_ref();
            assert!(state.weights.iter().all(|weight| weight.is_finite()), "a weight is not finite");
            assert_eq!(state.weights.len(), architecture.layout().len());
        }
        self.check_members();
        effects
    }

    /// Every received update is averaged, left out for its direction, or left out for its norm. `clipped` counts the
    /// last kind and also the updates that were scaled down.
    fn check_counts(&self, summary: &RoundSummary) {
        let RoundSummary { updates, clipped, opposed, .. } = *summary;
        let came = self.accepted;
        if summary.settings.aggregation() == SUM {
            // Nobody sees the size of an update.
            assert!(updates <= came && (clipped, opposed) == (0, 0), "{summary:?} of {came}");
            return;
        }
        assert!(came as usize <= clients().count(), "{came} updates of fewer clients");
        assert!(updates + opposed <= came && clipped + opposed <= came, "{summary:?} of {came}");
        assert!(updates + opposed + clipped >= came, "some updates are not accounted for: {summary:?} of {came}");
    }

    fn is_left_out(&self, client: ClientId) -> bool {
        matches!(self.room.member(client), ClientState::SittingOut | ClientState::Excluded)
    }

    fn check_members(&self) {
        let at_work = clients().filter(|client| self.room.member(*client) == ClientState::Training).count();
        match self.room.phase() {
            RoomPhase::Training => {
                let is_summing = clients().any(|client| self.room.is_in_sum(client));
                assert!(at_work > 0 || is_summing, "nobody to wait for");
            }
            RoomPhase::Sealing => assert_eq!(at_work, 1, "one client encrypts"),
            _ => assert_eq!(at_work, 0, "at work outside a round"),
        }
        if self.room.phase() == RoomPhase::Waiting && !self.awaits_salt {
            let is_free = |client| matches!(self.room.member(client), ClientState::Joined | ClientState::Sent);
            assert!(!clients().any(is_free), "a stall: a client could be asked");
        }
    }

    /// The other clients leave, the teacher resets, and as many honest clients train as a step needs.
    fn goes_on(&mut self, adds_up: bool) {
        let needed = if adds_up { self.least.max(LEAST_PEOPLE) } else { self.least };
        let honest = &HONEST[..needed as usize];
        for client in (0..CLIENTS).map(id) {
            self.take(Event::Left(client));
        }
        let aggregation = if adds_up { SUM } else { Aggregation::Clipped };
        let settings = settings(None).with_aggregation(aggregation).expect("without a defence");
        let joined = honest.iter().map(|client| Event::Joined(*client));
        let reset = [Event::SendDoctored(None), Event::SetSettings(settings), Event::Reset(model(false))];
        for event in reset.into_iter().chain(joined).chain([Event::Start]) {
            self.take(event);
        }
        if self.room.phase() != RoomPhase::Training {
            // The pause after the last round was not over yet.
            self.take(Event::Begin);
        }
        assert_eq!(self.room.phase(), RoomPhase::Training, "no round begins");
        let mut closed = None;
        for honest in honest {
            let answer = self.honest(*honest);
            let effects = self.take(answer);
            let is_taken =
                effects.iter().any(|effect| matches!(effect, Effect::Accepted { client, .. } if client == honest));
            assert!(is_taken, "an honest update was not taken: {effects:?}");
            closed = closed.or(end_of(&effects));
        }
        while let Some(client) = self.sums.as_ref().and_then(Sums::asked) {
            let answer = self.answer_to_sum(client, None).expect("it was asked");
            let effects = self.take(answer);
            closed = closed.or(end_of(&effects));
        }
        assert_eq!(closed, Some((needed, None)), "the round did not end with a step");
    }
}

/// The number of updates of the round that these effects close, and why it took no step.
fn end_of(effects: &[Effect]) -> Option<(u32, Option<Void>)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Closed(summary) => Some((summary.updates, summary.void)),
        _ => None,
    })
}

/// All clients that can exist.
fn clients() -> impl Iterator<Item = ClientId> {
    (0..CLIENTS).map(id).chain(HONEST)
}

/// The client that this event comes from or that it takes back.
fn asker(event: &Event) -> Option<ClientId> {
    match event {
        Event::Joined(client) | Event::Return(client) | Event::Readmit(client) => Some(*client),
        Event::Update(ReceivedUpdate { client, .. }) | Event::SumKeys(ReceivedKeys { client, .. }) => Some(*client),
        Event::Unable { client, .. } | Event::Sealed { client, .. } => Some(*client),
        _ => None,
    }
}

fn id(client: u8) -> ClientId {
    ClientId(u32::from(client % CLIENTS))
}

/// The smallest network, always the same: drawing its weights takes longer than most inputs.
fn model(has_april_block: bool) -> GlobalModel {
    static STATES: [OnceLock<ModelState>; 2] = [const { OnceLock::new() }; 2];
    let architecture = Architecture::from(VitPreset::Pico).with_april_block(has_april_block);
    let state = STATES[usize::from(has_april_block)].get_or_init(|| architecture.initial(1)).clone();
    GlobalModel { architecture, state }
}

/// The chosen settings, or those of a new room if the choice is missing or invalid.
fn settings(chosen: Option<Settings>) -> RoundSettings {
    let at = |list: &[&'static str], index: u8| list[usize::from(index) % list.len()];
    let Settings { defence, rule, optimiser, aggregation, batch } =
        chosen.unwrap_or(Settings { defence: 0, rule: 0, optimiser: 0, aggregation: 1, batch: 1 });
    let defence = at(&DEFENCES, defence).parse().expect("a defence");
    let rule = at(&RULES, rule).parse().expect("a rule");
    let optimiser = at(&OPTIMISERS, optimiser).parse().expect("an optimiser");
    let aggregation = AGGREGATIONS[usize::from(aggregation) % AGGREGATIONS.len()];
    match RoundSettings::new(defence, rule, batch.into(), optimiser) {
        Ok(chosen) => chosen.with_aggregation(aggregation).unwrap_or_else(|_| settings(None)),
        Err(_) => settings(None),
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::EncryptionStart;

    use super::*;

    /// If the choices were invalid settings, the fuzzer would only try the default.
    #[test]
    fn every_defence_can_be_chosen() {
        let chosen = |defence, rule| settings(Some(Settings { defence, rule, optimiser: 0, aggregation: 0, batch: 2 }));
        let mut seen: Vec<String> = (0..6).map(|defence| chosen(defence, 0).defence().to_string()).collect();
        seen.dedup();
        assert_eq!(seen.len(), DEFENCES.len(), "{seen:?}");
        assert!(chosen(0, 1).rule().is_fedavg());
        assert_eq!(chosen(5, 0).encryption(), Some(EncryptionStart::Keyed));
    }
}
