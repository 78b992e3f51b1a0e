//! The page's end of the worker: what it said last, as signals; and what lets a student rejoin after the page was reloaded.

use std::collections::VecDeque;

use gloo_events::EventListener;
use gloo_file::Blob;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use unmask_core::AttackMethod;
use unmask_wire::LessonState;
use wasm_bindgen::JsCast;
use web_sys::{MessageEvent, Worker};

use crate::{
    page::text::{
        say, sentence,
        turn::{Link, Situation, Turn, Work},
    },
    post,
    protocol::{
        ClosedRound, Connection, Device, FromWorker, Notice, OwnAttack, PassphraseRequest, Prediction, Reconstruction,
        Rgba, SentUpdate, ShardView, ToWorker, Training,
    },
};

/// The loader that the build puts beside the page, at a fixed name.
const LOADER: &str = "/worker_loader.js";

/// Losses kept for the small curve.
const LOSSES_KEPT: usize = 200;

const NOTICES_KEPT: usize = 8;

/// Rounds by whose median this tab's own attack is judged.
const SCORES_KEPT: usize = 5;

/// The worker, and what is known from it.
#[derive(Clone, Copy)]
pub struct Trainer {
    worker: StoredValue<Option<Worker>, LocalStorage>,
    /// Messages for a worker that is still loading; they would be lost, since nobody listens yet.
    waiting: StoredValue<Vec<ToWorker>>,
    /// Whether it has loaded.
    pub is_ready: RwSignal<bool>,
    /// Why it cannot be used, if so.
    pub failure: RwSignal<Option<String>>,
    /// State of the socket, from the moment of joining.
    pub connection: RwSignal<Option<Connection>>,
    /// Whether the socket is open and nothing comes on it.
    is_silent: RwSignal<bool>,
    pub device: RwSignal<Option<Device>>,
    /// The round that trains now, or trained last.
    pub training: RwSignal<Option<Training>>,
    pub passphrase_request: RwSignal<Option<PassphraseRequest>>,
    /// The nickname under which the room shows this tab, once it does.
    pub nickname: RwSignal<Option<String>>,
    /// Whether the relay leaves this tab out of the rounds until it asks to come back.
    pub is_sitting_out: RwSignal<bool>,
    /// Whether a step is being computed.
    pub is_busy: RwSignal<bool>,
    /// The losses of this client, oldest first.
    pub losses: RwSignal<Vec<f32>>,
    /// The last update that left.
    pub sent: RwSignal<Option<SentUpdate>>,
    /// Bytes sent since joining, and what they would have been without a defence.
    pub bytes: RwSignal<(u64, u64)>,
    /// The last round that the relay closed.
    pub closed: RwSignal<Option<ClosedRound>>,
    /// This tab's share of the room's data set, if one has come.
    pub shard: RwSignal<Option<ShardView>>,
    /// Number of the picture that the model was last asked about; 0 before the first.
    asked: StoredValue<u32>,
    /// What the model says of it, or why it says nothing.
    pub prediction: RwSignal<Option<Result<Prediction, String>>>,
    /// The last result of each attack, in the order in which they first came.
    pub attacks: RwSignal<Vec<Reconstruction>>,
    /// What this tab's own attack made of the update that it sent last.
    pub own_attack: RwSignal<Option<OwnAttack>>,
    /// SSIM of the closest of these in the last rounds under one defence and model, newest last.
    pub recent: RwSignal<Vec<f32>>,
    /// Where the lesson is.
    pub lesson: RwSignal<LessonState>,
    /// The student's last answer: the question's number, and the vote.
    vote: RwSignal<Option<(u32, u16)>>,
    /// Whether that answer may have been lost with the last socket.
    is_vote_in_doubt: StoredValue<bool>,
    /// What the student has chosen and not sent yet, with the question's number; the slider is made anew in another language.
    guess: RwSignal<Option<(u32, u16)>>,
    /// What is typed of the passphrase that the worker waits for, for the same reason.
    pub typed_passphrase: RwSignal<String>,
    /// Whether the class sees the private picture.
    pub is_shown: RwSignal<bool>,
    /// Whether the room is deleting what it has of this student.
    pub is_forgetting: RwSignal<bool>,
    /// Whether it has, and nobody has joined since.
    pub has_forgotten: RwSignal<bool>,
    /// What the worker wanted to be said, newest first, numbered.
    pub notices: RwSignal<VecDeque<(u64, Notice)>>,
    /// The last of these, until an update has left again.
    pub news: RwSignal<Option<Notice>>,
}

