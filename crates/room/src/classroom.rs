//! The room: it owns the federation's state machine and its own components, and routes between them. A component owns
//! its state and returns the lines to log and the messages to send.

use std::sync::Arc;

use anyhow::ensure;
use tracing::warn;
use unmask_core::{ClientId, RoundSettings, TrainOn};
use unmask_defence::ProtectedUpdate;
use unmask_federation::{Event, GlobalModel, ReceivedKeys, ReceivedUpdate, Room, RoomPhase};
use unmask_wire::{
    ClientMessage, FORGOTTEN, RelayMessage,
    view::{Control, RoomView},
};

use crate::{
    attacks::{Attacks, Pictures},
    checks::Checks,
    config::RoomConfig,
    contest::Contest,
    door::Door,
    history::History,
    host::{Host, Parts},
    initialiser::Initialiser,
    input::Input,
    journaling::Journaling,
    lesson::{LastLesson, Opening},
    log::Log,
    measuring::Measuring,
    memory,
    moderation::Farewell,
    outbox::{OutboxMessage, Slot},
    outer::OuterWork,
    randomness::Randomness,
    recording::Recorder,
    roster::{Connection, Entry, Roster},
    shadow::{self, Shadow, ShadowNews},
    sharing::Sharing,
    stage::Stage,
    summing::{self, Summing},
    tasks::Task,
    text::clean,
    time::{Moment, Now},
    timers::Timers,
};

/// Longest reason that a client gives, in characters.
pub(crate) const MAX_REASON: usize = 200;

/// A room without sockets, threads, files and clocks: inputs, time and randomness go in; effects come out.
///
/// The host calls [`take`](Self::take) with each input, and [`work`](Self::work) after one or several of them and
/// whenever [`next_due`](Self::next_due) has come.
pub struct Classroom {
    pub(crate) config: RoomConfig,
    pub(crate) room: Room,
    pub(crate) roster: Roster,
    pub(crate) door: Door,
    pub(crate) attacks: Attacks,
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) recorder: Recorder,
    pub(crate) stage: Stage,
    /// The game in which students attack each other's updates, while the class is at its question.
    pub(crate) contest: Option<Contest>,
    pub(crate) sharing: Sharing,
    pub(crate) measuring: Measuring,
    pub(crate) shadow: Shadow,
    pub(crate) outer: OuterWork,
    pub(crate) checks: Checks,
    pub(crate) history: History,
    pub(crate) summing: Summing,
    pub(crate) log: Log,
    pub(crate) initialiser: Initialiser,
    pub(crate) timers: Timers,
    pub(crate) journaling: Journaling,
    pub(crate) farewells: Vec<Farewell>,
    /// The last request to the clients, repeated to a client that reconnects before it is finished.
    pub(crate) task: Option<Task>,
    pub(crate) host: Box<dyn Host>,
    pub(crate) randomness: Randomness,
    /// The time of the current input.
    pub(crate) now: Now,
    /// The state shown last.
    pub(crate) published: Arc<RoomView>,
}

