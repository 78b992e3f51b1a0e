//! The room's actor: the one task that owns the federation's state machine and the roster.

mod attacked;
mod attacking;
mod candidate;
mod controls;
mod history;
mod tasks;
mod view;

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use axum::body::Bytes;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tracing::{error, info, warn};
use unmask_defence::{GroupRates, KeyCheck, MaskSeed, ProtectedUpdate};
use unmask_federation::{ClientId, Effect, Event, GlobalModel, MemberState, Room, RoundSummary, Settings};
use unmask_params::{InitOptions, ModelSpec, initial_weights};
use unmask_wire::{
    ClientMessage, EncryptionPlan, RelayMessage, UpdateKind, frames,
    view::{Control, LogLine, LossPoint},
};

pub(crate) use self::candidate::Dropped;
pub(crate) use self::view::Standing;
use self::{attacking::Attacking, history::History, tasks::Task};
use crate::{
    attacks::{GivenKey, Report},
    config::RelayConfig,
    outbox::{Parcel, Slot, Waiting, outbox},
    pictures::Pictures,
    random,
    roster::{Link, Roster, Seat, Ticket, clean},
    snapshot::Snapshot,
    spare::Spare,
};

const MAX_LOSSES: usize = 1000;
const MAX_LOG: usize = 100;
const MAX_REASON: usize = 200;

/// What a client says first.
#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) nickname: String,
    pub(crate) resume: Option<Ticket>,
    pub(crate) device: String,
}

/// A client's seat and what it shall be sent, or why it cannot come in.
pub(crate) type Admission = Result<(Seat, Waiting), String>;

/// What the actor is told. It has no debug form: a control may carry a passphrase.
pub(crate) enum Input {
    /// A socket has said hello.
    Hello { hello: Hello, reply: oneshot::Sender<Admission> },
    /// A message came; `bytes` is its length on the socket. `done` is dropped once it is dealt with.
    Message { seat: Seat, message: ClientMessage, values: Vec<f32>, bytes: u64, done: oneshot::Sender<()> },
    /// A socket said something that it must be closed for.
    Misbehaved { seat: Seat, reason: String },
    /// A socket was closed for what it said before any hello.
    Stranger { reason: String },
    /// A socket closed.
    Left { seat: Seat, reason: Option<String> },
    /// The teacher wants something.
    Control { control: Control, reply: Reply },
    /// The teacher dropped a picture.
    Dropped { picture: Dropped, reply: Reply },
    /// A passphrase that the teacher gave away has become a key, or is the wrong one.
    Given { key: Result<GivenKey, String>, reply: Reply },
    /// News of an attack.
    Attacked(Report),
}

/// Tells the teacher that it is done, or why it cannot be.
pub(crate) type Reply = oneshot::Sender<Result<(), String>>;

/// The actor's state.
pub(crate) struct Actor {
    config: RelayConfig,
    room: Room,
    roster: Roster,
    connections: u64,
    /// What clients were last asked to do, for those who come back in the midst of it.
    task: Option<Task>,
    /// The model chosen for the next round.
    chosen_model: Option<ModelSpec>,
    history: History,
    /// The client under attack.
    target: Option<ClientId>,
    attacking: Attacking,
    said_of_seal: HashSet<String>,
    deadline: Option<(Instant, Event)>,
    rest: Option<Instant>,
    losses: VecDeque<LossPoint>,
    log: VecDeque<LogLine>,
    lines: u64,
    /// Counts the models: what is known about an earlier one is not mixed in.
    epoch: u64,
    spare: Spare,
    standing: Standing,
    snapshots: watch::Sender<Snapshot>,
}

impl Actor {
    /// A paused room with fresh weights.
    ///
    /// # Errors
    /// If the operating system gives no random numbers or no thread.
    pub(crate) fn new(
        config: RelayConfig,
        standing: Standing,
        pictures: Arc<Pictures>,
        spare: Spare,
        snapshots: watch::Sender<Snapshot>,
        inputs: mpsc::WeakSender<Input>,
    ) -> anyhow::Result<Self> {
        let seed = config.seed.map_or_else(random::seed, Ok)?;
        let weights = initial_weights(&config.spec.config(), seed, InitOptions::default());
        let model = GlobalModel { spec: config.spec, weights };
        let settings = Settings::new(config.defence, config.rule, config.batch, config.optimiser)?;
        let mut actor = Self {
            room: Room::new(model, settings),
            roster: Roster::default(),
            connections: 0,
            task: None,
            chosen_model: None,
            history: History::default(),
            target: None,
            attacking: Attacking::start(inputs, pictures, config.attack_budget, config.searches.clone())?,
            said_of_seal: HashSet::new(),
            deadline: None,
            rest: None,
            losses: VecDeque::new(),
            log: VecDeque::new(),
            lines: 0,
            epoch: 0,
            spare,
            standing,
            snapshots,
            config,
        };
        if actor.config.start {
            actor.feed(Event::Start);
        }
        actor.publish();
        Ok(actor)
    }