impl Trainer {
    /// Loads the worker.
    pub fn start() -> Self {
        let trainer = Self {
            worker: StoredValue::new_local(None),
            waiting: StoredValue::new(Vec::new()),
            is_ready: RwSignal::new(false),
            failure: RwSignal::new(None),
            connection: RwSignal::new(None),
            is_silent: RwSignal::new(false),
            device: RwSignal::new(None),
            training: RwSignal::new(None),
            passphrase_request: RwSignal::new(None),
            nickname: RwSignal::new(None),
            is_sitting_out: RwSignal::new(false),
            is_busy: RwSignal::new(false),
            losses: RwSignal::new(Vec::new()),
            sent: RwSignal::new(None),
            bytes: RwSignal::new((0, 0)),
            closed: RwSignal::new(None),
            shard: RwSignal::new(None),
            asked: StoredValue::new(0),
            prediction: RwSignal::new(None),
            attacks: RwSignal::new(Vec::new()),
            own_attack: RwSignal::new(None),
            recent: RwSignal::new(Vec::new()),
            lesson: RwSignal::new(LessonState::default()),
            vote: RwSignal::new(None),
            is_vote_in_doubt: StoredValue::new(false),
            guess: RwSignal::new(None),
            typed_passphrase: RwSignal::new(String::new()),
            is_shown: RwSignal::new(false),
            is_forgetting: RwSignal::new(false),
            has_forgotten: RwSignal::new(false),
            notices: RwSignal::new(VecDeque::new()),
            news: RwSignal::new(None),
        };
        match Worker::new(LOADER) {
            Ok(worker) => trainer.listen(worker),
            Err(_) => trainer.failure.set(Some(say::trainer::no_worker().to_owned())),
        }
        trainer
    }

    /// Listens for as long as the page lives, as the worker does.
    fn listen(self, worker: Worker) {
        let messages = EventListener::new(&worker, "message", move |event| {
            let Some(event) = event.dyn_ref::<MessageEvent>() else { return };
            match post::decode(event.data()) {
                Ok(message) => self.take(message),
                Err(error) => self.failure.set(Some(sentence(&error.to_string()))),
            }
        });
        messages.forget();
        let errors = EventListener::new(&worker, "error", move |event| {
            // A script that cannot be fetched gives a bare event, without the message that an `ErrorEvent` carries.
            let reason = js_sys::Reflect::get(event, &"message".into()).ok().and_then(|message| message.as_string());
            let reason = reason.unwrap_or_else(|| say::trainer::not_loaded(LOADER));
            self.is_busy.set(false);
            self.failure.set(Some(say::trainer::stopped(&reason)));
        });
        errors.forget();
        self.worker.set_value(Some(worker));
    }

    /// Joins the room; waits for the worker if it is still loading.
    pub fn join(self, message: ToWorker) {
        self.connection.set(Some(Connection::Connecting));
        self.is_silent.set(false);
        self.training.set(None);
        self.passphrase_request.set(None);
        self.nickname.set(None);
        self.is_sitting_out.set(false);
        self.is_busy.set(false);
        self.losses.set(Vec::new());
        self.sent.set(None);
        self.bytes.set((0, 0));
        self.closed.set(None);
        self.shard.set(None);
        self.prediction.set(None);
        self.attacks.set(Vec::new());
        self.own_attack.set(None);
        self.recent.set(Vec::new());
        self.lesson.set(LessonState::default());
        self.vote.set(None);
        self.guess.set(None);
        self.typed_passphrase.set(String::new());
        self.is_shown.set(false);
        self.is_forgetting.set(false);
        self.has_forgotten.set(false);
        self.notices.set(VecDeque::new());
        self.news.set(None);
        self.send(message);
    }

    /// Leaves the room.
    pub fn leave(self) {
        self.connection.set(None);
        SavedJoin::forget();
        self.send(ToWorker::Leave);
    }

    /// Has the room delete what it has of this student, and leaves once it has.
    pub fn forget(self) {
        self.is_forgetting.set(true);
        self.send(ToWorker::Forget);
    }