impl Classroom {
    /// Resumes the last lesson, or opens a paused room with fresh or pretrained weights.
    ///
    /// # Errors
    /// If the settings do not go together, or the last lesson's data set cannot be divided as before.
    pub fn open(config: RoomConfig, mut opening: Opening, parts: Parts, now: Now) -> anyhow::Result<Self> {
        let Parts { host, attackers, pictures, evaluator, shadow, loader, accountant, .. } = parts;
        let mut randomness = Randomness::new(parts.randomness);
        let mut initialiser = Initialiser::new(config.initial_weights, config.pretrained.clone());
        let mut sharing = Sharing::new(config.data.clone(), config.data_seed(), opening.data_set.take(), loader);
        let most_behind = config.journal.clone().unwrap_or_default().most_behind;
        let journaling = Journaling::new(parts.journal, most_behind, &opening);
        let Opening { last, problems, .. } = opening;
        let (room, lesson) = match last {
            Some(last) => {
                let LastLesson { lesson, room } = *last;
                (room, Some(lesson))
            }
            None => (first_room(&config, &mut initialiser, &mut sharing, &mut randomness)?, None),
        };
        memory::check(&config, room.model().architecture)?;
        pictures.forget_all();
        let mut classroom = Self {
            room: room.with_quorum(config.quorum),
            roster: Roster::default(),
            door: Door::new(parts.addresses, (config.locked, config.approve_first)),
            attacks: Attacks::new(attackers, Arc::clone(&pictures)),
            pictures,
            recorder: Recorder::new(parts.archived, now.moment),
            stage: Stage::default(),
            contest: None,
            sharing,
            measuring: Measuring::new(evaluator, config.data.evaluation_budget),
            shadow: Shadow::default(),
            outer: OuterWork::new(parts.federation),
            checks: Checks::new(randomness.seed()),
            history: History::new(accountant),
            summing: Summing::new(&mut randomness),
            log: Log::default(),
            initialiser,
            timers: Timers::new(now.moment),
            journaling,
            farewells: Vec::new(),
            task: None,
            host,
            randomness,
            now,
            published: Arc::default(),
            config,
        };
        classroom.log.set_time(now.unix);
        if let Some(room) = shadow {
            let seed = classroom.config.seed.unwrap_or_else(|| classroom.randomness.seed());
            ensure!(
                classroom.host.start(shadow::training(room, seed)),
                "cannot start the thread for the robots beside the class"
            );
        }
        problems.into_iter().for_each(|problem| classroom.say(problem));
        match lesson {
            Some(lesson) => classroom.restore(lesson, now.moment)?,
            None if classroom.config.start => classroom.feed(Event::Start),
            None => {}
        }
        classroom.roster.count_sockets_from(parts.sockets_before);
        classroom.journaling.changed(now.moment, true);
        classroom.recorder.changed(now.moment);
        classroom.measuring.measure(&classroom.room, &classroom.sharing, classroom.host.as_mut());
        classroom.publish();
        Ok(classroom)
    }

    /// Does what is due, and shows, saves and records what has changed. Call this after inputs: after a burst once, so
    /// that it is published once.
    pub fn work(&mut self, now: Now) {
        self.set_time(now);
        self.timers.hold(self.journaling.holds_until());
        // Before a round begins with the weights of the last one.
        self.fish_again();
        self.tick(now.moment);
        self.work_for_outer();
        self.begin_first_round_again();
        if self.journaling.next_due().is_some_and(|due| due <= now.moment) {
            self.write_down();
        }
        self.say_farewells();
        self.attacks.room_is_paused(self.room.phase() == RoomPhase::Paused);
        self.measuring.measure(&self.room, &self.sharing, self.host.as_mut());
        self.publish();
        self.record();
    }

    /// Begins again with a model whose first round lacked what the lesson shows: clients for a sum, or the one whose
    /// update is searched.
    fn begin_first_round_again(&mut self) {
        if self.room.phase() != RoomPhase::Paused || self.stage.is_held() || self.room.round() != 1 {
            return;
        }
        let is_sum_lacking = self.attacks.wants_round() && self.published.situation().suspects().len() > 1;
        let is_target_free = self.attacks.target().is_some_and(|target| self.room.member(target).is_free());
        let is_search_lacking =
            self.stage.place().beat().searches_first_round() && is_target_free && self.attacks.search_wants_round();
        if is_sum_lacking || is_search_lacking {
            self.say("The first round runs again, since clients that the lesson needs took no part in it.");
            self.begin_again(self.coming_architecture());
            self.feed(Event::OneRound);
        }
    }

    /// Writes down and records the last changes of a room that ends in an orderly way.
    pub fn close(&mut self, now: Now) {
        self.set_time(now);
        for _ in 0..self.journaling.unwritten() {
            self.write_down();
        }
        self.end_farewells();
        self.recorder.record_last(now.moment, &Arc::new(self.view()), &self.pictures);
    }

    fn set_time(&mut self, now: Now) {
        self.now = now;
        self.log.set_time(now.unix);
    }

    /// The model as of now.
    pub fn model(&self) -> &Arc<GlobalModel> {
        self.room.model()
    }

