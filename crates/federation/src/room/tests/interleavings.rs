//! Random events in random order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use unmask_core::{EncryptionStart, KeyCheck};

use super::*;

#[derive(Debug, Clone)]
enum Action {
    Join(u32),
    Leave(u32),
    /// Answers the client's plan this many before its last, perhaps with values that are not finite.
    Send(u32, usize, bool),
    /// Encrypts the model, or sends back something else.
    Seal(u32, bool),
    Unable(u32),
    /// Goes to the background or comes back.
    Hide(u32, bool),
    Return(u32),
    Consent(u32, bool),
    AskOnlyConsenting(bool),
    Forget(u32),
    Deadline,
    Begin,
    Start,
    Once,
    Pause,
    Set(usize),
    NewModel,
    Reset,
    /// Everybody leaves; from now on a restored room gets the same events.
    Restart,
}

const SETTINGS: [(&str, &str); 8] = [
    ("none", "fedsgd"),
    ("none", "fedavg:epochs=2,rate=0.1"),
    ("fixed-position", "fedavg"),
    ("random-binary:0.5", "fedsgd"),
    ("random-binary:pos=0.9,0.2", "fedavg"),
    ("frozen-binary:0.5", "fedsgd"),
    ("encrypted", "fedsgd"),
    ("encrypted:keyed", "fedavg"),
];

fn action() -> impl Strategy<Value = Action> {
    let client = 0u32..4;
    prop_oneof![
        2 => client.clone().prop_map(Action::Join),
        1 => client.clone().prop_map(Action::Leave),
        4 => (client.clone(), 0usize..3, any::<bool>()).prop_map(|(c, back, bad)| Action::Send(c, back, bad)),
        8 => client.clone().prop_map(|c| Action::Send(c, 0, false)),
        6 => (client.clone(), prop::bool::weighted(0.8)).prop_map(|(c, good)| Action::Seal(c, good)),
        1 => client.clone().prop_map(Action::Unable),
        2 => (client.clone(), any::<bool>()).prop_map(|(c, is_hidden)| Action::Hide(c, is_hidden)),
        1 => client.clone().prop_map(Action::Return),
        1 => client.clone().prop_map(Action::Forget),
        2 => Just(Action::Deadline),
        6 => Just(Action::Begin),
        2 => (client, any::<bool>()).prop_map(|(c, consents)| Action::Consent(c, consents)),
        1 => prop::bool::weighted(0.3).prop_map(Action::AskOnlyConsenting),
        3 => Just(Action::Start),
        1 => Just(Action::Once),
        1 => Just(Action::Pause),
        3 => (0..SETTINGS.len()).prop_map(Action::Set),
        1 => Just(Action::NewModel),
        1 => Just(Action::Reset),
        2 => Just(Action::Restart),
    ]
}

/// A plan as the client received it.
#[derive(Debug, Clone)]
struct Plan {
    round: u32,
    policy: u32,
    settings: RoundSettings,
    encryption: Option<([u8; 16], KeyCheck)>,
    model: Arc<GlobalModel>,
}

/// Marks encrypted weights: no plain model has such a first patch weight.
const MARK: f32 = 1000.0;

fn is_marked(room: &Room, weights: &[f32]) -> bool {
    room.learner.layout().slice(weights, "patch_embed.proj.weight").unwrap()[0] > MARK / 2.0
}

struct World {
    room: Room,
    /// The restored room, which must give the same answers.
    twin: Option<Room>,
    /// All plans that each client got.
    plans: BTreeMap<u32, Vec<Plan>>,
    running: Option<Plan>,
    accepted: u32,
    quorum: u32,
    /// The client asked to encrypt the model, and the policy of the request.
    seal: Option<(ClientId, u32)>,
    seeds: u64,
}

impl World {
    fn new() -> Self {
        let room = room("none");
        let plans = BTreeMap::new();
        Self { room, twin: None, plans, running: None, accepted: 0, quorum: 0, seal: None, seeds: 0 }
    }

