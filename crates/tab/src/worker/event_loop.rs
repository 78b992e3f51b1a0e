//! The worker's event loop: handles events from page and socket, and runs one training step at a time.

use std::time::Duration;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::{FutureExt, StreamExt};
use gloo_timers::future::sleep;
use unmask_client::{Action, Client, ClientEvent, PrivatePicture};
use unmask_core::Backoff;
use wasm_bindgen_futures::spawn_local;
use web_time::Instant;

use super::{
    caution,
    device::ChosenDevice,
    page::Page,
    session::Session,
    socket::{Socket, SocketEvent},
    views,
};
use crate::protocol::{self, ClosedRound, Connection, FromWorker, Notice, PassphraseRequest, ToWorker};

/// How often the socket is checked.
const BEAT: Duration = Duration::from_secs(5);
/// How often the relay is pinged.
const PING: Duration = Duration::from_secs(10);
/// How long the answer to a check may take.
const ANSWER: Duration = Duration::from_secs(3);
/// A socket silent for this long is checked. With one [`BEAT`] to notice the silence and one [`ANSWER`] without a
/// reply, the student learns of it after at most 25 s. The socket is then given up, or kept while an update may still
/// be on its way.
const SILENCE: Duration = Duration::from_secs(17);

/// Shown until the first plan says what there is to compute.
const UNKNOWN_DEVICE: &str = "choosing a device";

enum Event {
    Page(ToWorker),
    Socket(SocketEvent),
    Retry,
    Beat,
    /// By now something should have arrived on the socket since the relay was asked.
    AnswerDue {
        asked: Instant,
    },
}

/// An event with the number of its connection (sockets and timers only), which distinguishes old connections from the
/// current one.
type Numbered = (Option<u32>, Event);

/// Starts the worker and returns immediately.
pub fn start() {
    let Some(page) = Page::find() else {
        web_sys::console::error_1(&"the trainer must run in a dedicated worker".into());
        return;
    };
    // A panic would end in a promise that nobody awaits, and the page would wait forever.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(page) = Page::find() {
            let reason = format!("the trainer crashed; reload the page to rejoin ({panic})");
            page.tell(FromWorker::Connection(Connection::Closed { reason }));
        }
    }));
    let (events, receiver) = unbounded();
    let from_page = events.clone();
    page.listen(move |message| drop(from_page.unbounded_send((None, Event::Page(message)))));
    page.tell(FromWorker::Ready);
    spawn_local(beat(events.clone()));
    let worker =
        Worker { page, events, connection: 0, session: None, device: ChosenDevice::default(), is_hidden: false };
    spawn_local(worker.run(receiver));
}

async fn beat(events: UnboundedSender<Numbered>) {
    loop {
        sleep(BEAT).await;
        if events.unbounded_send((None, Event::Beat)).is_err() {
            return;
        }
    }
}

/// Waits until this thread has been idle for `time`, if possible. A late timer means that the device slept or that a
/// long training step ran, so that messages may still be waiting to be read.
async fn idle(time: Duration) {
    // Browsers may delay every timer of a hidden page.
    for _ in 0..5 {
        let begun = Instant::now();
        sleep(time).await;
        if begun.elapsed() < time + Duration::from_secs(1) {
            return;
        }
    }
}

struct Worker {
    page: Page,
    events: UnboundedSender<Numbered>,
    connection: u32,
    session: Option<Session>,
    device: ChosenDevice,
    is_hidden: bool,
}

impl Worker {
    async fn run(mut self, mut events: UnboundedReceiver<Numbered>) {
        loop {
            // Handle everything that has arrived before the next step, so that only the newest plan is trained.
            while let Some(event) = events.next().now_or_never() {
                let Some(event) = event else { return };
                self.handle(event);
            }
            // Training replaces the weights that a loan was made from.
            if let Some(session) = self.session.as_mut().filter(|session| session.loans.is_due()) {
                session.attack_loan(&self.page);
                continue;
            }
            let plan = self.session.as_mut().and_then(|session| session.plan.take());
            match (&mut self.session, plan) {
                (Some(session), Some(plan)) => session.train(plan, &mut self.device, &self.page).await,
                // After the update, since the room waits for that.
                (Some(session), None) if session.is_mask_due() => session.attack_masked(&self.page),
                (Some(session), None) if session.is_own_attack_due() => session.attack_own(&self.page),
                (Some(session), None) if session.is_prediction_due() => {
                    session.classify(&mut self.device, &self.page).await;
                }
                _ => {
                    let Some(event) = events.next().await else { return };
                    self.handle(event);
                }
            }
        }
    }

