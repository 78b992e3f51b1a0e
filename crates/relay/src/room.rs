//! The room's actor: the one task that owns the federation's state machine and the roster.

mod attacking;
mod candidate;
mod clock;
mod controls;
mod data_set;
mod effects;
mod evaluation;
mod history;
mod initialiser;
mod measuring;
mod people;
pub mod privacy;
mod roster;
mod sharing;
mod snapshot;
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
use tracing::{error, warn};
use unmask_core::{Architecture, ClientId, InitialWeights, RoundSettings, TrainOn};
use unmask_defence::ProtectedUpdate;
use unmask_federation::{Event, ReceivedUpdate, Room};
use unmask_wire::{
    ClientMessage, RelayMessage, frames,
    view::{Control, LogLine, LossPoint},
};

use self::{
    attacking::Attacking,
    clock::RoundClock,
    evaluation::Evaluation,
    history::History,
    initialiser::Initialiser,
    measuring::Measuring,
    roster::{Roster, Ticket},
    sharing::Sharing,
    tasks::Task,
};
pub(crate) use self::{
    candidate::CandidatePicture,
    data_set::{EncodedShard, SharedDataSet},
    roster::Connection,
    snapshot::Snapshot,
    view::JoinAddresses,
};
pub use self::{
    data_set::DataConfig,
    evaluation::{BatchEvaluation, ModelEvaluator},
    initialiser::Pretrained,
};
use crate::{
    attacks::{GivenKey, Pictures, Report},
    config::RelayConfig,
    connection::{OutboxMessage, ReusableBuffer, Slot, Waiting},
    random,
    text::clean,
};

const MAX_LOSSES: usize = 1000;
const MAX_LOG: usize = 100;
const MAX_REASON: usize = 200;

#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) nickname: String,
    pub(crate) resume: Option<Ticket>,
    pub(crate) device: String,
}

/// A client's connection and what it shall be sent, or why it cannot come in.
pub(crate) type Admission = Result<(Connection, Waiting), String>;

/// What the actor is told. It has no debug form: a control may carry a passphrase.
pub(crate) enum Input {
    /// A socket has said hello.
    Hello { hello: Hello, reply: oneshot::Sender<Admission> },
    /// A message came; `bytes` is its length on the socket.
    Message { connection: Connection, message: ClientMessage, values: Vec<f32>, bytes: u64, done: Done },
    /// A socket said something that it must be closed for.
    Misbehaved { connection: Connection, reason: String },
    /// A socket was closed for what it said before any hello.
    TurnedAway { reason: String },
    /// A socket closed.
    Left { connection: Connection, reason: Option<String> },
    /// The teacher wants something.
    Control { control: Control, reply: Reply },
    /// The teacher dropped a picture.
    Candidate { picture: CandidatePicture, reply: Reply },
    /// A passphrase that the teacher gave away has become a key, or is the wrong one.
    KeyDerived { key: Result<GivenKey, String>, reply: Reply },
    /// The data set that the teacher asked for is in memory, or cannot be.
    DataSetLoaded { data_set: Result<Box<SharedDataSet>, String>, reply: Reply },
    /// News of an attack.
    Attacked(Report),
    /// A model was measured.
    Evaluated(Evaluation),
}

/// Dropped once a message is dealt with.
pub(crate) type Done = oneshot::Sender<()>;

/// Tells the teacher that it is done, or why it cannot be.
pub(crate) type Reply = oneshot::Sender<Result<(), String>>;

