//! The room's actor: the one task that owns the federation's state machine and the room's components, and routes
//! between them. A component owns its state and returns the lines to log and the messages to send.

mod answers;
mod clock;
mod contest;
pub(crate) mod control_error;
mod controls;
pub(crate) mod data_set;
mod door;
mod effects;
pub(crate) mod evaluation;
pub(crate) mod files;
mod forgetting;
mod history;
pub(crate) mod initialiser;
pub(crate) mod input;
pub(crate) mod joining;
mod journaling;
mod lending;
pub(crate) mod lesson;
mod log;
pub(crate) mod measuring;
mod memory;
mod moderation;
pub(crate) mod outer;
mod outer_rounds;
mod people;
pub mod privacy;
mod recent;
mod resuming;
pub(crate) mod roster;
pub(crate) mod shadow;
mod sharing;
mod snapshot;
mod stage;
mod tasks;
mod ticket;
mod timers;
mod trade_off;
mod updates;
mod view;

use std::sync::Arc;

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tracing::warn;
use unmask_core::{ClientId, RoundSettings, TrainOn};
use unmask_defence::ProtectedUpdate;
use unmask_federation::{Event, ReceivedUpdate, Room, RoomPhase};
use unmask_lesson::Beat;
use unmask_wire::{ClientMessage, RelayMessage, view::Control};

use self::{
    contest::Contest,
    door::Door,
    history::History,
    initialiser::Initialiser,
    journaling::Journaling,
    lesson::{LastLesson, Opening},
    log::Log,
    measuring::Measuring,
    outer::OuterWork,
    roster::{Connection, Entry, Roster},
    shadow::{Shadow, ShadowNews},
    sharing::Sharing,
    stage::Stage,
    tasks::Task,
    timers::Timers,
};
pub use self::{
    data_set::DataConfig,
    evaluation::{BatchEvaluation, ModelEvaluator},
    initialiser::Pretrained,
    joining::{JoiningRoom, Membership, OuterFederation},
    lesson::{Resumed, last_lesson},
    shadow::ShadowRoom,
};
pub(crate) use self::{
    data_set::SharedDataSet,
    input::Input,
    snapshot::{JoinAddresses, Snapshot},
};
use crate::{
    attacks::{Attacks, Pictures},
    config::RelayConfig,
    connection::{
        in_flight::InFlight,
        outbox::{OutboxMessage, Slot},
        reusable_buffer::ReusableBuffer,
    },
    random,
    recording::{Kept, Recorder, RecordingFile},
    text::clean,
};

const MAX_REASON: usize = 200;

/// Parts of the room that connections and HTTP handlers also use.
pub(crate) struct Shared {
    /// Reconstructions, and pictures that clients show of their own.
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) in_flight: InFlight,
    pub(crate) reusable_buffer: ReusableBuffer,
}

pub(crate) struct Actor {
    config: RelayConfig,
    room: Room,
    roster: Roster,
    door: Door,
    attacks: Attacks,
    shared: Shared,
    recorder: Recorder,
    stage: Stage,
    /// The game in which students attack each other's updates, while the class is at its question.
    contest: Option<Contest>,
    sharing: Sharing,
    measuring: Measuring,
    shadow: Shadow,
    outer: OuterWork,
    history: History,
    log: Log,
    initialiser: Initialiser,
    timers: Timers,
    journaling: Journaling,
    /// The last request to the clients, repeated to a client that reconnects before it is finished.
    task: Option<Task>,
    snapshots: watch::Sender<Snapshot>,
    /// Weak, so that threads that report to the room do not keep it alive.
    inputs: mpsc::WeakSender<Input>,
}