    /// Takes an input that arrives now.
    pub fn take(&mut self, now: Now, input: Input) {
        self.set_time(now);
        self.recorder.changed(self.now.moment);
        if input.is_change() {
            self.journaling.changed(self.now.moment, matches!(input, Input::Hello { .. }));
        }
        match input {
            Input::Hello { hello, reply } => {
                let admission = self.admit(&hello);
                let connection = admission.as_ref().ok().map(|(connection, _)| *connection);
                if !reply.reaches(admission)
                    && let Some(connection) = connection
                {
                    self.leave(connection, None);
                }
            }
            Input::Message { connection, message, values, bytes, done } => {
                if self.roster.connected(connection).is_some() {
                    self.message(connection, message, values, bytes);
                }
                done.send(());
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
                reply.send(done);
            }
            Input::Candidate { picture, reply } => reply.send(self.take_candidate(picture)),
            Input::KeyDerived { key, reply } => reply.send(self.take_key(key)),
            Input::DataSetLoaded { data_set, reply } => reply.send(self.set_data_set(data_set)),
            Input::PinRenewed { pin, number } => {
                self.door.renew_pin(pin, number);
                self.say("Too many wrong PINs were tried; the room has a new PIN.".to_owned());
            }
            Input::KeyRenewed { qr_svg, keys, pin, pins } => {
                self.door.renew_key(qr_svg, keys);
                self.door.renew_pin(pin, pins);
                self.say("The teacher gave the room a new key. Who is here stays; others scan the new QR code.");
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
                if let Some(line) = self.journaling.saved(self.now.moment, saved) {
                    self.say(line);
                }
            }
            Input::Recorded(line) => self.say(line),
            Input::Recording { reply } => self.recorder.give(reply),
            Input::Download { reply } => reply.send(Box::new(self.files())),
        }
    }

    /// When [`work`](Self::work) has something to do without an input.
    pub fn next_due(&self) -> Option<Moment> {
        let sweep = self.roster.next_sweep(&self.config.limits);
        let farewells = self.farewells.iter().map(Farewell::due).min();
        let due = [self.timers.next_due(), self.journaling.next_due(), self.recorder.next_due(), sweep, farewells];
        due.into_iter().flatten().min()
    }