    fn handle(&mut self, (connection, event): Numbered) {
        if connection.is_some_and(|number| number != self.connection) {
            return;
        }
        match event {
            Event::Page(message) => self.page_message(message),
            Event::Socket(event) => self.socket_event(event),
            Event::Retry => self.connect(),
            Event::Beat => self.look_after_socket(),
            Event::AnswerDue { asked } => self.answer_due(asked),
        }
    }

    fn look_after_socket(&mut self) {
        let Some(session) = &mut self.session else { return };
        // Without a socket, a retry is already scheduled.
        if session.socket.is_some() && session.silence() >= SILENCE {
            // Once the socket is known to be silent, a check is already under way.
            if !session.is_silent() {
                self.check();
            }
        } else if session.since_ping() >= PING {
            session.ping(&self.page);
        }
    }

    /// Checks whether the relay is there. Reconnects if there is no socket or the relay is known not to answer.
    fn check(&mut self) {
        let Some(session) = &mut self.session else { return };
        match &session.socket {
            None => return self.connect(),
            // A socket has the time of an answer to open. The browser may try an unreachable address for minutes.
            Some(socket) if !socket.has_opened() => {
                if session.silence() > ANSWER {
                    self.connect();
                }
                return;
            }
            Some(_) if session.is_silent() => return self.connect(),
            Some(_) => {}
        }
        let asked = Instant::now();
        session.ping(&self.page);
        self.await_answer(asked, ANSWER);
    }

    /// After `wait`, checks whether anything has arrived since the relay was `asked`.
    fn await_answer(&self, asked: Instant, wait: Duration) {
        let (events, connection) = (self.events.clone(), Some(self.connection));
        spawn_local(async move {
            idle(wait).await;
            drop(events.unbounded_send((connection, Event::AnswerDue { asked })));
        });
    }

    fn answer_due(&mut self, asked: Instant) {
        let Some(session) = &mut self.session else { return };
        if session.socket.is_none() || session.has_heard_since(asked) {
            return;
        }
        let sending = session.sending();
        if sending.is_zero() {
            return self.retry();
        }
        // The answer waits in line behind an update, which a new socket would only lose.
        if session.silence() >= SILENCE {
            session.set_silent(true, &self.page);
        }
        self.await_answer(asked, sending);
    }