    /// The events of an action.
    fn events(&mut self, action: Action) -> Vec<Event> {
        let policy = self.room.policy;
        vec![match action {
            Action::Join(c) => Event::Joined(ClientId(c)),
            Action::Leave(c) => Event::Left(ClientId(c)),
            Action::Send(c, back, bad) => {
                let Some(plan) = self.plans.get(&c).and_then(|plans| plans.iter().rev().nth(back)) else {
                    return Vec::new();
                };
                self.seeds += 1;
                let mut seed = [0; 32];
                seed[..8].copy_from_slice(&self.seeds.to_le_bytes());
                let values: Vec<f32> = match plan.settings.rule() {
                    Rule::FedSgd => vec![0.01; plan.model.state.weights.len()],
                    Rule::FedAvg { .. } => plan.model.state.weights.iter().map(|weight| weight + 0.01).collect(),
                };
                let values = if bad { vec![f32::NAN; values.len()] } else { values };
                let update = match plan.encryption {
                    Some((_, check)) => ProtectedUpdate { form: UpdateForm::Encrypted { check }, values },
                    None => {
                        let layout = plan.model.architecture.layout();
                        let reference = plan.model.reference(plan.settings.rule());
                        let keys = KeyMaterial { seed: MaskSeed(seed), cipher: None };
                        let plain = PlainUpdate { values, reference };
                        plan.settings.defence().protect(&layout, plain, keys).unwrap()
                    }
                };
                let samples = 1 + (self.seeds % 7) as u32;
                Event::Update(ReceivedUpdate {
                    client: ClientId(c),
                    round: plan.round,
                    policy: plan.policy,
                    loss: 1.0,
                    samples,
                    update,
                    statistics: Vec::new(),
                })
            }
            Action::Seal(c, good) => {
                let mut weights = self.room.model().state.weights.clone();
                // A keyed model has no plain model to compare it with.
                if good || self.room.settings().encryption() == Some(EncryptionStart::Keyed) {
                    let patch = self.room.learner.layout().get("patch_embed.proj.weight").unwrap().range.start;
                    weights[patch] = MARK;
                }
                // A client that was asked answers the request; others answer unasked.
                let (client, policy) = match self.seal {
                    Some((client, policy)) if c > 0 => (client, policy),
                    _ => (ClientId(c), policy),
                };
                Event::Sealed { client, policy, check: KeyCheck([7; 16]), weights }
            }
            Action::Unable(c) => {
                let round = if self.room.phase() == RoomPhase::Sealing { 0 } else { self.room.number };
                Event::Unable { client: ClientId(c), round, policy, is_locked: false }
            }
            Action::Hide(c, is_hidden) => Event::Visibility { client: ClientId(c), is_hidden },
            Action::Return(c) => Event::Return(ClientId(c)),
            Action::Forget(c) => Event::Forgotten(ClientId(c)),
            Action::Deadline => {
                let round = if self.room.phase() == RoomPhase::Sealing { 0 } else { self.room.number };
                Event::Deadline { round, policy }
            }
            Action::Consent(c, consents) => Event::Consent { client: ClientId(c), consents },
            Action::AskOnlyConsenting(is_only) => Event::AskOnlyConsenting(is_only),
            Action::Begin => Event::Begin,
            Action::Start => Event::Start,
            Action::Once => Event::OneRound,
            Action::Pause => Event::Pause,
            Action::Set(index) => {
                let (defence, rule) = SETTINGS[index];
                let settings = settings(defence, rule);
                let set = Event::SetSettings(settings);
                // Half of the time, the fresh weights come late or never.
                if self.room.needs_new_model(&settings) && self.seeds.is_multiple_of(2) {
                    return vec![set, Event::SetModel(model(4))];
                }
                set
            }
            Action::NewModel => Event::SetModel(model(2)),
            Action::Reset => Event::Reset(model(3)),
            Action::Restart => return (0..4).map(|c| Event::Left(ClientId(c))).collect(),
        }]
    }