    /// Answers the class's question of this number.
    pub fn answer(self, poll: u32, answer: u16) {
        self.vote.set(Some((poll, answer)));
        self.send(ToWorker::Vote { poll, answer });
    }

    /// What the student has answered to the question of this number.
    pub fn answered(self, poll: u32) -> Option<u16> {
        self.vote.get().filter(|(number, _)| *number == poll).map(|(_, answer)| answer)
    }

    /// What the student has chosen of this question's answers: the last choice, else what was sent.
    pub fn chosen(self, poll: u32) -> Option<u16> {
        let chosen = self.guess.get().filter(|(number, _)| *number == poll).map(|(_, answer)| answer);
        chosen.or_else(|| self.answered(poll))
    }

    /// The student chooses an answer, and sends nothing yet.
    pub fn choose(self, poll: u32, answer: u16) {
        self.guess.set(Some((poll, answer)));
    }

    /// Shows the class the private picture.
    pub fn show_original(self) {
        self.send(ToWorker::ShowOriginal);
    }

    /// Takes it back, at once.
    pub fn hide_original(self) {
        self.is_shown.set(false);
        self.send(ToWorker::HideOriginal);
    }

    /// Answers [`Self::passphrase_request`].
    pub fn give_passphrase(self, passphrase: String) {
        self.passphrase_request.set(None);
        self.send(ToWorker::Passphrase(passphrase));
    }

    /// Says whether the class may see what leaks of the private picture, from now on. Who withdraws takes the picture back too.
    pub fn consent(self, may_show: bool) {
        SavedJoin::set_consent(may_show);
        if !may_show && self.is_shown.get_untracked() {
            self.hide_original();
        }
        self.send(ToWorker::Consent { may_show });
    }

    /// Says whether the page is in sight.
    pub fn seen(self, is_seen: bool) {
        self.send(ToWorker::Visibility { is_hidden: !is_seen });
    }

    /// Asks to be in the rounds again.
    pub fn come_back(self) {
        self.is_sitting_out.set(false);
        self.send(ToWorker::Return);
    }

    /// Finds out at once whether the relay is still there.
    pub fn check(self) {
        self.send(ToWorker::Check);
    }

    fn was_online(self) -> bool {
        self.connection.with_untracked(|connection| matches!(connection, Some(Connection::Online { .. })))
    }

    /// How this page is connected.
    pub fn link(self) -> Link {
        let (is_ready, has_failed) = (self.is_ready.get(), self.failure.with(Option::is_some));
        self.connection.with(|connection| Link::new(connection.as_ref(), is_ready, has_failed, self.is_silent.get()))
    }

    /// What this tab does in the round.
    pub fn work(self) -> Work {
        let round = self.training.with(|training| training.as_ref().map(|training| training.round));
        let sent = self.sent.with(|sent| sent.as_ref().map(|sent| sent.round));
        match (round, sent) {
            _ if self.passphrase_request.with(Option::is_some) => Work::Locked,
            _ if self.is_sitting_out.get() => Work::SittingOut,
            (Some(round), _) if self.is_busy.get() => Work::Computing { round },
            (_, Some(round)) => Work::Sent { round },
            _ => Work::Waiting,
        }
    }

    /// The one thing to do; `may_show` says whether the class may see what leaks of the private picture.
    pub fn turn(self, may_show: bool) -> Turn {
        let (link, work, is_shown) = (self.link(), self.work(), self.is_shown.get());
        self.lesson.with(|lesson| Situation { link, work, lesson, may_show, is_shown }.turn())
    }

    /// Whether this tab is in the room, or on its way back.
    pub fn is_in_room(self) -> bool {
        self.connection.with(|connection| !matches!(connection, None | Some(Connection::Closed { .. })))
    }

    /// Asks the room's model what a picture shows.
    pub fn classify(self, picture: Rgba) {
        self.asked.update_value(|number| *number += 1);
        self.prediction.set(None);
        self.send(ToWorker::Classify { number: self.asked.get_value(), picture });
    }

    /// The last result of an attack.
    pub fn attack(self, method: AttackMethod) -> Option<Reconstruction> {
        self.attacks.with(|attacks| attacks.iter().find(|attack| attack.attack == method).cloned())
    }

