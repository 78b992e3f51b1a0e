//! The page's side of the worker: its latest messages as signals.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Deref,
};

use gloo_events::EventListener;
use leptos::prelude::*;
use unmask_core::AttackMethod;
use unmask_wire::{FORGOTTEN, FORGOTTEN_BUT, LessonState};
use unmask_words::say;
use wasm_bindgen::JsCast;
use web_sys::{MessageEvent, Worker};

use super::saved::SavedJoin;
use crate::{
    page::logic::{
        careful::Choice,
        loan::Borrowed,
        remembered::Remembered,
        sentence,
        turn::{Given, Link, Situation, Turn, Work},
    },
    post,
    protocol::{
        ClosedRound, Connection, Device, FoundDoubts, FromWorker, ListedRound, Notice, OwnAttack, OwnMask,
        PassphraseRequest, Prediction, Reconstruction, Rgba, SentUpdate, ShardView, ToWorker, Training,
    },
};

/// The loader, which the build places next to the page under a fixed name.
const LOADER: &str = "worker_loader.js";

/// The number of losses kept for the small curve.
const LOSSES_KEPT: usize = 200;

const NOTICES_KEPT: usize = 8;

/// A relay that restarts answers a moment before it takes sockets, so one that does not open says nothing.
const REFUSALS: u32 = 3;

/// This tab's own attack is judged by the median of this many rounds.
const SCORES_KEPT: usize = 5;