impl Actor {
    /// Resumes the last lesson, or opens a paused room with fresh or pretrained weights.
    pub(crate) fn new(
        config: RelayConfig,
        mut opening: Opening,
        join_addresses: JoinAddresses,
        shared: Shared,
        snapshots: watch::Sender<Snapshot>,
        inputs: mpsc::WeakSender<Input>,
    ) -> anyhow::Result<Self> {
        let now = Instant::now();
        let mut initialiser = Initialiser::new(config.initial_weights, config.pretrained.clone());
        let mut sharing = Sharing::new(config.data.clone(), config.data_seed(), opening.data_set.take());
        let report = reporter(inputs.clone(), Input::Journaled);
        let journaled = move |saved| {
            report(saved);
        };
        let journaling = Journaling::start(journaled, &mut opening)?;
        let Opening { last, problems, .. } = opening;
        let (room, lesson) = match last {
            Some(last) => {
                let LastLesson { lesson, room } = *last;
                (room, Some(lesson))
            }
            None => (first_room(&config, &mut initialiser, &mut sharing)?, None),
        };
        let (recorder, problem) = recorder(&config, journaling.head().began, inputs.clone(), now)?;
        memory::check(&config, room.model().architecture)?;
        let attacked = reporter(inputs.clone(), Input::Attacked);
        let evaluated = reporter(inputs.clone(), Input::Evaluated);
        let shadowed = reporter(inputs.clone(), Input::Shadow);
        let shadow_seed = config.seed.map_or_else(random::seed, Ok)?;
        let mut actor = Self {
            room: room.with_quorum(config.quorum),
            roster: Roster::default(),
            door: Door::new(join_addresses),
            attacks: Attacks::start(
                attacked,
                Arc::clone(&shared.pictures),
                config.attack_budget,
                config.searches.clone(),
            )?,
            shared,
            recorder,
            stage: Stage::default(),
            contest: None,
            sharing,
            measuring: Measuring::start(evaluated, config.evaluator.clone(), config.data.evaluation_budget)?,
            shadow: Shadow::start(shadowed, config.shadow.clone(), shadow_seed)?,
            outer: OuterWork::new(config.outer.as_ref().map(|outer| outer.server())),
            history: History::default(),
            log: Log::default(),
            initialiser,
            timers: Timers::new(now),
            journaling,
            task: None,
            snapshots,
            inputs,
            config,
        };
        problems.into_iter().chain(problem).for_each(|problem| actor.say(problem));
        match lesson {
            Some(lesson) => actor.restore(lesson, now)?,
            None if actor.config.start => actor.feed(Event::Start),
            None => {}
        }
        actor.journaling.changed(now, true);
        actor.recorder.changed(now);
        actor.measuring.measure(&actor.room, &actor.sharing);
        actor.publish();
        Ok(actor)
    }