    fn page_message(&mut self, message: ToWorker) {
        match message {
            ToWorker::Join { socket, nickname, picture, label, device, may_show, may_lend, passphrase, ticket } => {
                let own = match views::from_page(&picture) {
                    Ok(own) => PrivatePicture::new(own, label.into()),
                    Err(reason) => return self.leave(format!("this picture cannot be used: {reason}")),
                };
                let description = self.device.description();
                let description = description.as_deref().unwrap_or(UNKNOWN_DEVICE);
                let mut client =
                    Client::new(&nickname, description).with_pictures(vec![own]).with_consent(may_show, may_lend);
                if let Some(ticket) = ticket {
                    client = client.resuming(ticket);
                }
                client.set_passphrase(passphrase);
                client.set_caution(caution::of_page(protocol::Caution::default()));
                self.session = Some(Session::new(socket, client, device));
                self.connect();
            }
            ToWorker::Classify { number, picture } => {
                let Some(session) = &mut self.session else { return };
                match views::from_page(&picture) {
                    Ok(picture) => session.set_picture(number, picture),
                    Err(reason) => {
                        self.page.tell(FromWorker::Classified { number, prediction: Err(reason.to_string()) })
                    }
                }
            }
            // The relay knows that this tab cannot take part in this round, so the passphrase counts from the next one.
            ToWorker::Passphrase(passphrase) => {
                if let Some(session) = &mut self.session {
                    session.client.set_passphrase(Some(passphrase));
                }
            }
            ToWorker::Consent { may_show, may_lend } => {
                if let Some(session) = &mut self.session {
                    session.wants_shown &= may_show;
                    let consent = session.client.consent(may_show, may_lend);
                    session.send(consent, &self.page);
                }
            }
            ToWorker::Caution(chosen) => {
                if let Some(session) = &mut self.session {
                    session.client.set_caution(caution::of_page(chosen));
                }
            }
            ToWorker::TryMask { percent } => {
                if let Some(session) = &mut self.session {
                    session.try_mask(percent);
                }
            }
            ToWorker::Visibility { is_hidden } => {
                self.is_hidden = is_hidden;
                self.tell_visibility();
            }
            ToWorker::Return => {
                if let Some(session) = &mut self.session {
                    let back = session.client.come_back();
                    session.send(back, &self.page);
                }
            }
            ToWorker::Check => self.check(),
            ToWorker::Leave => self.leave("you left the room".to_owned()),
            ToWorker::Vote { poll, answer } => {
                if let Some(session) = &mut self.session {
                    let vote = session.client.vote(poll, answer);
                    session.send(vote, &self.page);
                }
            }
            ToWorker::KnowGaps { poll } => {
                if let Some(session) = &mut self.session {
                    let knows = session.client.know_gaps(poll);
                    session.send(knows, &self.page);
                }
            }
            ToWorker::ShowOriginal => {
                if let Some(session) = &mut self.session {
                    session.wants_shown = true;
                    session.show(&self.page);
                }
            }
            ToWorker::HideOriginal => {
                if let Some(session) = &mut self.session {
                    session.wants_shown = false;
                    let hide = session.client.hide_original();
                    session.send(hide, &self.page);
                }
            }
            ToWorker::Forget => self.forget(),
        }
    }

    fn tell_visibility(&mut self) {
        if let Some(session) = &mut self.session {
            let visibility = session.client.visibility(self.is_hidden);
            session.send(visibility, &self.page);
        }
    }

    /// Asks the room to delete this student's data; the room then says goodbye. Without a socket, tells the page that
    /// the room was not asked.
    fn forget(&mut self) {
        let Some(session) = &mut self.session else { return };
        session.wants_shown = false;
        if session.socket.as_ref().is_some_and(Socket::has_opened) {
            let forget = session.client.forget();
            session.send(forget, &self.page);
        } else {
            self.page.tell(FromWorker::Notice(Notice::NotAsked));
        }
    }

    fn leave(&mut self, reason: String) {
        self.connection += 1;
        self.session = None;
        self.page.tell(FromWorker::Connection(Connection::Closed { reason }));
    }

    fn connect(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.connection += 1;
        self.page.tell(FromWorker::Connection(Connection::Connecting));
        let (events, connection) = (self.events.clone(), Some(self.connection));
        // A closed channel means that the worker is stopping.
        let tell = move |event| drop(events.unbounded_send((connection, Event::Socket(event))));
        if let Err(error) = session.connect(tell) {
            let reason = format!("the browser refuses the address {}: {error}", session.address);
            self.leave(reason);
        }
    }

    /// Reconnects after a wait. It never gives up, so that a restarted relay gets its tabs back.
    fn retry(&mut self) {
        let Some(session) = &mut self.session else { return };
        (session.socket, session.plan) = (None, None);
        let wait = session.backoff.wait(js_sys::Math::random());
        let seconds = wait.as_secs_f64().ceil() as u32;
        self.page.tell(FromWorker::Connection(Connection::Retrying { seconds }));
        let (events, connection) = (self.events.clone(), Some(self.connection));
        spawn_local(async move {
            sleep(wait).await;
            drop(events.unbounded_send((connection, Event::Retry)));
        });
    }