    fn tick(&mut self, now: Moment) {
        if let Some(event) = self.timers.take_waited(now) {
            self.feed(event);
        }
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
        if self.roster.get(client).is_some_and(Entry::is_waiting) {
            return self.message_of_waiting(client, message);
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
            ClientMessage::Update { round, policy, loss, samples, form, draw } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.count_bytes(bytes);
                }
                let (update, statistics) = (ProtectedUpdate { form, values }, Vec::new());
                self.take_update(ReceivedUpdate { client, round, policy, loss, samples, update, statistics }, draw);
            }
            ClientMessage::SumKeys { round, policy, loss, samples, keys, check } => {
                self.feed(Event::SumKeys(ReceivedKeys { client, round, policy, loss, samples, keys, check }));
            }
            ClientMessage::Sum { round, policy, message } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.count_bytes(bytes);
                }
                let message = summing::whole(message, &values);
                if let unmask_secagg::Message::Values(values) = &message
                    && self.roster.get(client).is_some_and(Entry::may_show)
                    && self.room.is_in_sum(client)
                {
                    self.attacks.read_masked(client, round, values);
                }
                self.feed(Event::Sum { client, round, policy, message });
            }
            ClientMessage::Sealed { policy, check } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.count_bytes(bytes);
                }
                self.feed(Event::Sealed { client, policy, check, weights: values });
            }
            ClientMessage::Unable { round, policy, reason, is_locked } => {
                if round == self.room.round() {
                    self.checks.cannot_take_part(client);
                }
                self.excused(client, round, clean(&reason, MAX_REASON), is_locked);
                self.feed(Event::Unable { client, round, policy, is_locked });
            }
            ClientMessage::Doubtful { round, policy, reason } => {
                if round == self.room.round() {
                    self.checks.doubts(client);
                }
                self.excused(client, round, clean(&reason, MAX_REASON), false);
                self.feed(Event::Doubtful { client, round, policy });
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

    /// Somebody who waits to be let in can change what the hello said, leave and ask for a sign of life.
    fn message_of_waiting(&mut self, client: ClientId, message: ClientMessage) {
        let Some(entry) = self.roster.get_mut(client) else { return };
        let entry_has_cookie = entry.peer().device.is_some();
        match message {
            ClientMessage::Device { device } => entry.set_device(&device),
            ClientMessage::Consent { may_show, may_lend } => entry.set_consent(may_show, may_lend),
            ClientMessage::Ping => self.send(client, Slot::All, &RelayMessage::Pong, &[]),
            ClientMessage::Visibility { .. } | ClientMessage::Return => {}
            // The room may know the browser from an earlier visit.
            ClientMessage::Forget if entry_has_cookie && !self.roster.earlier(client).is_empty() => self.forget(client),
            ClientMessage::Forget => {
                self.forget_who_waits_beside(client);
                self.turn_away(client, FORGOTTEN);
            }
            // It has no name in the log.
            _ => {
                let reason = "a message before the teacher let this client in; wait for that".to_owned();
                self.send(client, Slot::All, &RelayMessage::Refused { reason }, &[]);
            }
        }
    }

    /// Feeds the state machine and performs the effects it returns.
    pub(crate) fn feed(&mut self, event: Event) {
        if self.may_begin(&event) {
            self.make_weights();
        }
        self.handle(event);
        self.settle();
    }

    pub(crate) fn handle(&mut self, event: Event) {
        for effect in self.room.handle(event) {
            self.perform(effect);
        }
    }

    /// Clears results of the old model, so that none appears beside the new one.
    pub(crate) fn forget_earlier_model(&mut self) {
        self.attacks.forget_model();
        self.measuring.forget_model(self.room.model());
        self.history.forget_model();
        if let Some(contest) = &mut self.contest {
            contest.forget_model();
        }
    }

    /// Attacks what the lesson's beat shows besides the target.
    pub(crate) fn look_at_beat(&mut self) {
        let place = self.stage.place();
        self.attacks.look_at(place.beat());
        self.feed(Event::AskOnlyConsenting(place.scene.asks_only_volunteers()));
    }

    /// Tells both the client and the room why something was refused.
    pub(crate) fn refuse(&mut self, client: ClientId, reason: &str) {
        self.log_refusal(client, reason);
        self.send(client, Slot::All, &RelayMessage::Refused { reason: reason.to_owned() }, &[]);
    }

    pub(crate) fn log_refusal(&mut self, client: ClientId, reason: &str) {
        let line = format!("{}: refused, {reason}.", self.roster.name(client));
        let is_taken = self.roster.get_mut(client).is_none_or(Entry::takes_line);
        if is_taken && self.log.say_if_new(client, self.room.round(), line) {
            warn!(client = client.0, reason, "refused");
        }
    }

    pub(crate) fn send(&mut self, client: ClientId, slot: Slot, message: &RelayMessage, values: &[f32]) {
        if let Some(message) = OutboxMessage::encode(message, values) {
            self.put(client, slot, message);
        }
    }

    pub(crate) fn put(&mut self, client: ClientId, slot: Slot, message: OutboxMessage) {
        if let Some(deaf) = self.roster.put(client, slot, message) {
            self.leave(deaf, Some("it no longer reads its messages".to_owned()));
        }
    }

    /// Logs a line about a coming encryption, unless it was logged before.
    pub(crate) fn say_once(&mut self, about: ClientId, text: String) {
        self.log.say_once(about, self.room.round(), text);
    }

    pub(crate) fn say_of(&mut self, about: impl Into<Vec<ClientId>>, text: String) {
        self.log.say_of(about.into(), self.room.round(), text);
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.log.say(self.room.round(), text.into());
    }
}

fn first_room(
    config: &RoomConfig,
    initialiser: &mut Initialiser,
    sharing: &mut Sharing,
    randomness: &mut Randomness,
) -> anyhow::Result<Room> {
    let seed = config.seed.unwrap_or_else(|| randomness.seed());
    initialiser.check(config.initial_weights, config.architecture)?;
    let (model, _) = initialiser.begin(config.architecture, seed);
    config.defence.check(config.architecture)?;
    let mut settings = RoundSettings::new(config.defence, config.rule, config.batch, config.optimiser)?
        .with_aggregation(config.aggregation)?;
    if let Some(sum) = config.aggregation.secure_sum() {
        sum.check_model(config.architecture)?;
    }
    if config.data.train_on == TrainOn::Shared {
        settings = settings.with_pictures(sharing.shared()?);
    }
    Ok(Room::new(model, settings))
}
