//! An honest room whose clients are careful: the federation's state machine, and clients that hear its plans as frames.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::{Rng, RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use unmask_client::{Action, Caution, Client, PrivatePicture, RoundPlan};
use unmask_core::{Aggregation, Architecture, ClientId, Defence, OptimiserKind, RoundSettings, Rule};
use unmask_data::Picture;
use unmask_defence::ProtectedUpdate;
use unmask_federation::{Effect, Event, GlobalModel, ReceivedUpdate, Room};
use unmask_model::{block_on, device::OpenDevice};
use unmask_wire::{Assembler, ClientMessage, EncryptionPlan, PlanHeader, RelayMessage, ServerPlan, frames};

/// Clients of the room. Some rounds lack one or two of them.
const CLIENTS: u32 = 4;
/// Pictures of each client.
const PICTURES: u32 = 6;
const CLASSES: usize = 10;

const MODELS: [&str; 6] = [
    "vit_pico_patch4_16",
    "vit_pico_patch4_16",
    "vit_pico_patch4_16",
    "vit_patch4_dim24_depth1_heads2_16",
    "lenet_width4_16",
    "resnet_nano",
];
const RULES: [&str; 6] = [
    "fedsgd",
    "fedsgd",
    "fedsgd",
    "fedavg:epochs=1,rate=0.1",
    "fedavg:epochs=3,rate=0.02",
    "fedavg:epochs=2,rate=0.05",
];
/// From a rate of 0.5 on, some of these rooms diverge under SGD, and then look doctored.
const OPTIMISERS: [&str; 6] = ["sgd:0.02", "sgd:0.1", "sgd:0.2", "adam:0.0003", "adam:0.001", "adam:0.01"];
const AGGREGATIONS: [&str; 5] = ["mean", "clipped", "aligned", "trimmed-mean:0.25", "median"];
const DEFENCES: [&str; 12] = [
    "none",
    "none",
    "fixed-position",
    "random-binary:0.3",
    "random-binary:0.8",
    "random-binary:0.95",
    "frozen-binary:0.5",
    "gaussian:eps=4,delta=1e-5,clip=0.5",
    "gaussian:eps=1,delta=0.5",
    "gaussian:eps=8,delta=1e-5,clip=1,per=picture",
    "encrypted",
    "encrypted:keyed",
];

/// What was played, and the first doubt that each honest plan raised, with the round's settings.
#[derive(Debug, Default)]
pub struct Played {
    pub rounds: u32,
    /// Plans that clients looked at.
    pub plans: u64,
    /// Those that they could compare with one before.
    pub steps: u32,
    pub alarms: Vec<String>,
    /// Each model, rule, optimiser, aggregation and defence that was in force, with its rounds.
    pub in_force: BTreeMap<String, u32>,
    pub resets: u32,
    /// Why updates were refused.
    pub refusals: Vec<String>,
}

struct Class {
    room: Room,
    clients: BTreeMap<ClientId, Client>,
    rng: ChaCha8Rng,
    device: OpenDevice,
    start: u64,
    /// Clients that say nothing in the running round.
    silent: BTreeSet<ClientId>,
    played: Played,
}

/// Plays so many rounds. About every fifth changes a setting, every thirtieth begins with fresh weights or another model.
pub fn play(rounds: u32, seed: u64) -> Played {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let architecture = Architecture::named(MODELS[0], CLASSES).unwrap();
    let model = GlobalModel { architecture, state: architecture.initial(seed) };
    let settings = RoundSettings::new(Defence::None, Rule::FedSgd, 2, OptimiserKind::SGD)
        .unwrap()
        .with_aggregation(Aggregation::Mean)
        .unwrap();
    let clients = (0..CLIENTS).map(|id| (ClientId(id), client(&mut rng))).collect();
    let room = Room::new(model, settings);
    let (device, silent) = (OpenDevice::cpu(), BTreeSet::new());
    let mut class = Class { room, clients, rng, device, start: 0, silent, played: Played::default() };
    for id in 0..CLIENTS {
        class.feed(Event::Joined(ClientId(id)));
    }
    class.feed(Event::Start);
    while class.played.rounds < rounds {
        class.change();
        class.feed(Event::Begin);
        let (round, policy) = (class.room.round(), class.room.policy());
        class.feed(Event::Deadline { round, policy });
        // Without a late answer, a room that waits for all of its clients would wait for ever.
        for client in std::mem::take(&mut class.silent) {
            class.feed(Event::Unable { client, round, policy, is_locked: false });
        }
    }
    class.played
}