    fn socket_event(&mut self, event: SocketEvent) {
        let Some(session) = &mut self.session else { return };
        match event {
            SocketEvent::Open(sink) => {
                if let Some(socket) = &mut session.socket {
                    socket.opened(sink);
                }
                session.hello(&self.page);
            }
            SocketEvent::Frame(frame) => {
                session.set_silent(false, &self.page);
                match session.client.receive(&frame) {
                    Ok(Some(action)) => self.act(action),
                    Ok(None) => {}
                    // A relay that does not speak this protocol will not start to on a retry.
                    Err(error) => {
                        let reason =
                            format!("the relay sent something this page cannot read; reload the page ({error})");
                        self.leave(reason);
                    }
                }
            }
            SocketEvent::Closed => self.retry(),
        }
    }

    fn act(&mut self, action: Action) {
        let (Some(session), page) = (&mut self.session, &self.page) else { return };
        match action {
            Action::Send(frames) => session.send(Ok(frames), page),
            Action::Train(plan) => session.plan = Some(plan),
            Action::Seal(task) => session.seal(*task, page),
            Action::AskPassphrase { frames, reason, wrong } => {
                session.send(Ok(frames), page);
                page.tell(FromWorker::AskPassphrase(PassphraseRequest { reason, is_wrong: wrong }));
            }
            Action::Report(ClientEvent::Welcome { nickname, .. }) => {
                session.backoff = Backoff::default();
                let ticket = session.client.ticket();
                page.tell(FromWorker::Connection(Connection::Online { nickname, ticket }));
                // The relay assumes that a new socket's tab is visible.
                session.show(page);
                if self.is_hidden {
                    self.tell_visibility();
                }
            }
            Action::Report(ClientEvent::Waiting) => {
                session.backoff = Backoff::default();
                page.tell(FromWorker::Connection(Connection::Waiting));
            }
            Action::Report(ClientEvent::Shard(shard)) => page.tell(FromWorker::Shard(views::shard(&shard))),
            Action::Report(ClientEvent::Renamed { nickname }) => {
                let ticket = session.client.ticket();
                page.tell(FromWorker::Notice(Notice::Renamed { nickname: nickname.clone() }));
                page.tell(FromWorker::Connection(Connection::Online { nickname, ticket }));
            }
            Action::Report(ClientEvent::SittingOut) => page.tell(FromWorker::SittingOut),
            Action::Report(ClientEvent::Accepted { .. }) => session.update_arrived(),
            Action::Report(ClientEvent::Closed { round, loss, updates }) => {
                page.tell(FromWorker::Closed(ClosedRound { round, loss, updates }));
            }
            Action::Report(ClientEvent::Listed(listed)) => page.tell(FromWorker::Listed(caution::listed(listed))),
            Action::Report(ClientEvent::Reconstruction { round, attack, side, picture }) => {
                session.compare(round, attack, side, &picture, page);
            }
            Action::Report(ClientEvent::Lesson(lesson)) => {
                if lesson.poll.as_ref().is_none_or(|poll| !poll.is_open) {
                    session.loans.end();
                }
                page.tell(FromWorker::Lesson(lesson));
            }
            Action::Report(ClientEvent::Loan { poll, loan }) => {
                if let Some(result) = session.loans.take(poll, loan) {
                    page.tell(FromWorker::Loan(result));
                }
            }
            Action::Report(ClientEvent::LoanEnded { poll }) => {
                session.loans.end();
                page.tell(FromWorker::LoanEnded { poll });
            }
            Action::Report(ClientEvent::Scored { poll, owner, points }) => {
                page.tell(FromWorker::Scored { poll, owner, points });
            }
            Action::Report(ClientEvent::Original { is_shown, waits }) => {
                // A picture that waits is to wait on the next socket, too.
                if !waits {
                    session.wants_shown = is_shown;
                }
                page.tell(FromWorker::Original { is_shown, waits });
            }
            Action::Report(ClientEvent::Refused { reason }) => page.tell(FromWorker::Notice(Notice::Said(reason))),
            Action::Report(ClientEvent::Goodbye { reason }) => self.leave(reason),
        }
    }
}