pub(crate) struct Actor {
    config: RelayConfig,
    room: Room,
    roster: Roster,
    connections: u64,
    /// What clients were last asked to do, for those who come back in the midst of it.
    task: Option<Task>,
    /// The model chosen for the next round.
    chosen_model: Option<Architecture>,
    history: History,
    /// The client under attack.
    target: Option<ClientId>,
    attacking: Attacking,
    sharing: Sharing,
    measuring: Measuring,
    initialiser: Initialiser,
    /// Of the model in force, which are not always those chosen.
    initial_weights: InitialWeights,
    said_of_seal: HashSet<String>,
    clock: RoundClock,
    deadline: Option<(Instant, Event)>,
    rest: Option<Instant>,
    losses: VecDeque<LossPoint>,
    log: VecDeque<LogLine>,
    lines: u64,
    /// Counts the models: what is known about an earlier one is not mixed in.
    epoch: u64,
    reusable_buffer: ReusableBuffer,
    join_addresses: JoinAddresses,
    snapshots: watch::Sender<Snapshot>,
    /// Where threads report that work for the room.
    inputs: mpsc::WeakSender<Input>,
}

impl Actor {
    /// A paused room with fresh weights, or pretrained ones; `data_set` is its data set where that is in memory already.
    pub(crate) fn new(
        config: RelayConfig,
        data_set: Option<SharedDataSet>,
        join_addresses: JoinAddresses,
        pictures: Arc<Pictures>,
        reusable_buffer: ReusableBuffer,
        snapshots: watch::Sender<Snapshot>,
        inputs: mpsc::WeakSender<Input>,
    ) -> anyhow::Result<Self> {
        let seed = config.seed.map_or_else(random::seed, Ok)?;
        let initialiser = Initialiser::new(config.initial_weights, config.pretrained.clone());
        initialiser.check(config.initial_weights, config.architecture).map_err(anyhow::Error::msg)?;
        let (model, initial_weights) = initialiser.model(config.architecture, seed);
        let mut sharing = Sharing::new(&config, data_set);
        config.defence.check(config.architecture)?;
        let mut settings = RoundSettings::new(config.defence, config.rule, config.batch, config.optimiser)?
            .with_aggregation(config.aggregation);
        if config.data.train_on == TrainOn::Shared {
            settings = settings.with_pictures(sharing.shared(&config).map_err(anyhow::Error::msg)?);
        }
        check_memory(&config, model.state.weights.len())?;
        let mut actor = Self {
            room: Room::new(model, settings).with_quorum(config.quorum),
            roster: Roster::default(),
            connections: 0,
            task: None,
            chosen_model: None,
            history: History::default(),
            target: None,
            attacking: Attacking::start(inputs.clone(), pictures, config.attack_budget, config.searches.clone())?,
            sharing,
            measuring: Measuring::start(inputs.clone(), &config)?,
            initialiser,
            initial_weights,
            said_of_seal: HashSet::new(),
            clock: RoundClock::start(Instant::now()),
            deadline: None,
            rest: None,
            losses: VecDeque::new(),
            log: VecDeque::new(),
            lines: 0,
            epoch: 0,
            reusable_buffer,
            join_addresses,
            snapshots,
            inputs,
            config,
        };
        if actor.config.start {
            actor.feed(Event::Start);
        }
        actor.measure();
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
            self.measure();
            self.publish();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Hello { hello, reply } => {
                let admission = self.admit(&hello);
                let connection = admission.as_ref().ok().map(|(connection, _)| *connection);
                if reply.send(admission).is_err()
                    && let Some(connection) = connection
                {
                    self.leave(connection, None);
                }
            }
            Input::Message { connection, message, values, bytes, done } => {
                if self.roster.connected(connection).is_some() {
                    self.message(connection, message, values, bytes);
                }
                drop(done);
            }
            Input::Misbehaved { connection, reason } => {
                if self.roster.connected(connection).is_some() {
                    self.dismiss(connection.client, &reason);
                }
            }
            Input::TurnedAway { reason } => self.say(format!("A connection was refused: {reason}.")),
            Input::Left { connection, reason } => self.leave(connection, reason),
            // Whoever asked may have gone; the control is carried out all the same.
            Input::Control { control: Control::Collude { passphrase: Some(passphrase) }, reply } => {
                self.derive_key(passphrase, reply);
            }
            Input::Control { control: Control::TrainOn { pictures }, reply } => self.train_on(pictures, reply),
            Input::Control { control, reply } => drop(reply.send(self.control(control))),
            Input::Candidate { picture, reply } => drop(reply.send(self.take_candidate(picture))),
            Input::KeyDerived { key, reply } => drop(reply.send(self.take_key(key))),
            Input::DataSetLoaded { data_set, reply } => drop(reply.send(self.set_data_set(data_set))),
            Input::Attacked(report) => self.heard(report),
            Input::Evaluated(evaluation) => self.measured(evaluation),
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

    fn message(&mut self, connection: Connection, message: ClientMessage, mut values: Vec<f32>, bytes: u64) {
        let client = connection.client;
        match message {
            ClientMessage::Hello { .. } => self.refuse(client, "a second hello on one connection; it is ignored"),
            ClientMessage::Consent { .. }
            | ClientMessage::Visibility { .. }
            | ClientMessage::Return
            | ClientMessage::Ping => {}
            ClientMessage::Device { device } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.set_device(&device);
                }
            }
            ClientMessage::Update { round, policy, loss, samples, form } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.bytes_sent += bytes;
                    if loss.is_finite() {
                        entry.loss = Some(loss);
                    }
                }
                let statistics = self.room.model().state.statistics.len();
                let statistics = values.split_off(values.len().saturating_sub(statistics));
                let update = ProtectedUpdate { form, values };
                if self.target == Some(client) {
                    self.read(client, round, samples, &update);
                }
                let received = ReceivedUpdate { client, round, policy, loss, samples, update, statistics };
                self.feed(Event::Update(received));
                self.attacking.job = None;
            }
            ClientMessage::Sealed { policy, check } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.bytes_sent += bytes;
                }
                self.feed(Event::Sealed { client, policy, check, weights: values });
            }
            ClientMessage::Unable { round, policy, reason, is_locked } => {
                self.excused(client, round, clean(&reason, MAX_REASON), is_locked);
                self.feed(Event::Unable { client, round, policy });
            }
            ClientMessage::Score { round, attack, psnr, ssim } => {
                if let Err(reason) = self.attacking.cards.score(client, round, attack, psnr, ssim) {
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

    /// A new model begins: nothing of the old one shall be shown beside it.
    fn forget_earlier_model(&mut self) {
        self.epoch += 1;
        self.losses.clear();
        self.attacking.forget_model();
        self.forget_measured();
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

    fn put(&mut self, client: ClientId, slot: Slot, message: OutboxMessage) {
        let Some(link) = self.roster.get(client).and_then(|entry| entry.link.as_ref()) else { return };
        if !link.outbox.put(slot, message) {
            let connection = Connection { client, number: link.connection };
            self.leave(connection, Some("it reads nothing any more".to_owned()));
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

/// Tells the room something from another thread; false once the room is gone.
fn reporter<T>(inputs: mpsc::WeakSender<Input>, input: impl Fn(T) -> Input) -> impl Fn(T) -> bool {
    move |news| inputs.upgrade().is_some_and(|room| room.blocking_send(input(news)).is_ok())
}

/// Whether the updates that an aggregation holds fit in memory, all of a full room's.
fn check_memory(config: &RelayConfig, parameters: usize) -> anyhow::Result<()> {
    const MOST: u64 = 2 << 30;
    let (aggregation, clients) = (config.aggregation, config.limits.clients);
    let needed = aggregation.memory(parameters, clients);
    anyhow::ensure!(
        needed <= MOST,
        "{aggregation} holds every update of a round: {:.1} GB for {clients} clients on {}, and 2 GB are the limit; choose \
         clipped or a smaller model",
        needed as f64 / 1e9,
        config.architecture
    );
    Ok(())
}

fn keep<T>(queue: &mut VecDeque<T>, max: usize, item: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// A message ready to be shared; its strings are short enough, so this does not fail in practice.
fn encode(message: &RelayMessage, values: &[f32]) -> Option<OutboxMessage> {
    frames(message, values)
        .inspect_err(|error| error!("a message of the relay's own cannot be encoded: {error}"))
        .ok()
        .map(|frames| OutboxMessage::Frames(frames.into_iter().map(Bytes::from).collect()))
}