    /// The attack of the relay that came closest to the picture.
    pub fn closest(self) -> Option<AttackMethod> {
        self.attacks.with(|attacks| {
            let ssim = |attack: &Reconstruction| attack.comparison.as_ref().map_or(f32::NEG_INFINITY, |it| it.ssim);
            // Of equals the first counts, so that what is shown large does not change without need.
            let order = |one: &&Reconstruction, other: &&Reconstruction| {
                ssim(one).total_cmp(&ssim(other)).then(other.attack.cmp(&one.attack))
            };
            attacks.iter().max_by(order).map(|attack| attack.attack)
        })
    }

    fn send(self, message: ToWorker) {
        if !self.is_ready.get_untracked() {
            self.waiting.update_value(|waiting| waiting.push(message));
            return;
        }
        let sent =
            post::encode(&message).map_err(|error| sentence(&error.to_string())).and_then(|(message, buffers)| {
                self.worker.with_value(|worker| {
                    let worker = worker.as_ref().ok_or(say::trainer::not_running())?;
                    let posted = worker.post_message_with_transfer(&message, &buffers);
                    posted.map_err(|_| say::trainer::silent().to_owned())
                })
            });
        if let Err(problem) = sent {
            self.failure.set(Some(problem));
        }
    }

    fn take(self, message: FromWorker) {
        match message {
            FromWorker::Ready => {
                self.is_ready.set(true);
                for message in self.waiting.try_update_value(std::mem::take).unwrap_or_default() {
                    self.send(message);
                }
            }
            FromWorker::Device(device) => self.device.set(Some(device)),
            FromWorker::Connection(connection) => self.take_connection(connection),
            FromWorker::Silent(is_silent) => self.is_silent.set(is_silent),
            FromWorker::Training(training) => {
                self.is_busy.set(true);
                self.is_sitting_out.set(false);
                self.passphrase_request.set(None);
                let is_other = |last: &Training| {
                    last.defence != training.defence
                        || last.shared.is_some() != training.shared.is_some()
                        || last.model != training.model
                        || last.round > training.round
                };
                // What was reconstructed through another defence or model, or of other pictures, says nothing about these.
                if self.training.with_untracked(|last| last.as_ref().is_some_and(is_other)) {
                    self.attacks.set(Vec::new());
                    self.own_attack.set(None);
                    self.recent.set(Vec::new());
                }
                self.training.set(Some(training));
            }
            FromWorker::SittingOut => self.is_sitting_out.set(true),
            FromWorker::Shard(shard) => self.shard.set(Some(shard)),
            FromWorker::Classified { number, prediction } if number == self.asked.get_value() => {
                self.prediction.set(Some(prediction));
            }
            FromWorker::Classified { .. } => {}
            FromWorker::AskPassphrase(request) => {
                self.is_busy.set(false);
                self.passphrase_request.set(Some(request));
            }
            FromWorker::ModelEncrypted => {
                self.passphrase_request.set(None);
                self.notice(Notice::Encrypted);
            }
            FromWorker::Sent(sent) => {
                self.is_busy.set(false);
                self.news.set(None);
                self.losses.update(|losses| {
                    losses.push(sent.loss);
                    let surplus = losses.len().saturating_sub(LOSSES_KEPT);
                    losses.drain(..surplus);
                });
                self.bytes.update(|(bytes, plain)| {
                    *bytes += sent.bytes;
                    *plain += sent.plain_bytes;
                });
                self.sent.set(Some(sent));
            }
            FromWorker::Closed(closed) => self.closed.set(Some(closed)),
            FromWorker::Attacked(result) => {
                self.attacks.update(|attacks| match attacks.iter_mut().find(|known| known.attack == result.attack) {
                    Some(known) => *known = result,
                    None => attacks.push(result),
                });
            }
            FromWorker::Lesson(lesson) => {
                let open = lesson.poll.as_ref().filter(|poll| poll.is_open).map(|poll| poll.number);
                let vote = self.vote.get_untracked().filter(|(poll, _)| Some(*poll) == open);
                if let Some((poll, answer)) = vote.filter(|_| self.is_vote_in_doubt.get_value()) {
                    self.send(ToWorker::Vote { poll, answer });
                }
                self.is_vote_in_doubt.set_value(false);
                self.lesson.set(lesson);
            }
            FromWorker::Original { is_shown } => self.is_shown.set(is_shown),
            FromWorker::OwnAttack(attack) => {
                let closest = attack.reconstructions.first().and_then(|closest| closest.comparison.as_ref());
                if let Some(ssim) = closest.map(|comparison| comparison.ssim) {
                    self.recent.update(|recent| {
                        recent.push(ssim);
                        let surplus = recent.len().saturating_sub(SCORES_KEPT);
                        recent.drain(..surplus);
                    });
                }
                self.own_attack.set(Some(attack));
            }
            FromWorker::Notice(notice) => self.notice(notice),
        }
    }