fn client(rng: &mut ChaCha8Rng) -> Client {
    let picture = |rng: &mut ChaCha8Rng| {
        let (a, b, c): (f32, f32, f32) = (rng.random(), rng.random(), rng.random());
        let value = |i: usize| ((i as f32 * (0.01 + 0.2 * a) + 6.0 * b).sin() * (0.2 + 0.3 * c) + 0.5) * 255.0;
        let pixels = (0..16 * 16 * 3).map(|i| value(i) as u8).collect();
        PrivatePicture::new(Picture::new(16, 16, pixels).unwrap(), rng.random_range(0..CLASSES))
    };
    let pictures = (0..PICTURES).map(|_| picture(rng)).collect();
    let mut client = Client::new("Ada", "CPU").with_pictures(pictures);
    client.set_passphrase(Some("violet otter 1867".to_owned()));
    client.set_caution(Caution::Refuse);
    client.hello(fresh(rng)).unwrap();
    client
}

fn fresh<const N: usize>(rng: &mut ChaCha8Rng) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn decoded(sent: &[Vec<u8>]) -> (ClientMessage, Vec<f32>) {
    let mut assembler = Assembler::new(1 << 24);
    sent.iter().find_map(|frame| assembler.push(frame).unwrap()).unwrap()
}

impl Class {
    /// Changes what a teacher changes between two rounds.
    fn change(&mut self) {
        let is_new = self.rng.random_bool(1.0 / 30.0);
        if is_new {
            let name = MODELS.choose(&mut self.rng).unwrap();
            let is_other = self.rng.random_bool(0.5);
            let now = self.room.model().architecture;
            let architecture = if is_other { Architecture::named(name, CLASSES).unwrap() } else { now };
            self.begin_with(architecture);
        }
        if !is_new && !self.rng.random_bool(0.2) {
            return;
        }
        let coming = self.room.coming();
        let architecture = self.room.next_model().unwrap_or(self.room.model().architecture);
        let rng = &mut self.rng;
        let settings = match rng.random_range(0..5) {
            0 => coming.with_rule(RULES.choose(rng).unwrap().parse().unwrap()),
            1 => coming.with_optimiser(OPTIMISERS.choose(rng).unwrap().parse().unwrap()),
            2 => coming.with_aggregation(AGGREGATIONS.choose(rng).unwrap().parse().unwrap()),
            3 => coming.with_batch(rng.random_range(1..4)),
            _ => coming.with_defence(DEFENCES.choose(rng).unwrap().parse().unwrap()),
        };
        // Settings that do not go together are refused, as in a room.
        let fitting = settings.ok().filter(|settings| settings.defence().check(architecture).is_ok());
        let settings = fitting.or_else(|| coming.with_defence(Defence::None).ok().filter(|_| is_new));
        let Some(settings) = settings else { return };
        self.feed(Event::SetSettings(settings));
        if self.room.needs_new_model(&settings) {
            self.begin_with(architecture);
        }
    }

    fn begin_with(&mut self, architecture: Architecture) {
        let state = architecture.initial(self.rng.random());
        self.played.resets += 1;
        if self.room.coming().defence().check(architecture).is_err() {
            let settings = self.room.coming().with_defence(Defence::None).unwrap();
            self.feed(Event::SetSettings(settings));
        }
        self.feed(Event::SetModel(GlobalModel { architecture, state }));
    }

    fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.room.handle(event) {
                events.extend(self.perform(effect));
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::NeedSalt => vec![Event::Salt(fresh(&mut self.rng))],
            Effect::Plan { cohort, round, policy, settings, encryption, model, least, .. } => {
                if round == 1 {
                    self.start += 1;
                }
                let silent = |rng: &mut ChaCha8Rng| rng.random_bool(0.1);
                self.silent = cohort.iter().copied().filter(|_| silent(&mut self.rng)).collect();
                let named = [
                    model.architecture.to_string(),
                    settings.rule().to_string(),
                    settings.optimiser().to_string(),
                    settings.aggregation().to_string(),
                    settings.defence().to_string(),
                ];
                for name in named {
                    *self.played.in_force.entry(name).or_default() += 1;
                }
                self.played.steps += u32::from(round > 1);
                let encryption = encryption.map(|(salt, check)| EncryptionPlan { salt, check });
                let header = PlanHeader {
                    round,
                    policy,
                    model: model.architecture.into(),
                    defence: settings.defence(),
                    rule: settings.rule(),
                    batch: settings.batch(),
                    pictures: settings.pictures(),
                    encryption,
                    sum: None,
                    nonce: fresh(&mut self.rng),
                    least,
                    server: ServerPlan { optimiser: settings.optimiser(), start: self.start },
                };
                let weights = [model.state.weights.as_slice(), &model.state.statistics].concat();
                let plan = frames(&RelayMessage::Plan(header), &weights).unwrap();
                cohort.into_iter().filter_map(|id| self.train(id, &plan, &settings)).collect()
            }
            Effect::Seal { client, policy, salt, architecture, model } => {
                let header = RelayMessage::Seal { policy, model: architecture.into(), salt };
                let weights = model.as_ref().map(|model| model.state.weights.as_slice()).unwrap_or_default();
                let asked = frames(&header, weights).unwrap();
                let own = self.clients.get_mut(&client).unwrap();
                let task = asked.iter().find_map(|frame| match own.receive(frame).unwrap() {
                    Some(Action::Seal(task)) => Some(task),
                    _ => None,
                });
                let sealed = own.seal(*task.unwrap(), self.rng.random()).unwrap();
                match decoded(&sealed) {
                    (ClientMessage::Sealed { policy, check }, weights) => {
                        vec![Event::Sealed { client, policy, check, weights }]
                    }
                    other => panic!("{:?} instead of a sealed model", other.0),
                }
            }
            Effect::SittingOut(client) => vec![Event::Return(client)],
            Effect::Closed(_) => {
                self.played.rounds += 1;
                Vec::new()
            }
            // Training with a large rate diverges now and then.
            Effect::Refused { refusal, .. } => {
                self.played.refusals.push(refusal.to_string());
                Vec::new()
            }
            Effect::Excluded { client, .. } => vec![Event::Readmit(client)],
            _ => Vec::new(),
        }
    }

    /// The update of a client, unless it is silent, after it has looked at the plan.
    fn train(&mut self, id: ClientId, plan: &[Vec<u8>], settings: &RoundSettings) -> Option<Event> {
        // A silent client has not even heard of the round.
        if self.silent.contains(&id) {
            return None;
        }
        let client = self.clients.get_mut(&id)?;
        let heard = plan.iter().find_map(|frame| match client.receive(frame).unwrap() {
            Some(Action::Train(plan)) => Some(plan),
            None => None,
            other => panic!("{other:?} instead of a plan"),
        });
        let plan: Box<RoundPlan> = heard?;
        let pictures = client.pictures(&plan).unwrap();
        let device = self.device.device();
        let doubts = block_on(plan.examine(&pictures, device, client.caution())).unwrap();
        self.played.plans += 1;
        if let Some(doubt) = doubts.first() {
            let names = format!("{}, {}, {}", settings.rule(), settings.optimiser(), settings.aggregation());
            let (round, defence) = (plan.round, settings.defence());
            self.played.alarms.push(format!("round {round} of {}, {names}, {defence}: {doubt}", plan.architecture));
        }
        let trained = block_on(plan.train(&pictures, device)).unwrap();
        let outgoing = client.update(&plan, trained, fresh(&mut self.rng)).unwrap();
        let (ClientMessage::Update { round, policy, loss, samples, form, .. }, mut values) = decoded(&outgoing.frames)
        else {
            panic!("no update");
        };
        let statistics = values.split_off(values.len() - plan.state.statistics.len());
        let update = ProtectedUpdate { form, values };
        Some(Event::Update(ReceivedUpdate { client: id, round, policy, loss, samples, update, statistics }))
    }
}
