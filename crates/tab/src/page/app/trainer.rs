//! The page's end of the worker: what it said last, as signals.

use std::collections::VecDeque;

use leptos::prelude::*;
use wasm_bindgen::{JsCast, closure::Closure};
use web_sys::{Event, MessageEvent, Worker};

use super::{
    comeback,
    reports::{Answered, Attacked, Closed, Plan, Question, Sent, Shard},
};
use crate::{
    post,
    protocol::{Connection, FromWorker, ToWorker},
};

/// The loader that the build puts beside the page, at a fixed name.
const LOADER: &str = "/worker_loader.js";

/// Losses kept for the small curve.
const LOSSES_KEPT: usize = 200;

/// Notices kept.
const NOTICES_KEPT: usize = 8;

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
    /// The device it trains on, and why.
    pub device: RwSignal<Option<(String, String)>>,
    /// The round.
    pub plan: RwSignal<Option<Plan>>,
    /// The passphrase it asks for, if it does.
    pub question: RwSignal<Option<Question>>,
    /// Whether a step is being computed.
    pub is_busy: RwSignal<bool>,
    /// The losses of this client, oldest first.
    pub losses: RwSignal<Vec<f32>>,
    /// The last update that left.
    pub sent: RwSignal<Option<Sent>>,
    /// Bytes sent since joining, and what they would have been unprotected.
    pub bytes: RwSignal<(u64, u64)>,
    /// The last round that the relay closed.
    pub closed: RwSignal<Option<Closed>>,
    /// This tab's share of the room's data set, if one has come.
    pub shard: RwSignal<Option<Shard>>,
    /// Number of the picture that the model was last asked about; 0 before the first.
    pub asked: RwSignal<u32>,
    /// What the model says of it.
    pub answer: RwSignal<Option<Answered>>,
    /// The last result of each attack, in the order in which they first came.
    pub attacks: RwSignal<Vec<Attacked>>,
    /// What the worker wanted to be said, newest first, numbered.
    pub notices: RwSignal<VecDeque<(u64, String)>>,
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
            device: RwSignal::new(None),
            plan: RwSignal::new(None),
            question: RwSignal::new(None),
            is_busy: RwSignal::new(false),
            losses: RwSignal::new(Vec::new()),
            sent: RwSignal::new(None),
            bytes: RwSignal::new((0, 0)),
            closed: RwSignal::new(None),
            shard: RwSignal::new(None),
            asked: RwSignal::new(0),
            answer: RwSignal::new(None),
            attacks: RwSignal::new(Vec::new()),
            notices: RwSignal::new(VecDeque::new()),
        };
        match Worker::new(LOADER) {
            Ok(worker) => trainer.listen(worker),
            Err(_) => trainer.failure.set(Some(
                "This browser cannot start the worker that trains. Use a current Chrome, Edge, Firefox or Safari."
                    .to_owned(),
            )),
        }
        trainer
    }

    fn listen(self, worker: Worker) {
        let on_message =
            Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| match post::decode(&event.data()) {
                Ok(message) => self.take(message),
                Err(error) => self.failure.set(Some(error.to_string())),
            });
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        let on_error = Closure::<dyn FnMut(Event)>::new(move |event: Event| {
            // A script that cannot be fetched gives a bare event, without the message that an `ErrorEvent` carries.
            let reason = js_sys::Reflect::get(&event, &"message".into()).ok().and_then(|message| message.as_string());
            let reason = reason.unwrap_or_else(|| format!("{LOADER} could not be loaded"));
            self.is_busy.set(false);
            self.failure.set(Some(format!("The trainer stopped: {reason}. Reload the page to start it again.")));
        });
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        // Both live as long as the page, as the worker does.
        on_message.forget();
        on_error.forget();
        self.worker.set_value(Some(worker));
    }

    /// Joins the room; waits for the worker if it is still loading.
    pub fn join(self, message: ToWorker) {
        self.connection.set(Some(Connection::Connecting));
        self.plan.set(None);
        self.question.set(None);
        self.is_busy.set(false);
        self.losses.set(Vec::new());
        self.sent.set(None);
        self.bytes.set((0, 0));
        self.closed.set(None);
        self.shard.set(None);
        self.answer.set(None);
        self.attacks.set(Vec::new());
        self.notices.set(VecDeque::new());
        self.send(message);
    }

    /// Leaves the room.
    pub fn leave(self) {
        self.connection.set(None);
        comeback::forget();
        self.send(ToWorker::Leave);
    }

    /// Answers the worker's question.
    pub fn answer(self, passphrase: String) {
        self.question.set(None);
        self.send(ToWorker::Passphrase { passphrase });
    }

    /// Asks the room's model what a picture shows, RGB, row by row.
    pub fn ask(self, picture: Vec<u8>) {
        self.asked.update(|number| *number += 1);
        self.answer.set(None);
        self.send(ToWorker::Try { number: self.asked.get_untracked(), picture });
    }

    fn send(self, message: ToWorker) {
        if !self.is_ready.get_untracked() {
            self.waiting.update_value(|waiting| waiting.push(message));
            return;
        }
        let sent = post::encode(&message).map_err(|error| error.to_string()).and_then(|bytes| {
            self.worker.with_value(|worker| {
                let worker = worker.as_ref().ok_or("The trainer is not running; reload the page.")?;
                worker.post_message(&bytes).map_err(|_| "The trainer takes no message; reload the page.")
            })?;
            Ok(())
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
            FromWorker::Device { name, reason } => self.device.set(Some((name, reason))),
            FromWorker::Connection(connection) => {
                // What a worker says after the student left belongs to the session before.
                if self.connection.with_untracked(Option::is_some) {
                    match &connection {
                        Connection::Online { nickname, ticket } => comeback::let_in(nickname, *ticket),
                        _ => self.is_busy.set(false),
                    }
                    self.connection.set(Some(connection));
                }
            }
            FromWorker::Training { round, model, defence, rule, shared } => {
                self.is_busy.set(true);
                self.question.set(None);
                let is_other = |plan: &Plan| plan.defence != defence || plan.shared.is_some() != shared.is_some();
                // What was seen through another defence, or of other pictures, says nothing about these.
                if self.plan.with_untracked(|plan| plan.as_ref().is_some_and(is_other)) {
                    self.attacks.set(Vec::new());
                }
                self.plan.set(Some(Plan { round, model, defence, rule, shared }));
            }
            FromWorker::Shard(shard) => self.shard.set(Some(Shard::from(shard))),
            FromWorker::Answered { number, answer } if number == self.asked.get_untracked() => {
                self.answer.set(Some(Answered::from(answer)));
            }
            FromWorker::Answered { .. } => {}
            FromWorker::AskPassphrase { reason, wrong } => {
                self.is_busy.set(false);
                self.question.set(Some(Question { reason, wrong }));
            }
            FromWorker::Sealed {} => {
                self.question.set(None);
                self.notice("This tab encrypted the room’s model with your passphrase and sent it back.".to_owned());
            }
            FromWorker::Sent { round, loss, milliseconds, bytes, plain_bytes, samples, rule, groups } => {
                self.is_busy.set(false);
                self.losses.update(|losses| {
                    losses.push(loss);
                    let surplus = losses.len().saturating_sub(LOSSES_KEPT);
                    losses.drain(..surplus);
                });
                self.bytes.update(|(sent, plain)| {
                    *sent += bytes;
                    *plain += plain_bytes;
                });
                self.sent.set(Some(Sent { round, milliseconds, bytes, plain_bytes, samples, rule, groups }));
            }
            FromWorker::Closed { round, loss, updates } => self.closed.set(Some(Closed { round, loss, updates })),
            FromWorker::Attacked { round, attack, side, reconstruction, comparison } => {
                let result = Attacked::new(round, attack, side, &reconstruction, comparison);
                self.attacks.update(|attacks| match attacks.iter_mut().find(|known| known.attack == result.attack) {
                    Some(known) => *known = result,
                    None => attacks.push(result),
                });
            }
            FromWorker::Notice { text } => self.notice(text),
        }
    }

    fn notice(self, text: String) {
        self.notices.update(|notices| {
            let number = notices.front().map_or(0, |(number, _)| number + 1);
            notices.push_front((number, text));
            notices.truncate(NOTICES_KEPT);
        });
    }
}