    /// Runs until every sender of inputs is gone.
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
                    // Drain the queue first, so that a burst is published once.
                    for _ in 0..inputs.len() {
                        if let Ok(input) = inputs.try_recv() {
                            self.take(input);
                        }
                    }
                }
                () = timer => {}
            }
            self.timers.hold(self.journaling.holds_until());
            self.tick(Instant::now());
            self.work_for_outer();
            if self.journaling.next_due().is_some_and(|due| due <= Instant::now()) {
                self.write_down();
            }
            self.attacks.room_is_paused(self.room.phase() == RoomPhase::Paused);
            self.measuring.measure(&self.room, &self.sharing);
            self.publish();
            self.record();
        }
    }

    fn take(&mut self, input: Input) {
        self.recorder.changed(Instant::now());
        if input.is_change() {
            self.journaling.changed(Instant::now(), matches!(input, Input::Hello { .. }));
        }
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
            Input::TurnedAway { count: 1, reason } => self.say(format!("A connection was refused: {reason}.")),
            Input::TurnedAway { count, reason } => self.say(format!("{count} connections were refused: {reason}.")),
            Input::Left { connection, reason } => self.leave(connection, reason),
            // Carry the control out even if the sender no longer waits for the reply.
            Input::Control { control: Control::Collude { passphrase: Some(passphrase) }, reply } => {
                self.derive_key(passphrase, reply);
            }
            Input::Control { control: Control::TrainOn { pictures }, reply } => self.train_on(pictures, reply),
            Input::Control { control, reply } => {
                let done = self.control(control);
                // A page that hears that it is done finds the room after it.
                self.publish();
                drop(reply.send(done));
            }
            Input::Candidate { picture, reply } => drop(reply.send(self.take_candidate(picture))),
            Input::KeyDerived { key, reply } => drop(reply.send(self.take_key(key))),
            Input::DataSetLoaded { data_set, reply } => drop(reply.send(self.set_data_set(data_set))),
            Input::PinRenewed { pin, number } => {
                self.door.renew_pin(pin, number);
                self.say("Too many wrong PINs were tried; the room has a new PIN.".to_owned());
            }
            Input::Attacked(report) => self.take_report(report),
            Input::Evaluated(evaluation) => {
                if let Some(point) = self.measuring.measured(evaluation, self.sharing.data_set()) {
                    self.history.measured(point.round, point.accuracy);
                }
            }
            Input::Shadow(ShadowNews::Measured(columns)) => self.shadow.measured(columns),
            Input::Shadow(ShadowNews::Failed(reason)) => {
                self.say(format!("The robots beside the class train no more: {reason}."));
            }
            Input::Outer(input) => self.hear_outer(input),
            Input::Journaled(saved) => {
                if let Some(line) = self.journaling.saved(saved) {
                    self.say(line);
                }
            }
            Input::Recorded(line) => self.say(line),
            Input::Recording { reply } => self.recorder.give(reply),
            Input::Download { reply } => drop(reply.send(Box::new(self.files()))),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let sweep = self.roster.next_sweep(&self.config.limits);
        let due = [self.timers.next_due(), self.journaling.next_due(), self.recorder.next_due(), sweep];
        due.into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        if let Some(event) = self.timers.take_deadline(now) {
            self.recorder.changed(now);
            self.feed(event);
        }
        if let Some(event) = self.timers.take_rest(now) {
            self.recorder.changed(now);
            self.feed(event);
        }
        for client in self.roster.sweep(now, &self.config.limits) {
            self.recorder.changed(now);
            self.feed(Event::Forgotten(client));
        }
    }

    fn message(&mut self, connection: Connection, message: ClientMessage, values: Vec<f32>, bytes: u64) {
        let client = connection.client;
        if let Some(entry) = self.roster.get_mut(client) {
            entry.has_its_ticket();
        }
        match message {
            ClientMessage::Hello { .. } => self.refuse(client, "a second hello on one connection; it is ignored"),
            ClientMessage::Consent { may_show, may_lend } => self.consents(client, may_show, may_lend),
            ClientMessage::Visibility { is_hidden } => self.feed(Event::Visibility { client, is_hidden }),
            ClientMessage::Return => self.come_back(client),
            ClientMessage::Ping => self.send(client, Slot::All, &RelayMessage::Pong, &[]),
            ClientMessage::Device { device } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.set_device(&device);
                }
            }
            ClientMessage::Update { round, policy, loss, samples, form } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.count_bytes(bytes);
                }
                let update = ProtectedUpdate { form, values };
                self.take_update(ReceivedUpdate {
                    client,
                    round,
                    policy,
                    loss,
                    samples,
                    update,
                    statistics: Vec::new(),
                });
            }
            ClientMessage::Sealed { policy, check } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.count_bytes(bytes);
                }
                self.feed(Event::Sealed { client, policy, check, weights: values });
            }
            ClientMessage::Unable { round, policy, reason, is_locked } => {
                self.excused(client, round, clean(&reason, MAX_REASON), is_locked);
                self.feed(Event::Unable { client, round, policy });
            }
            ClientMessage::Score { round, attack, psnr, ssim } => {
                match self.attacks.score(client, round, attack, psnr, ssim) {
                    Ok(Some(defence)) => self.history.scored(defence, attack, round, ssim),
                    Ok(None) => {}
                    Err(reason) => self.refuse(client, &reason.to_string()),
                }
            }
            ClientMessage::Vote { poll, answer } => {
                let is_robots = self.roster.get(client).is_some_and(Entry::is_robot);
                match (self.stage.vote((client, is_robots), poll, answer), &mut self.contest) {
                    (Ok(()), Some(contest)) => contest.guess(client, poll, answer),
                    (Ok(()), None) => {}
                    (Err(reason), _) => self.refuse(client, &reason.to_string()),
                }
            }
            ClientMessage::KnowGaps { poll } => {
                if let Some(contest) = &mut self.contest {
                    contest.know_gaps(client, poll);
                }
            }
            ClientMessage::Original { side } => {
                if let Err(reason) = self.show_original(client, side, &values) {
                    self.refuse(client, &reason.to_string());
                }
            }
            ClientMessage::HideOriginal => {
                self.recorder.hide_original(client);
                self.hide_original(client);
            }
            ClientMessage::Forget => self.forget(client),
        }
    }

    /// Feeds the state machine and performs the effects it returns.
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

    /// Clears results of the old model, so that none appears beside the new one.
    fn forget_earlier_model(&mut self) {
        self.attacks.forget_model();
        self.measuring.forget_model(self.room.model());
        self.history.forget_model();
        if let Some(contest) = &mut self.contest {
            contest.forget_model();
        }
    }

    /// Attacks everybody while the wall shows everybody.
    fn look_at_everybody(&mut self) {
        self.attacks.attack_everybody(self.stage.place().beat() == Beat::ShowEverybody);
    }

    /// Tells both the client and the room why something was refused.
    fn refuse(&mut self, client: ClientId, reason: &str) {
        self.log_refusal(client, reason);
        self.send(client, Slot::All, &RelayMessage::Refused { reason: reason.to_owned() }, &[]);
    }

    fn log_refusal(&mut self, client: ClientId, reason: &str) {
        let line = format!("{}: refused, {reason}.", self.roster.name(client));
        let is_taken = self.roster.get_mut(client).is_none_or(Entry::takes_line);
        if is_taken && self.log.say_if_new(client, self.room.round(), line) {
            warn!(client = client.0, reason, "refused");
        }
    }

    fn send(&mut self, client: ClientId, slot: Slot, message: &RelayMessage, values: &[f32]) {
        if let Some(message) = OutboxMessage::encode(message, values) {
            self.put(client, slot, message);
        }
    }

    fn put(&mut self, client: ClientId, slot: Slot, message: OutboxMessage) {
        if let Some(deaf) = self.roster.put(client, slot, message) {
            self.leave(deaf, Some("it no longer reads its messages".to_owned()));
        }
    }

    /// Logs a line about a coming encryption, unless it was logged before.
    fn say_once(&mut self, about: ClientId, text: String) {
        self.log.say_once(about, self.room.round(), text);
    }

    fn say_of(&mut self, about: impl Into<Vec<ClientId>>, text: String) {
        self.log.say_of(about.into(), self.room.round(), text);
    }

    fn say(&mut self, text: impl Into<String>) {
        self.log.say(self.room.round(), text.into());
    }
}

