//! A room with its people, teacher, disk and network, as a script moves them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use memchr::memmem::Finder;
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{AttackError, Search, SearchOptions, SearchTarget, Searches};
use unmask_core::{
    Aggregation, Architecture, AttackMethod, ClientId, EncryptionStart, MaskSeed, ModelState, OptimiserKind, VitPreset,
};
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, RoomKey, commitment, drawn_seed};
use unmask_federation::GlobalModel;
use unmask_journal::simulated::Disk;
use unmask_lesson::{Poll, Question, Suspect};
use unmask_room::{
    RoomConfig, RoomLimits,
    bench::{Bench, End, Sent, Surroundings},
};
use unmask_wire::{
    ClientMessage, FORGOTTEN, ORIGINAL_SIDE, PlanHeader, RelayMessage, SeedDraw, frames,
    view::{Control, LessonView, RoomView},
};

use crate::script::{Fate, Kind, Order, PEOPLE, Step, has_passphrase};

/// A search that panics as soon as it begins.
#[derive(Debug)]
struct Breaking;

impl Searches for Breaking {
    fn begin(
        &self,
        method: AttackMethod,
        _: &SearchTarget<'_>,
        _: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        panic!("{method} breaks down")
    }
}

/// A client and the person or program behind it.
#[derive(Debug)]
pub struct Person {
    pub kind: Kind,
    /// A name that appears nowhere else.
    pub name: String,
    /// How many names this person has had.
    names: u32,
    pub socket: Option<usize>,
    ticket: Option<[u8; 16]>,
    pub id: Option<ClientId>,
    /// The consent that the room has heard last.
    pub may_show: bool,
    asked: Option<(PlanHeader, Arc<ModelState>)>,
    /// An earlier request.
    before: Option<(u32, u32)>,
    poll: u32,
    /// Messages on their way, each with its frames.
    outgoing: VecDeque<(ClientMessage, Vec<Vec<u8>>)>,
}

/// What the class encrypts with; deriving a key takes long.
#[derive(Debug)]
struct Keys {
    has_passphrase: bool,
    ciphers: BTreeMap<([u8; 16], u64), Arc<Cipher>>,
}

impl Keys {
    fn cipher(&mut self, salt: &[u8; 16], architecture: Architecture) -> Option<Arc<Cipher>> {
        let derive = || {
            let key = RoomKey::derive("hat boot moon lamp", salt, EncryptionStart::Plain).expect("a key");
            Arc::new(Cipher::new(&key, &architecture.layout()).expect("a cipher"))
        };
        let known = (*salt, architecture.layout().len() as u64);
        self.has_passphrase.then(|| Arc::clone(self.ciphers.entry(known).or_insert_with(derive)))
    }
}

pub struct World {
    pub bench: Bench,
    keys: Keys,
    pub disk: Disk,
    pub people: Vec<Person>,
    /// Sockets and names of those who asked for deletion and have not heard of it.
    leaving: Vec<(usize, String)>,
    /// The name of somebody who was told so while the disk still had it.
    pub told_too_early: Option<String>,
    /// Names of those who were told that their data is deleted.
    pub forgotten: Vec<String>,
    /// Pictures that the room showed of a person, by name: their addresses, and their bytes in base64.
    shown: BTreeMap<String, BTreeMap<String, String>>,
    /// Those who ever sent an update, by the number of its round. A restart may bring an earlier model back.
    pub contributors: BTreeMap<u32, BTreeSet<ClientId>>,
    /// What was reached, with how often.
    pub reached: BTreeMap<String, u64>,
    /// The room before the host ended, if the last step was a restart.
    pub restarted: Option<Restarted>,
    /// Digests of all weights that the room has had.
    pub known: BTreeSet<String>,
    /// The model that has the ones added last.
    pub seen: Weak<GlobalModel>,
    /// What a control changed that was refused.
    pub changed_by_refusal: Option<String>,
}