    fn take(&mut self, event: Event) -> Result<(), TestCaseError> {
        let answered = match &event {
            Event::Update(ReceivedUpdate { round, policy, .. }) => Some((*round, *policy)),
            _ => None,
        };
        let is_reset = matches!(event, Event::Reset(_));
        if is_reset {
            self.running = None;
        }
        let is_left_out =
            |client: &ClientId| matches!(self.room.member(*client), ClientState::SittingOut | ClientState::Excluded);
        let asks = match event {
            Event::Update(ReceivedUpdate { client, .. }) | Event::Unable { client, .. } => Some(client),
            Event::Sealed { client, .. } | Event::Joined(client) | Event::Return(client) => Some(client),
            _ => None,
        };
        // A client may be asked right after its own message.
        let was_left_out: Vec<ClientId> =
            (0..4).map(ClientId).filter(|client| is_left_out(client) && asks != Some(*client)).collect();
        let mut more = Vec::new();
        let effects = self.room.handle(event.clone());
        if let Some(twin) = &mut self.twin {
            let answer = twin.handle(event);
            prop_assert_eq!(told(&answer), told(&effects));
            prop_assert!(twin.model() == self.room.model(), "other weights");
            prop_assert_eq!(twin.state(), self.room.state());
        }
        for effect in effects {
            match effect {
                Effect::Plan { cohort, round, policy, settings, encryption, model, .. } => {
                    prop_assert!(!cohort.is_empty());
                    prop_assert!(self.running.is_none(), "two rounds at the same time");
                    prop_assert_eq!(encryption.is_some(), settings.encryption().is_some());
                    prop_assert_eq!(encryption.is_some(), is_marked(&self.room, &model.state.weights));
                    let plan = Plan { round, policy, settings, encryption, model };
                    for old in self.plans.values().flatten().filter(|old| old.policy == policy) {
                        prop_assert_eq!(old.settings, settings, "one policy number for two policies");
                    }
                    for client in cohort {
                        prop_assert_eq!(self.room.member(client), ClientState::Training);
                        prop_assert!(!was_left_out.contains(&client), "asked although it sits out or is left out");
                        self.plans.entry(client.0).or_default().push(plan.clone());
                    }
                    self.running = Some(plan);
                    (self.accepted, self.quorum) = (0, 0);
                }
                Effect::NeedSalt => more.push(Event::Salt([5; 16])),
                Effect::Seal { client, policy, salt, model, .. } => {
                    prop_assert_eq!(salt, [5; 16]);
                    let start = self.room.settings().encryption().unwrap();
                    prop_assert_eq!(model.is_some(), start == EncryptionStart::Plain);
                    self.seal = Some((client, policy));
                }
                Effect::Accepted { round, .. } => {
                    let running = self.running.as_ref().unwrap();
                    prop_assert_eq!(Some((running.round, running.policy)), answered, "two policies in one average");
                    prop_assert_eq!(round, running.round);
                    prop_assert_eq!(running.settings, self.room.settings());
                    self.accepted += 1;
                }
                Effect::Closed(summary) => {
                    let running = self.running.take().unwrap();
                    prop_assert_eq!(summary.settings, running.settings);
                    prop_assert_eq!(summary.round, running.round);
                    prop_assert_eq!(summary.updates, self.accepted);
                    for client in summary.late {
                        let state = self.room.member(client);
                        prop_assert!(matches!(state, ClientState::Late | ClientState::SittingOut), "{:?}", state);
                        prop_assert!(!self.room.is_hidden(client), "away, not late");
                    }
                }
                Effect::Quorum { round, awaited, .. } => {
                    prop_assert_eq!(Some(round), self.running.as_ref().map(|plan| plan.round));
                    // Twice at most: when enough have answered, and when all that count have.
                    prop_assert!(self.accepted > 0 && (self.quorum == 0 || self.quorum == 1 && !awaited));
                    self.quorum += 1;
                }
                Effect::SittingOut(client) => {
                    prop_assert_eq!(self.room.member(client), ClientState::SittingOut);
                    prop_assert!(!self.room.is_hidden(client), "away, not silent");
                    prop_assert!(!was_left_out.contains(&client), "it is reported only once");
                }
                _ => {}
            }
        }
        for event in more {
            self.take(event)?;
        }
        Ok(())
    }

    /// Replaces the twin with a newly restored room.
    fn restart(&mut self) {
        let mut twin = Room::restore(self.room.saved()).unwrap();
        if let Some(model) = &self.room.choices.model {
            // Weights for the next model are not saved; the caller makes new ones.
            twin.handle(Event::SetModel(model.clone()));
        }
        // The caller also says again whom rounds ask.
        twin.handle(Event::AskOnlyConsenting(self.room.asked == Asked::Consenting));
        self.twin = Some(twin);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let room = &self.room;
        prop_assert!(room.model().state.weights.iter().all(|weight| weight.is_finite()));
        prop_assert_eq!(room.seal().is_some(), is_marked(room, &room.model().state.weights));
        prop_assert_eq!(room.learner.layout().len(), room.model().state.weights.len());
        let (counted, others) = room.members.training();
        let at_work = counted + others;
        prop_assert!(room.members.known() <= 4);
        match room.phase() {
            RoomPhase::Training => prop_assert!(at_work > 0, "nobody to wait for"),
            RoomPhase::Sealing => prop_assert_eq!(at_work, 1),
            _ => prop_assert_eq!(at_work, 0),
        }
        if room.phase() == RoomPhase::Waiting {
            prop_assert_eq!(room.members.askable(room.asked).next(), None, "a stall: somebody could be asked");
        }
        Ok(())
    }
}

/// The effects to compare, without the values of spent updates.
fn told(effects: &[Effect]) -> Vec<String> {
    let is_news = |effect: &&Effect| !matches!(effect, Effect::Spent(_));
    effects.iter().filter(is_news).map(|effect| format!("{effect:?}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// For any events in any order: an update is averaged only in its own round and policy, encrypted and plain weights
    /// are never mixed up, weights stay finite, refused updates never count, a waiting room has a client to wait for,
    /// and a client that sits out is not asked. A room restored between rounds behaves the same.
    #[test]
    fn no_average_mixes_two_policies(actions in proptest::collection::vec(action(), 0..80)) {
        let mut world = World::new();
        for action in actions {
            let is_restart = matches!(action, Action::Restart);
            for event in world.events(action) {
                world.take(event)?;
                world.check()?;
            }
            if is_restart {
                world.restart();
            }
        }
    }
}
