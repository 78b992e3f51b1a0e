//! The room's actor: the one task that owns the federation's state machine and the roster.

mod attacked;
mod controls;
mod view;

use std::{collections::VecDeque, sync::Arc};

use axum::body::Bytes;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tracing::{error, info, warn};
use unmask_defence::{MaskSeed, ProtectedUpdate, ZeroRate};
use unmask_federation::{ClientId, Effect, Event, GlobalModel, MemberState, Room, RoundSummary};
use unmask_params::{InitOptions, initial_weights};
use unmask_wire::{
    ClientMessage, RelayMessage, UpdateKind, frames,
    view::{Control, LogLine, LossPoint},
};

use self::attacked::Attacked;
pub(crate) use self::view::Standing;
use crate::{
    attacks::{Attacker, Finding, Job},
    config::RelayConfig,
    outbox::{Frames, Slot, Waiting, outbox},
    pictures::Pictures,
    random,
    roster::{Link, Roster, Seat, Ticket, clean},
    snapshot::Snapshot,
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

/// What the actor is told.
#[derive(Debug)]
pub(crate) enum Input {
    /// A socket has said hello.
    Hello { hello: Hello, reply: oneshot::Sender<Admission> },
    /// A message came; `bytes` is its length on the socket.
    Message { seat: Seat, message: ClientMessage, values: Vec<f32>, bytes: u64 },
    /// A socket said something that it must be closed for.
    Misbehaved { seat: Seat, reason: String },
    /// A socket was closed for what it said before any hello.
    Stranger { reason: String },
    /// A socket closed.
    Left { seat: Seat, reason: Option<String> },
    /// The teacher wants something.
    Control { control: Control, reply: oneshot::Sender<Result<(), String>> },
    /// An attack is done.
    Attacked(Box<Finding>),
}

/// The actor's state.
pub(crate) struct Actor {
    config: RelayConfig,
    room: Room,
    roster: Roster,
    connections: u64,
    /// The running round's plan, for those who come back in its midst.
    plan: Option<Frames>,
    deadline: Option<(Instant, Event)>,
    rest: Option<Instant>,
    losses: VecDeque<LossPoint>,
    log: VecDeque<LogLine>,
    lines: u64,
    /// Counts the models: what is known about an earlier one is not mixed in.
    epoch: u64,
    attacker: Attacker,
    attacked: Attacked,
    pictures: Arc<Pictures>,
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
        snapshots: watch::Sender<Snapshot>,
        inputs: mpsc::WeakSender<Input>,
    ) -> anyhow::Result<Self> {
        let seed = config.seed.map_or_else(random::seed, Ok)?;
        let weights = initial_weights(&config.spec.config(), seed, InitOptions::default());
        let model = GlobalModel { spec: config.spec, weights };
        let mut actor = Self {
            room: Room::new(model, config.defence, config.optimiser),
            roster: Roster::default(),
            connections: 0,
            plan: None,
            deadline: None,
            rest: None,
            losses: VecDeque::new(),
            log: VecDeque::new(),
            lines: 0,
            epoch: 0,
            attacker: Attacker::start(inputs)?,
            attacked: Attacked::default(),
            pictures,
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
            Input::Message { seat, message, values, bytes } => {
                if self.roster.seated(seat).is_some() {
                    self.message(seat, message, values, bytes);
                }
            }
            Input::Misbehaved { seat, reason } => {
                if self.roster.seated(seat).is_some() {
                    self.dismiss(seat.client, &reason);
                }
            }
            Input::Stranger { reason } => self.say(format!("A connection was refused: {reason}.")),
            Input::Left { seat, reason } => self.leave(seat, reason),
            // Whoever asked may have gone; the control is carried out all the same.
            Input::Control { control, reply } => drop(reply.send(self.control(control))),
            Input::Attacked(finding) => self.found(*finding),
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
        if self.room.target().is_none() {
            self.feed(Event::SetTarget(Some(client)));
        }
        // Still in the cohort, since its old socket had not been missed yet: the plan may have been lost with it.
        if self.room.member(client) == Some(MemberState::Training)
            && let Some(plan) = self.plan.clone()
        {
            self.put(client, Slot::Plan, plan);
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
        if self.room.target() == Some(client) {
            let next = self.roster.present().next().map(|entry| entry.id);
            self.feed(Event::SetTarget(next));
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
            ClientMessage::Update { round, policy, loss, samples: _, kind } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.bytes_sent += bytes;
                }
                match protected(kind, values) {
                    Ok(update) => {
                        if loss.is_finite()
                            && let Some(entry) = self.roster.get_mut(client)
                        {
                            entry.loss = Some(loss);
                        }
                        self.feed(Event::Update { client, round, policy, loss, update });
                    }
                    Err(reason) => {
                        self.refuse(client, &reason);
                        // Nobody waits for it any longer.
                        self.feed(Event::Unable { client, round, policy });
                    }
                }
            }
            ClientMessage::Unable { round, policy, reason } => {
                let reason = clean(&reason, MAX_REASON);
                self.say(format!("{} cannot take part in round {round}: {reason}", self.roster.name(client)));
                self.feed(Event::Unable { client, round, policy });
            }
            ClientMessage::Score { round, attack, psnr, ssim } => {
                if let Err(reason) = self.attacked.score(client, round, &attack, psnr, ssim) {
                    self.refuse(client, &reason);
                }
            }
        }
    }

    /// Feeds the state machine and does what it asks for.
    fn feed(&mut self, event: Event) {
        for effect in self.room.handle(event) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Plan { cohort, round, policy, defence, model } => {
                if round == 1 {
                    self.forget_earlier_model();
                }
                let plan = RelayMessage::Plan {
                    round,
                    policy,
                    model: model.spec.preset.name().to_owned(),
                    april_block: model.spec.april_block,
                    classes: u16::try_from(model.spec.classes).unwrap_or(u16::MAX),
                    defence: defence.to_string(),
                    batch: self.config.batch,
                };
                self.plan = encode(&plan, &model.weights);
                if let Some(plan) = self.plan.clone() {
                    for client in cohort {
                        self.put(client, Slot::Plan, Arc::clone(&plan));
                    }
                }
            }
            Effect::Deadline { round, policy } => {
                self.deadline = Some((Instant::now() + self.config.deadline, Event::Deadline { round, policy }));
            }
            Effect::Rest => self.rest = Some(Instant::now() + self.config.pace),
            Effect::Accepted { client, round } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.updates += 1;
                }
                self.send(client, Slot::All, &RelayMessage::Accepted { round }, &[]);
            }
            Effect::Refused { client, refusal } => self.refuse(client, &refusal.to_string()),
            Effect::Attack { client, round, defence, model, update } => {
                self.attacker.attack(Job { epoch: self.epoch, client, round, defence, model, update });
            }
            Effect::Closed(summary) => self.closed(summary),
        }
    }

    fn closed(&mut self, summary: RoundSummary) {
        let RoundSummary { round, defence, updates, loss, late } = summary;
        self.deadline = None;
        self.plan = None;
        info!(round, updates, loss, "round closed");
        if let Some(loss) = loss {
            keep(&mut self.losses, MAX_LOSSES, LossPoint { round, loss, updates, defence: defence.to_string() });
        }
        if !late.is_empty() {
            let names: Vec<&str> = late.iter().map(|client| self.roster.name(*client)).collect();
            self.say(format!("Round {round} closed without {}: no update in time.", names.join(", ")));
        }
        let Some(frames) = encode(&RelayMessage::Closed { round, loss, updates }, &[]) else { return };
        let present: Vec<ClientId> = self.roster.present().map(|entry| entry.id).collect();
        for client in present {
            self.put(client, Slot::All, Arc::clone(&frames));
        }
    }

    /// A new model begins: nothing of the old one shall be shown beside it.
    fn forget_earlier_model(&mut self) {
        self.epoch += 1;
        self.losses.clear();
        self.attacked = Attacked::default();
    }

    fn found(&mut self, finding: Finding) {
        if finding.epoch != self.epoch {
            return;
        }
        let (client, kind) = (finding.client, finding.kind);
        let nickname = self.roster.name(client).to_owned();
        if let Some((message, values)) = self.attacked.found(finding, nickname, &self.pictures) {
            self.send(client, Slot::Reconstruction(kind), &message, &values);
        }
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

    fn put(&mut self, client: ClientId, slot: Slot, frames: Frames) {
        let Some(link) = self.roster.get(client).and_then(|entry| entry.link.as_ref()) else { return };
        if !link.outbox.put(slot, frames) {
            let seat = Seat { client, connection: link.connection };
            self.leave(seat, Some("it reads nothing any more".to_owned()));
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
fn encode(message: &RelayMessage, values: &[f32]) -> Option<Frames> {
    frames(message, values)
        .inspect_err(|error| error!("a message of the relay's own cannot be encoded: {error}"))
        .ok()
        .map(|frames| frames.into_iter().map(Bytes::from).collect())
}

fn protected(kind: UpdateKind, values: Vec<f32>) -> Result<ProtectedUpdate, String> {
    Ok(match kind {
        UpdateKind::Dense => ProtectedUpdate::Dense(values),
        UpdateKind::Masked { seed, zero_rate } => {
            let rate = ZeroRate::from_bits(zero_rate).map_err(|error| error.to_string())?;
            ProtectedUpdate::Masked { seed: MaskSeed(seed), rate, kept: values }
        }
    })
}