/// A room before and after its host started again.
#[derive(Debug)]
pub struct Restarted {
    pub end: End,
    pub weights_before: Vec<f32>,
    pub lesson_before: LessonView,
    /// Whether the host could write down its last state.
    pub could_write: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
        let disk = Disk::new(seed);
        let mut config = RoomConfig {
            architecture: Architecture::from(VitPreset::Pico),
            seed: Some(seed),
            journal: Some(unmask_room::JournalConfig::default()),
            limits: RoomLimits { clients: PEOPLE - 3, ..RoomLimits::default() },
            ..RoomConfig::default()
        };
        if has_passphrase(seed) {
            // An encrypted update can only be added.
            (config.aggregation, config.optimiser) = (Aggregation::Mean, OptimiserKind::Sgd { rate: 0.1 });
        }
        let surroundings = Surroundings {
            seed: rng.random(),
            disk: Some(Arc::new(disk.clone())),
            is_recorded: seed.is_multiple_of(4),
            searches: seed.is_multiple_of(3).then(|| Arc::new(Breaking) as Arc<dyn Searches>),
            ..Surroundings::default()
        };
        let mut bench = Bench::open(config, surroundings).expect("a room");
        bench.be_lazy(true);
        let person = |who| Person {
            kind: Kind::Honest,
            name: name(who, 0),
            names: 0,
            socket: None,
            ticket: None,
            id: None,
            may_show: false,
            asked: None,
            before: None,
            poll: 0,
            outgoing: VecDeque::new(),
        };
        Self {
            bench,
            keys: Keys { has_passphrase: has_passphrase(seed), ciphers: BTreeMap::new() },
            disk,
            people: (0..PEOPLE).map(person).collect(),
            leaving: Vec::new(),
            told_too_early: None,
            forgotten: Vec::new(),
            shown: BTreeMap::new(),
            contributors: BTreeMap::new(),
            reached: BTreeMap::new(),
            restarted: None,
            known: BTreeSet::new(),
            seen: Weak::new(),
            changed_by_refusal: None,
        }
    }

    pub fn reach(&mut self, what: impl Into<String>) {
        *self.reached.entry(what.into()).or_default() += 1;
    }

    pub fn take(&mut self, step: &Step) {
        self.restarted = None;
        self.reach(format!("step {}", step.name()));
        match step {
            Step::Join { who, kind, may_show, may_lend } => self.join(*who, *kind, *may_show, *may_lend),
            Step::Act { who, seed } => self.act(*who, *seed),
            Step::Deliver { who, fate } => self.deliver(*who, *fate),
            Step::Close { who } => {
                if let Some(socket) = self.people[*who].leave() {
                    self.bench.close(socket);
                }
            }
            Step::Forget { who } => {
                self.say(*who, ClientMessage::Forget, &[]);
                while !self.people[*who].outgoing.is_empty() {
                    self.deliver(*who, Fate::Arrives);
                }
            }
            Step::Show { who } => {
                self.show(*who, &mut ChaCha8Rng::seed_from_u64(*who as u64));
                self.deliver(*who, Fate::Arrives);
            }
            Step::Guess { who, answer, knows_gaps } => {
                let poll = self.people[*who].poll;
                self.say(*who, ClientMessage::Vote { poll, answer: *answer }, &[]);
                if *knows_gaps {
                    self.say(*who, ClientMessage::KnowGaps { poll }, &[]);
                }
                while !self.people[*who].outgoing.is_empty() {
                    self.deliver(*who, Fate::Arrives);
                }
            }
            Step::Teacher(order) => self.obey(order),
            Step::Pass(time) => self.bench.pass(*time),
            Step::Work => drop(self.bench.work()),
            Step::Attack { worker } => {
                if self.bench.attack(*worker) {
                    self.reach(format!("attack by worker {worker}"));
                }
            }
            Step::Write => drop(self.bench.finish_writing()),
            Step::FillDisk(is_full) => self.disk.fill(*is_full),
            Step::StopWriting => self.disk.stop_writing(),
            Step::SetClock(unix) => self.bench.set_time_of_day(*unix),
            Step::Restart(end) => self.restart(*end),
        }
        self.look_at_pictures();
        self.hear_farewells();
        self.reach(format!("phase {:?}", self.bench.view().phase));
    }

    fn look_at_pictures(&mut self) {
        let view = self.bench.view();
        let originals = view.clients.iter().map(|client| (client.id, &client.original));
        let cards = view.attacks.iter().map(|card| (card.client, &card.picture));
        let leaks = view.leaks.iter().map(|leak| (leak.client, &leak.picture));
        let mut looked = Vec::new();
        for (client, address) in originals.chain(cards).chain(leaks) {
            let person = self.people.iter().find(|person| person.id == Some(client));
            if let (Some(person), Some(address)) = (person, address)
                && let Some(png) = self.bench.picture(address)
            {
                looked.push((person.name.clone(), address.to_string(), STANDARD.encode(png)));
            }
        }
        for (name, address, png) in looked {
            self.reach(format!("picture {}", if address.contains("original") { "own" } else { "reconstructed" }));
            self.shown.entry(name).or_default().insert(address, png);
        }
    }

    /// Reads whether data was deleted.
    pub fn hear_farewells(&mut self) {
        for (socket, name) in std::mem::take(&mut self.leaving) {
            let goodbye = self.bench.sent(socket).into_iter().find_map(|sent| match sent {
                Sent::Message(RelayMessage::Goodbye { reason }) => Some(reason),
                _ => None,
            });
            match goodbye {
                Some(reason) if reason == FORGOTTEN => {
                    if let Some(left) = self.left_of(&name) {
                        self.told_too_early.get_or_insert(left);
                    }
                    self.forgotten.push(name);
                }
                // The page says that the disk still has it.
                Some(_) => self.reach("deletion that has to wait for the disk"),
                None => self.leaving.push((socket, name)),
            }
        }
    }

    /// What is left of a person on the disk or among the room's pictures, if anything is.
    pub fn left_of(&self, name: &str) -> Option<String> {
        let disk = self.disk.contents();
        let on_disk = |canary: &str| {
            let finder = Finder::new(canary);
            disk.iter().find(|(_, bytes)| finder.find(bytes).is_some()).map(|(file, _)| file)
        };
        if let Some(file) = on_disk(name) {
            return Some(format!("the name {name} is in {file}"));
        }
        let pictures = self.shown.get(name).into_iter().flatten();
        pictures.into_iter().find_map(|(address, png)| match on_disk(png) {
            Some(file) => Some(format!("the picture {address} of {name} is in {file}")),
            None => {
                let served = self.bench.picture(address).filter(|served| STANDARD.encode(served) == *png);
                served.map(|_| format!("the picture {address} of {name} is served"))
            }
        })
    }

    fn join(&mut self, who: usize, kind: Kind, may_show: bool, may_lend: bool) {
        self.reach(format!("client {kind:?}"));
        let person = &mut self.people[who];
        // The socket before is still open: the room has to find out.
        let resume = person.ticket;
        // To the room, who comes without a ticket is somebody else.
        if resume.is_none() && person.id.take().is_some() {
            person.names += 1;
            person.name = name(who, person.names);
        }
        person.leave();
        (person.kind, person.asked, person.before) = (kind, None, None);
        // Two people share a browser.
        let socket = self.bench.connect_from(1000 + who.min(PEOPLE - 2) as u128);
        self.people[who].socket = Some(socket);
        let hello = ClientMessage::Hello {
            nickname: self.people[who].name.clone(),
            resume,
            device: "CPU".to_owned(),
            may_show,
            may_lend,
            is_robot: who % 7 == 6,
            commitment: commitment(&nonce(who)),
            page: nonce(who),
        };
        self.people[who].may_show = may_show;
        let hello = frames(&hello, &[]).expect("it can be sent");
        hello.iter().for_each(|frame| self.bench.receive(socket, frame));
        self.read(who);
    }

    /// Reads what the room has sent.
    fn read(&mut self, who: usize) {
        let Some(socket) = self.people[who].socket else { return };
        for sent in self.bench.sent(socket) {
            let (message, state) = match sent {
                Sent::Message(message) => (Arc::new(message), None),
                Sent::Model(message, state) => (message, Some(Arc::new(state))),
                Sent::Shard => {
                    self.reach("told Shard");
                    continue;
                }
            };
            self.reach(format!("told {}", first_word(&format!("{message:?}"))));
            if let RelayMessage::Seal { .. } = message.as_ref() {
                self.seal(who, &message, state.as_deref());
                continue;
            }
            let person = &mut self.people[who];
            match (message.as_ref(), state) {
                (RelayMessage::Welcome { client, resume, .. }, _) => {
                    (person.id, person.ticket) = (Some(*client), Some(*resume));
                }
                (RelayMessage::Plan(plan), Some(state)) => {
                    person.before = person.asked.take().map(|(plan, _)| (plan.round, plan.policy)).or(person.before);
                    person.asked = Some((plan.clone(), state));
                }
                (RelayMessage::Lesson(lesson), _) => {
                    person.poll = lesson.poll.as_ref().map_or(person.poll, |poll| poll.number);
                }
                (RelayMessage::Goodbye { .. }, _) => {
                    (person.socket, person.ticket) = (None, None);
                    person.outgoing.clear();
                }
                _ => {}
            }
        }
    }

    /// Encrypts the model that the room asks for, with the passphrase if the class has one.
    fn seal(&mut self, who: usize, message: &RelayMessage, state: Option<&ModelState>) {
        let RelayMessage::Seal { policy, model, salt } = message else { return };
        let Ok(architecture) = Architecture::try_from(model.clone()) else { return };
        let Some(cipher) = self.keys.cipher(salt, architecture) else { return };
        let mut weights = state.map(|state| state.weights.clone()).unwrap_or_default();
        weights.resize(architecture.layout().len(), 0.0);
        cipher.encrypt(&mut weights).expect("weights that can be encrypted");
        self.say(who, ClientMessage::Sealed { policy: *policy, check: cipher.check() }, &weights);
    }

    fn say(&mut self, who: usize, message: ClientMessage, values: &[f32]) {
        if self.people[who].socket.is_some() {
            let cut = frames(&message, values).expect("it can be sent");
            self.people[who].outgoing.push_back((message, cut));
        }
    }

    fn act(&mut self, who: usize, seed: u64) {
        self.read(who);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let kind = self.people[who].kind;
        let asked = self.people[who].asked.clone();
        match (kind, asked) {
            (Kind::Chatty, _) => self.chat(who, &mut rng),
            (Kind::Silent, _) | (_, None) => {}
            (Kind::Slow, _) if rng.random_bool(0.8) => {}
            (Kind::Staller, Some((plan, _))) => {
                // Too late on purpose: the round after it runs by then.
                let round = plan.round.saturating_sub(1);
                let reason = "busy".to_owned();
                self.say(who, ClientMessage::Unable { round, policy: plan.policy, reason, is_locked: false }, &[]);
            }
            (_, Some((plan, state))) => {
                self.answer(who, kind, &plan, &state, &mut rng);
                self.people[who].asked = None;
                self.people[who].before = Some((plan.round, plan.policy));
            }
        }
    }

    fn answer(&mut self, who: usize, kind: Kind, plan: &PlanHeader, state: &ModelState, rng: &mut ChaCha8Rng) {
        let (mut round, mut policy) = (plan.round, plan.policy);
        let Ok(architecture) = Architecture::try_from(plan.model.clone()) else { return };
        let layout = architecture.layout();
        let cipher = plan.encryption.as_ref().and_then(|encryption| self.keys.cipher(&encryption.salt, architecture));
        if plan.defence.is_encrypted() && cipher.is_none() {
            let reason = "the passphrase is missing".to_owned();
            return self.say(who, ClientMessage::Unable { round, policy, reason, is_locked: true }, &[]);
        }
        let turn = rng.random_range(0..101);
        let gradient = |i: usize| ((i * 17 + turn) % 101) as f32 / 500.0 - 0.1;
        let mut values: Vec<f32> = if plan.rule.is_fedavg() {
            state.weights.iter().enumerate().map(|(i, weight)| weight - 0.1 * gradient(i)).collect()
        } else {
            (0..layout.len()).map(gradient).collect()
        };
        match (kind, rng.random_range(0..5)) {
            (Kind::Garbage, 0) => values.fill(f32::NAN),
            (Kind::Garbage, 1) => values.fill(1e30),
            (Kind::Garbage, 2) => values.fill(1e-30),
            (Kind::Garbage, 3) => values.fill(f32::INFINITY),
            (Kind::Stale, 0 | 1) => {
                if let Some((before, under)) = self.people[who].before {
                    (round, policy) = (before, under);
                }
            }
            (Kind::Stale, 2) => round += 1,
            (Kind::Stale, _) => policy = policy.wrapping_sub(1),
            _ => {}
        }
        let reference = plan.rule.is_fedavg().then_some(state.weights.as_slice());
        let is_chosen = kind == Kind::Garbage && rng.random_bool(0.1);
        let seed = if is_chosen { MaskSeed(rng.random()) } else { drawn_seed(&nonce(who), &plan.nonce) };
        let keys = KeyMaterial { seed, cipher: cipher.as_deref() };
        let Ok(protected) = plan.defence.protect(&layout, PlainUpdate { values, reference }, keys) else { return };
        let mut sent = protected.values;
        if kind == Kind::Garbage && rng.random_bool(0.2) {
            sent.truncate(sent.len() / 2);
        }
        let draw = plan.defence.has_own_mask().then(|| {
            let next = if kind == Kind::Garbage { rng.random() } else { commitment(&nonce(who)) };
            SeedDraw { nonce: nonce(who), next }
        });
        let update = ClientMessage::Update { round, policy, loss: 2.3, samples: 1, form: protected.form, draw };
        self.say(who, update.clone(), &sent);
        if kind == Kind::Double {
            self.say(who, update, &sent);
        }
    }

    fn chat(&mut self, who: usize, rng: &mut ChaCha8Rng) {
        let poll = self.people[who].poll;
        let view = self.bench.view();
        let message = match rng.random_range(0..12) {
            0 => ClientMessage::Device { device: "GPU".to_owned() },
            1 => ClientMessage::Consent { may_show: rng.random(), may_lend: rng.random() },
            2 => ClientMessage::Visibility { is_hidden: rng.random() },
            3 => ClientMessage::Return,
            4 => ClientMessage::Ping,
            5 => ClientMessage::Vote { poll, answer: rng.random_range(0..70) },
            6 => ClientMessage::KnowGaps { poll },
            7 => {
                let attack = *AttackMethod::ALL.choose(rng).expect("an attack");
                ClientMessage::Score { round: view.round, attack, psnr: 20.0, ssim: rng.random_range(-2.0..2.0) }
            }
            8 => ClientMessage::HideOriginal,
            9 => return self.show(who, rng),
            10 => ClientMessage::Unable { round: view.round, policy: 0, reason: "no".to_owned(), is_locked: false },
            _ => ClientMessage::Hello {
                nickname: "again".to_owned(),
                resume: None,
                device: String::new(),
                may_show: true,
                may_lend: true,
                is_robot: false,
                commitment: rng.random(),
                page: rng.random(),
            },
        };
        self.say(who, message, &[]);
    }

    fn show(&mut self, who: usize, rng: &mut ChaCha8Rng) {
        let side = usize::from(ORIGINAL_SIDE);
        let values: Vec<f32> = (0..3 * side * side).map(|_| rng.random_range(0.0..1.0)).collect();
        self.say(who, ClientMessage::Original { side: ORIGINAL_SIDE }, &values);
    }

    fn deliver(&mut self, who: usize, fate: Fate) {
        self.reach(format!("message {fate:?}"));
        let person = &mut self.people[who];
        let Some(socket) = person.socket else { return };
        if fate == Fate::Overtaken && person.outgoing.len() > 1 {
            person.outgoing.swap(0, 1);
        }
        let Some((message, cut)) = person.outgoing.pop_front() else { return };
        match fate {
            Fate::Lost => {}
            Fate::Cut => {
                // Half of the frames, and the end of the connection.
                for frame in &cut[..cut.len() / 2] {
                    self.bench.receive(socket, frame);
                }
                self.people[who].leave();
                self.bench.close(socket);
            }
            Fate::Arrives | Fate::Overtaken => self.receive(who, socket, &message, &cut),
            Fate::Repeated => {
                self.receive(who, socket, &message, &cut);
                self.receive(who, socket, &message, &cut);
            }
        }
        self.read(who);
    }

    fn receive(&mut self, who: usize, socket: usize, message: &ClientMessage, cut: &[Vec<u8>]) {
        if self.people[who].socket != Some(socket) {
            return;
        }
        self.reach(format!("heard {}", first_word(&format!("{message:?}"))));
        match message {
            ClientMessage::Consent { may_show, .. } => self.people[who].may_show = *may_show,
            ClientMessage::Update { round, .. } => {
                if let Some(id) = self.people[who].id {
                    self.contributors.entry(*round).or_default().insert(id);
                }
            }
            ClientMessage::Forget => {
                let person = &mut self.people[who];
                self.leaving.push((socket, person.name.clone()));
                person.names += 1;
                person.name = name(who, person.names);
                (person.id, person.ticket) = (None, None);
            }
            _ => {}
        }
        cut.iter().for_each(|frame| self.bench.receive(socket, frame));
        if matches!(message, ClientMessage::Forget) {
            self.people[who].leave();
        }
    }

    fn obey(&mut self, order: &Order) {
        let id = |who: usize| self.people[who].id.unwrap_or(ClientId(9999));
        let control = match order {
            Order::Plain(control) => control.clone(),
            Order::Target(who) => Control::Target { client: id(*who) },
            Order::Readmit(who) => Control::Readmit { client: id(*who) },
            Order::Rename(who) => {
                // A name that can be told from all others, and that goes with the client.
                Control::Rename { client: id(*who), nickname: format!("{} b", self.people[*who].name) }
            }
            Order::Remove(who) => Control::Remove { client: id(*who) },
            Order::Ban(who) => Control::Ban { client: id(*who) },
            Order::TestPicture(who) => Control::TestPicture { client: id(*who) },
            Order::AskWhoseUpdate(lenders) => {
                let suspects = lenders.iter().map(|who| Suspect { client: id(*who), nickname: String::new() });
                let suspects = suspects.collect();
                Control::AskPoll { poll: Poll { question: Question::WhoseUpdate, suspects, correct: None } }
            }
        };
        self.bench.pass(Duration::ZERO);
        let before = without_log(&self.bench);
        let outcome = self.bench.control(control.clone());
        // What comes before the refused one of several stays.
        let may_change = matches!(control, Control::Together { .. });
        if outcome.is_err() && !may_change && without_log(&self.bench) != before {
            self.changed_by_refusal = Some(format!("{control:?}"));
        }
        let what = first_word(&format!("{control:?}")).to_owned();
        self.reach(format!("teacher {what} {}", if outcome.is_ok() { "done" } else { "refused" }));
        (0..self.people.len()).for_each(|who| self.read(who));
    }

    /// Whether this person is not in the room, perhaps because it was turned away.
    pub fn is_away(&self, who: usize) -> bool {
        let Person { socket, id, .. } = &self.people[who];
        socket.is_none() || id.is_none()
    }

    /// Every socket closes.
    pub fn everybody_leaves(&mut self) {
        for who in 0..self.people.len() {
            self.take(&Step::Close { who });
        }
    }

    fn restart(&mut self, end: End) {
        let lesson = self.bench.view().lesson.clone();
        self.restarted = Some(Restarted {
            end,
            weights_before: self.bench.model().state.weights.clone(),
            lesson_before: lesson,
            could_write: !self.disk.is_full() && !self.disk.has_stopped(),
        });
        self.hear_farewells();
        if self.bench.restart(end).is_err() {
            assert!(self.disk.is_full(), "the lesson goes on");
            self.reach("host that does not start on a full disk");
            self.disk.fill(false);
            self.bench.restart(End::Killed).expect("the lesson goes on");
        }
        // Their connections broke before they heard.
        self.leaving.clear();
        let view = self.bench.view();
        for person in &mut self.people {
            person.leave();
            person.asked = None;
            // Somebody else may get the number of a client that was not on the disk.
            let is_known = |id: ClientId| view.clients.iter().any(|client| client.id == id);
            person.id = person.id.filter(|id| is_known(*id));
        }
    }
}

fn without_log(bench: &Bench) -> RoomView {
    RoomView { log: Vec::new(), ..RoomView::clone(&bench.view()) }
}

/// What the seeds of a person's masks are drawn from. It need not be fresh, since the relay's half is.
fn nonce(who: usize) -> [u8; 32] {
    [who as u8; 32]
}

impl Person {
    /// Drops the socket from the person's side; returns it.
    fn leave(&mut self) -> Option<usize> {
        self.outgoing.clear();
        self.socket.take()
    }
}

impl Step {
    fn name(&self) -> String {
        first_word(&format!("{self:?}")).to_owned()
    }
}

/// A name that shares no letters in a row with other text of the room.
fn name(who: usize, names: u32) -> String {
    format!("Zq{who}x{names}w")
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}