    fn take_connection(self, connection: Connection) {
        // What a worker says after the student left is about the earlier stay.
        if self.connection.with_untracked(Option::is_none) {
            return;
        }
        self.is_silent.set(false);
        match &connection {
            Connection::Online { nickname, ticket } => {
                SavedJoin::add_ticket(nickname, *ticket);
                // Who comes back on a new socket is in the rounds again.
                if !self.was_online() {
                    self.is_sitting_out.set(false);
                    self.is_vote_in_doubt.set_value(true);
                    // The room forgets a picture that is shown together with the socket on which it came.
                    self.is_shown.set(false);
                }
                self.nickname.set(Some(nickname.clone()));
            }
            Connection::Closed { .. } if self.is_forgetting.get_untracked() => {
                self.is_forgetting.set(false);
                SavedJoin::forget();
                self.has_forgotten.set(true);
                return self.connection.set(None);
            }
            _ => {
                self.is_busy.set(false);
                if self.is_forgetting.get_untracked() {
                    self.is_forgetting.set(false);
                    self.notice(Notice::NotForgotten);
                }
            }
        }
        self.connection.set(Some(connection));
    }

    fn notice(self, notice: Notice) {
        self.news.set(Some(notice.clone()));
        self.notices.update(|notices| {
            let number = notices.front().map_or(0, |(number, _)| number + 1);
            notices.push_front((number, notice));
            notices.truncate(NOTICES_KEPT);
        });
    }
}

const KEY: &str = "unmask-saved-join";

/// A student who was in the room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedJoin {
    /// As the room showed it.
    pub nickname: String,
    /// The class of the private picture.
    pub label: u8,
    /// The picture's name.
    pub name: String,
    /// Name of the sample photograph, if the picture is one.
    pub sample: Option<String>,
    /// Whether the class may see what leaks of a picture of the student's own.
    pub may_show: bool,
    /// The private picture, as a `data:` address of a PNG file.
    pub picture: String,
    /// The query of the address that the page was opened with.
    pub search: String,
    /// The room's ticket, once it has given one.
    pub ticket: Option<[u8; 16]>,
}

impl SavedJoin {
    /// The private picture as a file. Decoded here, since the page may fetch nothing but what the relay serves.
    pub fn file(&self) -> Option<Blob> {
        let (_, encoded) = self.picture.split_once(";base64,")?;
        let decoded = window().atob(encoded).ok()?;
        // One character a byte, as `atob` gives them.
        let bytes: Vec<u8> = decoded.chars().map(|character| character as u32 as u8).collect();
        Some(Blob::new(bytes.as_slice()))
    }

    /// Who was here before, if anyone.
    pub fn read() -> Option<Self> {
        let text = window().session_storage().ok().flatten()?.get_item(KEY).ok().flatten()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps another answer to the question whether the class may see what leaks.
    pub fn set_consent(may_show: bool) {
        if let Some(saved) = Self::read() {
            Self { may_show, ..saved }.write();
        }
    }

    /// Keeps the room's newest ticket, since one works once, and the nickname under which it shows this student.
    pub fn add_ticket(nickname: &str, ticket: Option<[u8; 16]>) {
        if let Some(saved) = Self::read() {
            Self { nickname: nickname.to_owned(), ticket, ..saved }.write();
        }
    }

    /// Forgets who was here.
    pub fn forget() {
        if let Ok(Some(storage)) = window().session_storage() {
            // It can only fail where nothing could be kept either.
            let _ = storage.remove_item(KEY);
        }
    }

    /// Keeps who joins. Where the browser refuses, the form is filled in again by hand.
    pub fn write(&self) {
        let (Ok(text), Ok(Some(storage))) = (serde_json::to_string(self), window().session_storage()) else { return };
        let _ = storage.set_item(KEY, &text);
    }
}