/// Writes down pending changes when the relay stops in an orderly way. By then [`run`](Actor::run) has dropped the
/// inputs' receiver. Otherwise the room and the journal's thread would wait for each other.
impl Drop for Actor {
    fn drop(&mut self) {
        // After a panic the state may be half changed.
        if std::thread::panicking() {
            return;
        }
        if self.journaling.is_unwritten() {
            self.write_down();
        }
        self.recorder.record_last(Instant::now(), &Arc::new(self.view()), &self.shared.pictures);
    }
}

/// Returns a function that sends the room an input from another thread; the function returns false once the room is
/// gone.
fn reporter<T>(inputs: mpsc::WeakSender<Input>, input: impl Fn(T) -> Input) -> impl Fn(T) -> bool {
    move |news| inputs.upgrade().is_some_and(|room| room.blocking_send(input(news)).is_ok())
}

fn first_room(config: &RelayConfig, initialiser: &mut Initialiser, sharing: &mut Sharing) -> anyhow::Result<Room> {
    let seed = config.seed.map_or_else(random::seed, Ok)?;
    initialiser.check(config.initial_weights, config.architecture)?;
    let (model, _) = initialiser.begin(config.architecture, seed);
    config.defence.check(config.architecture)?;
    let mut settings = RoundSettings::new(config.defence, config.rule, config.batch, config.optimiser)?
        .with_aggregation(config.aggregation);
    if config.data.train_on == TrainOn::Shared {
        settings = settings.with_pictures(sharing.shared()?);
    }
    Ok(Room::new(model, settings))
}

/// Opens the recording of the lesson that began at `began`, with a line about any problem with the existing one.
fn recorder(
    config: &RelayConfig,
    began: u64,
    inputs: mpsc::WeakSender<Input>,
    now: Instant,
) -> anyhow::Result<(Recorder, Option<String>)> {
    let report = reporter(inputs, Input::Recorded);
    let kept = match (config.recording, config.journal.is_some()) {
        (true, true) => Kept::InFolder(config.data_dir.clone()),
        (true, false) => Kept::InMemory,
        (false, has_journal) => {
            if has_journal {
                RecordingFile::delete(&config.data_dir, began);
            }
            Kept::Nowhere
        }
    };
    let said = move |line| {
        report(line);
    };
    Recorder::start(said, kept, began, now)
}