    /// Runs until nobody can say anything any more.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        loop {
            let due = self.next_due();
            let timer = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = inputs.recv() => {
                    let Some(input) = input else { return };
                    self.take(input);
                    // A burst is published once.
                    for _ in 0..inputs.len() {
                        if let Ok(input) = inputs.try_recv() {
                            self.take(input);
                        }
                    }
                }
                () = timer => {}
            }
            self.tick(Instant::now());
            self.tell_attacker();
            self.publish();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Hello { hello, reply } => {
                let admission = self.admit(&hello);
                let seat = admission.as_ref().ok().map(|(seat, _)| *seat);
                if reply.send(admission).is_err()
                    && let Some(seat) = seat
                {
                    self.leave(seat, None);
                }
            }
            Input::Message { seat, message, values, bytes, done } => {
                if self.roster.seated(seat).is_some() {
                    self.message(seat, message, values, bytes);
                }
                drop(done);
            }
            Input::Misbehaved { seat, reason } => {
                if self.roster.seated(seat).is_some() {
                    self.dismiss(seat.client, &reason);
                }
            }
            Input::Stranger { reason } => self.say(format!("A connection was refused: {reason}.")),
            Input::Left { seat, reason } => self.leave(seat, reason),
            // Whoever asked may have gone; the control is carried out all the same.
            Input::Control { control: Control::Collude { passphrase: Some(passphrase) }, reply } => {
                self.derive_key(passphrase, reply);
            }
            Input::Control { control, reply } => drop(reply.send(self.control(control))),
            Input::Dropped { picture, reply } => drop(reply.send(self.take_candidate(picture))),
            Input::Given { key, reply } => drop(reply.send(self.take_key(key))),
            Input::Attacked(report) => self.heard(report),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let deadline = self.deadline.as_ref().map(|(at, _)| *at);
        [deadline, self.rest, self.roster.next_sweep(&self.config.limits)].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        if self.deadline.as_ref().is_some_and(|(at, _)| *at <= now)
            && let Some((_, event)) = self.deadline.take()
        {
            self.feed(event);
        }
        if self.rest.is_some_and(|at| at <= now) {
            self.rest = None;
            self.feed(Event::Begin);
        }
        self.roster.sweep(now, &self.config.limits);
    }

    /// Lets a client in, new or back with its ticket.
    fn admit(&mut self, hello: &Hello) -> Admission {
        self.connections += 1;
        let connection = self.connections;
        let (outbox, waiting) = outbox();
        let old = hello.resume.and_then(|ticket| self.roster.iter().find(|entry| entry.ticket == ticket));
        let is_present = old.is_some_and(|entry| entry.link.is_some());
        let known = old.map(|entry| entry.id);
        if !is_present && self.roster.present().count() >= self.config.limits.clients {
            let clients = self.config.limits.clients;
            self.say(format!("{} was turned away: the room is full.", clean(&hello.nickname, 24)));
            return Err(format!("the room is full with {clients} clients; ask the teacher"));
        }
        if is_present && let Some(client) = known {
            self.take_over(client);
        }
        let back = match hello.resume {
            Some(ticket) if known.is_some() => self.roster.resume(ticket, &hello.device),
            _ => None,
        };
        let entry = match back {
            Some(entry) => entry,
            None => {
                let ticket = random::bytes().map_err(|error| error.to_string())?;
                self.roster.add(&hello.nickname, &hello.device, ticket)
            }
        };
        entry.link = Some(Link { connection, outbox });
        let (client, resume, nickname) = (entry.id, entry.ticket, entry.nickname.clone());
        info!(client = client.0, %nickname, resumed = known.is_some(), "joined");
        let came = if known.is_some() { "is back" } else { "joined" };
        self.say(format!("{nickname} {came}."));
        self.send(client, Slot::All, &RelayMessage::Welcome { client: client.0, resume, nickname }, &[]);
        self.target = self.target.or(Some(client));
        // Still asked to do something, since its old socket had not been missed yet: the task may have been lost with it.
        if self.room.member(client) == Some(MemberState::Training)
            && let Some(task) = &self.task
        {
            let parcel = task.parcel(self.room.model());
            if let Some(parcel) = parcel {
                self.put(client, Slot::Task, parcel);
            }
        }
        self.feed(Event::Joined(client));
        Ok((Seat { client, connection }, waiting))
    }

    /// Ends the old socket of a client that is back on a new one.
    fn take_over(&mut self, client: ClientId) {
        let reason = "this place in the room was taken over by another tab or connection".to_owned();
        self.send(client, Slot::All, &RelayMessage::Goodbye { reason }, &[]);
        if let Some(entry) = self.roster.get_mut(client) {
            entry.link = None;
        }
        // Whether it still works on the closed round nobody knows; it starts afresh.
        if self.room.member(client) == Some(MemberState::Late) {
            self.feed(Event::Left(client));
        }
    }

    /// Says goodbye with a reason and closes.
    fn dismiss(&mut self, client: ClientId, reason: &str) {
        warn!(client = client.0, reason, "dismissed");
        self.say(format!("{} was disconnected: {reason}.", self.roster.name(client)));
        if let Some(link) = self.roster.get(client).and_then(|entry| entry.link.as_ref()) {
            link.outbox.clear();
        }
        self.send(client, Slot::All, &RelayMessage::Goodbye { reason: clean(reason, MAX_REASON) }, &[]);
        self.remove(client);
    }

    fn leave(&mut self, seat: Seat, reason: Option<String>) {
        if self.roster.seated(seat).is_none() {
            return;
        }
        let nickname = self.roster.name(seat.client).to_owned();
        info!(client = seat.client.0, %nickname, "left");
        self.say(match reason {
            Some(reason) => format!("{nickname} is gone: {reason}."),
            None => format!("{nickname} left."),
        });
        self.remove(seat.client);
    }

    fn remove(&mut self, client: ClientId) {
        if let Some(entry) = self.roster.get_mut(client) {
            entry.unlink(Instant::now());
        }
        if self.target == Some(client) {
            self.target = self.roster.present().next().map(|entry| entry.id);
        }
        self.feed(Event::Left(client));
    }

    fn message(&mut self, seat: Seat, message: ClientMessage, values: Vec<f32>, bytes: u64) {
        let client = seat.client;
        match message {
            ClientMessage::Hello { .. } => self.refuse(client, "a second hello on one connection; it is ignored"),
            ClientMessage::Device { device } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.set_device(&device);
                }
            }
            ClientMessage::Update { round, policy, loss, samples, kind } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.bytes_sent += bytes;
                    if loss.is_finite() {
                        entry.loss = Some(loss);
                    }
                }
                let update = protected(kind, values);
                if self.target == Some(client) {
                    self.read(client, round, samples, &update);
                }
                self.feed(Event::Update { client, round, policy, loss, samples, update });
                self.attacking.job = None;
            }
            ClientMessage::Sealed { policy, check } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.bytes_sent += bytes;
                }
                self.feed(Event::Sealed { client, policy, check: KeyCheck(check), weights: values });
            }
            ClientMessage::Unable { round, policy, reason } => {
                let reason = clean(&reason, MAX_REASON);
                let name = self.roster.name(client);
                match round {
                    0 => self.say_once(format!("{name} cannot encrypt the model: {reason}")),
                    _ => self.say(format!("{name} cannot take part in round {round}: {reason}")),
                }
                self.feed(Event::Unable { client, round, policy });
            }
            ClientMessage::Score { round, attack, psnr, ssim } => {
                if let Err(reason) = self.attacking.cards.score(client, round, &attack, psnr, ssim) {
                    self.refuse(client, &reason);
                }
            }
        }
    }

    /// Feeds the state machine and does what it asks for.
    fn feed(&mut self, event: Event) {
        if self.may_begin(&event) {
            self.make_weights();
        }
        self.handle(event);
        self.settle();
    }

    fn handle(&mut self, event: Event) {
        for effect in self.room.handle(event) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Plan { cohort, round, policy, settings, encryption, model } => {
                self.said_of_seal.clear();
                if round == 1 {
                    self.forget_earlier_model();
                }
                if self.room.update_counts().rounds() == 0 {
                    self.history.begun_anew();
                }
                self.attacking.attacker.keep_keys(encryption.map(|(_, check)| check));
                let encryption = encryption.map(|(salt, KeyCheck(check))| EncryptionPlan { salt, check });
                let task = Task::train((round, policy), settings, encryption, model.spec);
                self.ask(&cohort, task, &model);
            }
            Effect::NeedSalt => match random::bytes() {
                Ok(salt) => self.handle(Event::Salt(salt)),
                Err(error) => {
                    error!("{error}");
                    self.say(format!("The model cannot be encrypted: {error}."));
                }
            },
            Effect::Seal { client, policy, salt, spec, model } => {
                let name = self.roster.name(client);
                let line = match model {
                    Some(_) => format!("{name} is asked to encrypt the model."),
                    None => format!("{name} is asked to make a model and encrypt it."),
                };
                self.say_once(line);
                self.attacking.sent_plain(model.as_deref());
                let task = Task::seal(policy, salt, spec, model.is_some());
                let model = model.unwrap_or_else(|| Arc::clone(self.room.model()));
                self.ask(&[client], task, &model);
            }
            Effect::Sealed(client) => {
                self.deadline = None;
                self.task = None;
                self.said_of_seal.clear();
                self.compare_forms();
                let name = self.roster.name(client).to_owned();
                self.say(format!(
                    "{name} has encrypted the model; from here on the relay averages what it cannot read."
                ));
                self.history.sealed(name);
            }
            Effect::Deadline { round, policy } => {
                self.deadline = Some((Instant::now() + self.config.deadline, Event::Deadline { round, policy }));
            }
            Effect::Rest => self.rest = Some(Instant::now() + self.config.pace),
            Effect::Accepted { client, round } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.updates += 1;
                }
                self.attacking.begin();
                self.send(client, Slot::All, &RelayMessage::Accepted { round }, &[]);
            }
            Effect::Refused { client, refusal } => self.refuse(client, &refusal.to_string()),
            Effect::Spent(buffer) => self.spare.put(buffer),
            Effect::Closed(summary) => self.closed(summary),
        }
    }

    /// Sends a task to those who are to do it.
    fn ask(&mut self, clients: &[ClientId], task: Task, model: &Arc<GlobalModel>) {
        if let Some(parcel) = task.parcel(model) {
            for &client in clients {
                self.put(client, Slot::Task, parcel.clone());
            }
        }
        self.task = Some(task);
    }

    fn closed(&mut self, summary: RoundSummary) {
        self.history.closed(&summary, self.room.update_counts());
        let RoundSummary { round, settings, updates, loss, late, .. } = summary;
        self.deadline = None;
        self.task = None;
        info!(round, updates, loss, "round closed");
        if let Some(loss) = loss {
            keep(
                &mut self.losses,
                MAX_LOSSES,
                LossPoint { round, loss, updates, defence: settings.defence().to_string() },
            );
        }
        if !late.is_empty() {
            let names: Vec<&str> = late.iter().map(|client| self.roster.name(*client)).collect();
            self.say(format!("Round {round} closed without {}: no update in time.", names.join(", ")));
        }
        let Some(frames) = encode(&RelayMessage::Closed { round, loss, updates }, &[]) else { return };
        let present: Vec<ClientId> = self.roster.present().map(|entry| entry.id).collect();
        for client in present {
            self.put(client, Slot::All, frames.clone());
        }
    }

    /// A new model begins: nothing of the old one shall be shown beside it.
    fn forget_earlier_model(&mut self) {
        self.epoch += 1;
        self.losses.clear();
        self.attacking.forget_model();
        self.history.begun_anew();
    }

    /// Tells a client and the room what was refused.
    fn refuse(&mut self, client: ClientId, reason: &str) {
        warn!(client = client.0, reason, "refused");
        self.say(format!("{}: refused, {reason}.", self.roster.name(client)));
        self.send(client, Slot::All, &RelayMessage::Refused { reason: reason.to_owned() }, &[]);
    }

    fn send(&mut self, client: ClientId, slot: Slot, message: &RelayMessage, values: &[f32]) {
        if let Some(frames) = encode(message, values) {
            self.put(client, slot, frames);
        }
    }

    fn put(&mut self, client: ClientId, slot: Slot, parcel: Parcel) {
        let Some(link) = self.roster.get(client).and_then(|entry| entry.link.as_ref()) else { return };
        if !link.outbox.put(slot, parcel) {
            let seat = Seat { client, connection: link.connection };
            self.leave(seat, Some("it reads nothing any more".to_owned()));
        }
    }

    /// Says something of an encryption to come that may happen again and again: clients are asked in turn until one can.
    fn say_once(&mut self, text: String) {
        if self.said_of_seal.insert(text.clone()) {
            self.say(text);
        }
    }

    fn say(&mut self, text: String) {
        self.lines += 1;
        let line = LogLine { number: self.lines, round: self.room.round(), text };
        keep(&mut self.log, MAX_LOG, line);
    }
}

fn keep<T>(queue: &mut VecDeque<T>, max: usize, item: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// A message ready to be shared; its strings are short enough, so this does not fail in practice.
fn encode(message: &RelayMessage, values: &[f32]) -> Option<Parcel> {
    frames(message, values)
        .inspect_err(|error| error!("a message of the relay's own cannot be encoded: {error}"))
        .ok()
        .map(|frames| Parcel::Frames(frames.into_iter().map(Bytes::from).collect()))
}

fn protected(kind: UpdateKind, values: Vec<f32>) -> ProtectedUpdate {
    match kind {
        UpdateKind::Dense => ProtectedUpdate::Dense(values),
        UpdateKind::Masked { seed, zero_rates } => {
            ProtectedUpdate::Masked { seed: MaskSeed(seed), rates: GroupRates::from_bits(zero_rates), kept: values }
        }
        UpdateKind::Encrypted { check } => ProtectedUpdate::Encrypted { check: KeyCheck(check), values },
    }
}