/// Defines a struct of signals, each of which begins and is reset with its type's default.
macro_rules! signals {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $visibility:vis $field:ident: $value:ty,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub struct $name {
            $($(#[$doc])* $visibility $field: RwSignal<$value>,)+
        }

        impl $name {
            fn new() -> Self {
                Self { $($field: RwSignal::new(<$value>::default()),)+ }
            }

            fn reset(self) {
                $(self.$field.set(<$value>::default());)+
            }
        }
    };
}

signals! {
    /// What this tab knows since it joined. Joining again forgets it.
    Joined {
        /// Whether the socket is open but nothing arrives on it.
        is_silent: bool,
        /// The current or last round.
        pub training: Option<Training>,
        pub passphrase_request: Option<PassphraseRequest>,
        /// The nickname that the room shows for this tab.
        pub nickname: Option<String>,
        /// Whether the relay leaves this tab out of the rounds until it asks to come back.
        pub is_sitting_out: bool,
        pub is_busy: bool,
        /// This client's losses, oldest first.
        pub losses: Vec<f32>,
        pub sent: Option<SentUpdate>,
        /// Bytes sent since joining, with and without the defence.
        pub bytes: (u64, u64),
        pub closed: Option<ClosedRound>,
        /// What looks doctored in the weights of the last round.
        pub found: Option<FoundDoubts>,
        /// The last published list.
        pub listed: Option<ListedRound>,
        /// This tab's shard of the room's data set, if any.
        pub shard: Option<ShardView>,
        /// The prediction for the last picture to classify, or why there is none.
        pub prediction: Option<Result<Prediction, String>>,
        /// The last result of each attack, in order of first arrival.
        pub attacks: Vec<Reconstruction>,
        /// The result of this tab's own attack on its last update.
        pub own_attack: Option<OwnAttack>,
        /// What leaks under the last mask that the student tried.
        pub own_mask: Option<OwnMask>,
        /// The SSIM of each of those attacks in the last rounds under one defence and model, newest last.
        pub recent: BTreeMap<AttackMethod, Vec<f32>>,
        /// What the student takes home.
        pub remembered: Remembered,
        pub lesson: LessonState,
        /// Another student's numbers, which this one attacks.
        pub borrowed: Option<Borrowed>,
        /// The student's last answer: the question's number and the vote.
        vote: Option<(u32, u16)>,
        /// The student's choice not sent so far, with the question's number. Kept here because a change of language
        /// rebuilds the slider.
        guess: Option<(u32, u16)>,
        /// The passphrase typed so far; kept here for the same reason.
        pub typed_passphrase: String,
        /// Whether the class sees the private picture.
        pub is_shown: bool,
        /// Whether the private picture, and what leaks from it, waits until the teacher lets the class see it.
        pub waits: bool,
        /// Whether the student has sent the picture for the class and not taken it back.
        is_offered: bool,
        /// The number of sockets in a row that did not open although the relay answered.
        refusals: u32,
        /// Whether the room is deleting this student's data.
        pub is_forgetting: bool,
        /// Whether the room has deleted it and nobody has joined since.
        pub has_forgotten: bool,
        /// Whether the relay's disk still holds what the room has deleted.
        pub is_still_on_disk: bool,
        /// The worker's notices, newest first, numbered.
        pub notices: VecDeque<(u64, Notice)>,
        /// The newest notice, until the next update is sent.
        pub news: Option<Notice>,
    }
}

/// The worker and its latest state.
#[derive(Clone, Copy)]
pub struct Trainer {
    worker: StoredValue<Option<Worker>, LocalStorage>,
    /// Messages for a worker that is still loading. Sent now, they would be lost.
    waiting: StoredValue<Vec<ToWorker>>,
    pub is_ready: RwSignal<bool>,
    /// Why the worker cannot be used, if so.
    pub failure: RwSignal<Option<String>>,
    pub device: RwSignal<Option<Device>>,
    pub connection: RwSignal<Option<Connection>>,
    /// Whether the student is careful, and trains on what looks doctored all the same. Both outlive a stay in the room.
    careful: RwSignal<(bool, bool)>,
    /// The number of the last picture to classify; 0 before the first.
    asked: StoredValue<u32>,
    /// Whether the student's last answer may have been lost with the last socket.
    is_vote_in_doubt: StoredValue<bool>,
    joined: Joined,
}

impl Deref for Trainer {
    type Target = Joined;

    fn deref(&self) -> &Joined {
        &self.joined
    }
}

impl Trainer {
    pub fn start() -> Self {
        let trainer = Self {
            worker: StoredValue::new_local(None),
            waiting: StoredValue::new(Vec::new()),
            is_ready: RwSignal::new(false),
            failure: RwSignal::new(None),
            device: RwSignal::new(None),
            connection: RwSignal::new(None),
            careful: RwSignal::new((false, false)),
            asked: StoredValue::new(0),
            is_vote_in_doubt: StoredValue::new(false),
            joined: Joined::new(),
        };
        match Worker::new(LOADER) {
            Ok(worker) => trainer.listen(worker),
            Err(_) => trainer.failure.set(Some(say::trainer::no_worker().to_owned())),
        }
        trainer
    }

    /// Listens for the lifetime of the page, which is also the worker's.
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
            // If a script cannot be fetched, the event has no message, unlike an `ErrorEvent`.
            let reason = js_sys::Reflect::get(event, &"message".into()).ok().and_then(|message| message.as_string());
            let reason = reason.unwrap_or_else(|| say::trainer::not_loaded(LOADER));
            self.is_busy.set(false);
            self.failure.set(Some(say::trainer::stopped(&reason)));
        });
        errors.forget();
        self.worker.set_value(Some(worker));
    }

    /// Joins the room once the worker has loaded.
    pub fn join(self, message: ToWorker) {
        self.joined.reset();
        self.connection.set(Some(Connection::Connecting));
        self.send(message);
        self.tell_caution();
    }

    pub fn leave(self) {
        self.connection.set(None);
        self.refusals.set(0);
        SavedJoin::forget();
        self.send(ToWorker::Leave);
    }

    /// Asks the room to delete this student's data, and leaves when it has done so.
    pub fn forget(self) {
        self.is_forgetting.set(true);
        self.send(ToWorker::Forget);
    }

    pub fn answer(self, poll: u32, answer: u16) {
        self.vote.set(Some((poll, answer)));
        self.send(ToWorker::Vote { poll, answer });
    }

    /// The student's answer to the question of this number.
    pub fn answered(self, poll: u32) -> Option<u16> {
        self.vote.get().filter(|(number, _)| *number == poll).map(|(_, answer)| answer)
    }

    /// The student's choice for this question: the latest one, or else the one sent.
    pub fn chosen(self, poll: u32) -> Option<u16> {
        let chosen = self.guess.get().filter(|(number, _)| *number == poll).map(|(_, answer)| answer);
        chosen.or_else(|| self.answered(poll))
    }

    /// Records a choice without sending it.
    pub fn choose(self, poll: u32, answer: u16) {
        self.guess.set(Some((poll, answer)));
    }

    /// Shows what leaks of the student's picture under a mask with this rate, in percent.
    pub fn try_mask(self, percent: u8) {
        self.send(ToWorker::TryMask { percent });
    }

    pub fn show_original(self) {
        self.is_offered.set(true);
        self.send(ToWorker::ShowOriginal);
    }

    /// What of the private picture the class sees, or will when the teacher lets it.
    pub fn given(self) -> Given {
        match (self.is_shown.get(), self.waits.get(), self.is_offered.get()) {
            (true, ..) => Given::Shown,
            (_, true, true) => Given::PictureWaits,
            (_, true, false) => Given::LeakWaits,
            (_, false, _) => Given::Nothing,
        }
    }

    /// Whether the class sees the private picture, or will when the teacher lets it.
    pub fn is_given(self) -> bool {
        matches!(self.given(), Given::Shown | Given::PictureWaits)
    }

    /// Stops showing it immediately.
    pub fn hide_original(self) {
        self.is_shown.set(false);
        self.is_offered.set(false);
        self.send(ToWorker::HideOriginal);
    }

    /// Answers [`Self::passphrase_request`].
    pub fn give_passphrase(self, passphrase: String) {
        self.passphrase_request.set(None);
        self.send(ToWorker::Passphrase(passphrase));
    }

    /// Says that the student now sees the attack that knows the gaps.
    pub fn know_gaps(self, poll: u32) {
        self.borrowed.update(|borrowed| {
            if let Some(borrowed) = borrowed {
                borrowed.knows_gaps = true;
            }
        });
        self.send(ToWorker::KnowGaps { poll });
    }

    /// Sets whether the class may see what leaks from the private picture from now on, and whether other phones may
    /// attack its masked numbers. Withdrawing the first also hides the picture.
    pub fn consent(self, may_show: bool, may_lend: bool) {
        SavedJoin::set_consent(may_show, may_lend);
        if !may_show {
            if untrack(|| self.is_given()) {
                self.hide_original();
            }
            self.is_offered.set(false);
        }
        self.send(ToWorker::Consent { may_show, may_lend });
    }

    /// What the student chose about rounds that look doctored, and what the teacher asks for.
    pub fn choice(self) -> Choice {
        let (is_own, trains_anyway) = self.careful.get();
        Choice { is_own, is_asked: self.lesson.with(|lesson| lesson.is_careful), trains_anyway }
    }

    /// Looks at what the weights let the picture teach, too, and leaves rounds out that look doctored; or no longer.
    pub fn be_careful(self, is_own: bool) {
        self.careful.update(|careful| careful.0 = is_own);
        self.keep_caution();
    }

    pub fn train_anyway(self, trains_anyway: bool) {
        self.careful.update(|careful| careful.1 = trains_anyway);
        self.keep_caution();
    }

    /// Goes on as before a reload.
    pub fn recall_careful(self, careful: (bool, bool)) {
        self.careful.set(careful);
    }

    /// What [`Self::recall_careful`] takes.
    pub fn is_careful_by_choice(self) -> (bool, bool) {
        self.careful.get_untracked()
    }

    fn keep_caution(self) {
        SavedJoin::set_careful(self.careful.get_untracked());
        self.tell_caution();
    }

    fn tell_caution(self) {
        self.send(ToWorker::Caution(untrack(|| self.choice().caution())));
    }

    pub fn seen(self, is_seen: bool) {
        self.send(ToWorker::Visibility { is_hidden: !is_seen });
    }

    pub fn come_back(self) {
        self.is_sitting_out.set(false);
        self.send(ToWorker::Return);
    }

    /// Checks immediately whether the relay is still there.
    pub fn check(self) {
        self.send(ToWorker::Check);
    }

    /// Notes that a socket has not opened, and whether the relay answers this page all the same.
    pub fn was_refused(self, answers: bool) {
        self.refusals.update(|refusals| *refusals = if answers { *refusals + 1 } else { 0 });
    }

    /// Whether the browser, or something on the way, seems to refuse every socket.
    pub fn is_refused(self) -> bool {
        self.refusals.get() >= REFUSALS
    }

    fn was_online(self) -> bool {
        self.connection.with_untracked(|connection| matches!(connection, Some(Connection::Online { .. })))
    }

    pub fn link(self) -> Link {
        let (is_ready, has_failed) = (self.is_ready.get(), self.failure.with(Option::is_some));
        self.connection.with(|connection| Link::new(connection.as_ref(), is_ready, has_failed, self.is_silent.get()))
    }

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

    /// The one thing to do; `may_show` says whether the class may see what leaks from the private picture.
    pub fn turn(self, may_show: bool) -> Turn {
        let (link, work, is_shown) = (self.link(), self.work(), self.is_given());
        let answered = self.vote.get().map(|(number, _)| number);
        self.lesson.with(|lesson| Situation { link, work, lesson, may_show, is_shown, answered }.turn())
    }

    /// Whether this tab is in the room or reconnecting to it.
    pub fn is_in_room(self) -> bool {
        self.connection.with(|connection| !matches!(connection, None | Some(Connection::Closed { .. })))
    }

    pub fn classify(self, picture: Rgba) {
        self.asked.update_value(|number| *number += 1);
        self.prediction.set(None);
        self.send(ToWorker::Classify { number: self.asked.get_value(), picture });
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
            FromWorker::Ready => self.take_ready(),
            FromWorker::Device(device) => self.device.set(Some(device)),
            FromWorker::Connection(connection) => self.take_connection(connection),
            FromWorker::Silent(is_silent) => self.is_silent.set(is_silent),
            FromWorker::Training(training) => self.take_training(training),
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
            FromWorker::Sent(sent) => self.take_sent(sent),
            FromWorker::Closed(closed) => self.closed.set(Some(closed)),
            FromWorker::Doubts(found) => self.take_doubts(found),
            FromWorker::Listed(listed) => self.listed.set(Some(listed)),
            FromWorker::Attacked(result) => self.take_attack(result),
            FromWorker::Lesson(lesson) => self.take_lesson(lesson),
            FromWorker::Original { is_shown, waits } => {
                self.is_shown.set(is_shown);
                self.waits.set(waits);
                if !is_shown && !waits {
                    self.is_offered.set(false);
                }
            }
            FromWorker::OwnAttack(attack) => self.take_own_attack(attack),
            FromWorker::OwnMask(tried) => self.own_mask.set(Some(tried)),
            FromWorker::Loan(result) => {
                let borrowed = self.borrowed.get_untracked();
                if borrowed.as_ref().is_some_and(|borrowed| borrowed.is_replaced_by(&result)) {
                    // It was about other numbers.
                    self.vote.set(None);
                }
                self.borrowed.set(Some(Borrowed::with(borrowed, result)));
            }
            FromWorker::LoanEnded { poll } => {
                self.borrowed.update(|borrowed| *borrowed = Some(Borrowed::ended(borrowed.take(), poll)));
                if self.lesson.with_untracked(|lesson| lesson.poll.as_ref().is_some_and(|asked| asked.is_open)) {
                    self.vote.set(None);
                }
            }
            FromWorker::Scored { poll, owner, points } => {
                self.borrowed
                    .update(|borrowed| *borrowed = Some(Borrowed::scored(borrowed.take(), poll, owner, points)));
            }
            FromWorker::Notice(notice) => self.notice(notice),
        }
    }

    fn take_ready(self) {
        self.is_ready.set(true);
        for message in self.waiting.try_update_value(std::mem::take).unwrap_or_default() {
            self.send(message);
        }
    }

    fn take_training(self, training: Training) {
        self.is_busy.set(true);
        self.is_sitting_out.set(false);
        self.passphrase_request.set(None);
        let is_other = |last: &Training| {
            last.defence != training.defence
                || last.shared.is_some() != training.shared.is_some()
                || last.model != training.model
                || last.is_summed != training.is_summed
                || last.round > training.round
        };
        // Reconstructions under another defence or model, of other pictures, or not of sums, no longer apply.
        if self.training.with_untracked(|last| last.as_ref().is_some_and(is_other)) {
            self.attacks.set(Vec::new());
            self.own_attack.set(None);
            self.recent.set(BTreeMap::new());
        }
        self.training.set(Some(training));
    }

    fn take_doubts(self, found: FoundDoubts) {
        if found.is_refused {
            self.is_busy.set(false);
        }
        self.found.set(Some(found));
    }

    fn take_sent(self, sent: SentUpdate) {
        self.is_busy.set(false);
        self.news.set(None);
        if self.found.with_untracked(|found| found.as_ref().is_some_and(|found| found.round != sent.round)) {
            self.found.set(None);
        }
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

    fn take_attack(self, result: Reconstruction) {
        self.attacks.update(|attacks| match attacks.iter_mut().find(|known| known.attack == result.attack) {
            Some(known) => *known = result,
            None => attacks.push(result),
        });
    }

    fn take_lesson(self, lesson: LessonState) {
        let open = lesson.poll.as_ref().filter(|poll| poll.is_open).map(|poll| poll.number);
        let asked = lesson.poll.as_ref().map(|poll| poll.number);
        // What was lent for another question is nobody's business any longer.
        if self.borrowed.with_untracked(|borrowed| borrowed.as_ref().is_some_and(|it| Some(it.poll) != asked)) {
            self.borrowed.set(None);
        }
        if self.is_vote_in_doubt.get_value() {
            let knows = self.borrowed.get_untracked().filter(|it| it.knows_gaps && Some(it.poll) == open);
            if let Some(Borrowed { poll, .. }) = knows {
                self.send(ToWorker::KnowGaps { poll });
            }
            let vote = self.vote.get_untracked().filter(|(poll, _)| Some(*poll) == open);
            if let Some((poll, answer)) = vote {
                self.send(ToWorker::Vote { poll, answer });
            }
        }
        self.is_vote_in_doubt.set_value(false);
        self.remembered.update(|remembered| remembered.answer(&lesson, self.vote.get_untracked()));
        let is_other_choice = self.lesson.with_untracked(|before| before.is_careful != lesson.is_careful);
        self.lesson.set(lesson);
        if is_other_choice {
            self.tell_caution();
        }
    }

    fn take_own_attack(self, mut attack: OwnAttack) {
        if attack.batch_waits {
            attack.batch = self.own_attack.with_untracked(|last| last.as_ref()?.batch.clone());
        }
        self.recent.update(|recent| {
            for Reconstruction { attack, comparison, .. } in &attack.reconstructions {
                let Some(comparison) = comparison else { continue };
                let scores = recent.entry(*attack).or_default();
                scores.push(comparison.ssim);
                let surplus = scores.len().saturating_sub(SCORES_KEPT);
                scores.drain(..surplus);
            }
        });
        self.remembered.update(|remembered| attack.reconstructions.iter().for_each(|found| remembered.keep(found)));
        self.own_attack.set(Some(attack));
    }

    fn take_connection(self, connection: Connection) {
        // The student has left, so this message is about the earlier stay.
        if self.connection.with_untracked(Option::is_none) {
            return;
        }
        self.is_silent.set(false);
        if matches!(connection, Connection::Online { .. } | Connection::Waiting | Connection::Closed { .. }) {
            self.refusals.set(0);
        }
        match &connection {
            Connection::Online { nickname, ticket } => {
                SavedJoin::add_ticket(nickname, *ticket);
                // A new socket is in the rounds again.
                if !self.was_online() {
                    self.is_sitting_out.set(false);
                    self.is_vote_in_doubt.set_value(true);
                    // The room forgets a shown picture when the socket that sent it closes.
                    self.is_shown.set(false);
                    self.waits.set(false);
                }
                self.nickname.set(Some(nickname.clone()));
            }
            // The student asked for it, or the teacher erased the lesson.
            Connection::Closed { reason } if [FORGOTTEN, FORGOTTEN_BUT].contains(&reason.as_str()) => {
                self.is_forgetting.set(false);
                self.is_still_on_disk.set(reason == FORGOTTEN_BUT);
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
