//! The worker's loop: events in from page and socket, one training step at a time.

use std::time::Duration;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::{FutureExt, StreamExt};
use gloo_timers::future::sleep;
use unmask_client::{Action, Client, ClientError, ClientEvent, PrivatePicture};
use unmask_core::Architecture;
use unmask_model::device::OpenDevice;
use unmask_wire::WireError;
use wasm_bindgen::{JsCast, closure::Closure};
use wasm_bindgen_futures::spawn_local;
use web_sys::MessageEvent;

use super::{
    page::Page,
    picture,
    session::Session,
    sheet,
    socket::{Socket, SocketEvent},
    trial::Trial,
};
use crate::{
    post,
    protocol::{Connection, DeviceChoice, FromWorker, ToWorker},
};

const LONGEST_WAIT: u32 = 15;
/// Shown until the first plan says what there is to compute.
const UNKNOWN_DEVICE: &str = "choosing a device";

enum Event {
    Page(ToWorker),
    Socket(u32, SocketEvent),
    Retry(u32),
}

/// Starts the worker; returns at once.
pub fn start() {
    let Some(page) = Page::find() else {
        web_sys::console::error_1(&"the trainer must run in a dedicated worker".into());
        return;
    };
    // A panic ends in a promise that nobody awaits; without this the page would wait for ever.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(page) = Page::find() {
            let reason = format!("the trainer broke down, reload the page to come back ({panic})");
            page.tell(FromWorker::Connection(Connection::Closed { reason }));
        }
    }));
    let (sender, receiver) = unbounded();
    let from_page = sender.clone();
    let on_message =
        Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| match post::decode(&event.data()) {
            Ok(message) => drop(from_page.unbounded_send(Event::Page(message))),
            Err(error) => web_sys::console::error_1(&error.to_string().into()),
        });
    page.scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    // The page's messages are wanted for as long as the worker lives.
    on_message.forget();
    page.tell(FromWorker::Ready);
    spawn_local(Worker::new(page, sender).run(receiver));
}

/// The worker's whole state.
pub struct Worker {
    /// The way to the page.
    pub page: Page,
    events: UnboundedSender<Event>,
    serial: u32,
    /// The room it is in.
    pub session: Option<Session>,
    /// The device chosen, and the model it was chosen for.
    pub device: Option<(Architecture, OpenDevice)>,
}

impl Worker {
    fn new(page: Page, events: UnboundedSender<Event>) -> Self {
        Self { page, events, serial: 0, session: None, device: None }
    }

    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        loop {
            // Everything that has arrived comes before the next step, so that only the newest plan is trained.
            while let Some(event) = events.next().now_or_never() {
                let Some(event) = event else { return };
                self.handle(event);
            }
            match self.session.as_mut().and_then(|session| session.plan.take()) {
                Some(plan) => {
                    // A phone has no room for the weights of two rounds beside a step.
                    if let Some(session) = &mut self.session {
                        session.trained = None;
                    }
                    self.train(&plan).await;
                    if let Some(session) = &mut self.session {
                        session.trained = Some(plan);
                        session.is_trial_due = session.trial.is_some();
                    }
                }
                // After the update, for which the room waits.
                None if self.is_trial_due() => self.answer().await,
                None => {
                    let Some(event) = events.next().await else { return };
                    self.handle(event);
                }
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Page(ToWorker::Join { socket, nickname, picture, label, device, passphrase, ticket }) => {
                match picture::from_page(picture) {
                    Ok(own) => {
                        let own = PrivatePicture::new(own, label.into());
                        self.join(socket, &nickname, own, device, ticket);
                    }
                    Err(reason) => self.leave(&format!("this picture cannot be used: {reason}")),
                }
                self.set_passphrase(passphrase);
            }
            Event::Page(ToWorker::Try { number, picture }) => self.set_trial(number, picture),
            Event::Page(ToWorker::Passphrase { passphrase }) => self.set_passphrase(Some(passphrase)),
            Event::Page(ToWorker::Leave) => self.leave("you left the room"),
            Event::Retry(serial) if serial == self.serial && self.session.is_some() => self.connect(),
            Event::Socket(serial, event) if serial == self.serial => self.socket_event(event),
            Event::Retry(_) | Event::Socket(..) => {}
        }
    }

    fn join(
        &mut self,
        address: String,
        nickname: &str,
        own: PrivatePicture,
        wanted: DeviceChoice,
        ticket: Option<[u8; 16]>,
    ) {
        let device = self.device.as_ref().map(|(_, device)| device.description());
        let mut client = Client::new(nickname, device.as_deref().unwrap_or(UNKNOWN_DEVICE)).with_pictures(vec![own]);
        if let Some(ticket) = ticket {
            client = client.resuming(ticket);
        }
        self.session = Some(Session::new(address, client, wanted));
        self.connect();
    }

    /// The relay was told that this tab cannot take part, so a passphrase counts from the next round on.
    fn set_passphrase(&mut self, passphrase: Option<String>) {
        if let Some(session) = &mut self.session {
            session.client.set_passphrase(passphrase);
        }
    }

    fn leave(&mut self, reason: &str) {
        self.serial += 1;
        self.session = None;
        self.page.tell(FromWorker::Connection(Connection::Closed { reason: reason.to_owned() }));
    }

    fn connect(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.serial += 1;
        self.page.tell(FromWorker::Connection(Connection::Connecting));
        let (sender, mut receiver) = unbounded();
        match Socket::open(&session.address, self.serial, sender) {
            Ok(socket) => {
                session.socket = Some(socket);
                let events = self.events.clone();
                spawn_local(async move {
                    while let Some((serial, event)) = receiver.next().await {
                        if events.unbounded_send(Event::Socket(serial, event)).is_err() {
                            return;
                        }
                    }
                });
            }
            Err(error) => {
                let reason = format!("the browser refuses the address {}: {error:?}", session.address);
                self.leave(&reason);
            }
        }
    }

    fn retry(&mut self) {
        let Some(session) = &mut self.session else { return };
        session.socket = None;
        session.is_open = false;
        session.plan = None;
        let seconds = session.wait;
        session.wait = (2 * seconds).min(LONGEST_WAIT);
        self.page.tell(FromWorker::Connection(Connection::Retrying { seconds }));
        let (events, serial) = (self.events.clone(), self.serial);
        spawn_local(async move {
            sleep(Duration::from_secs(seconds.into())).await;
            // A closed channel means that the worker is stopping.
            drop(events.unbounded_send(Event::Retry(serial)));
        });
    }

    fn socket_event(&mut self, event: SocketEvent) {
        match event {
            SocketEvent::Open => {
                let Some(session) = &mut self.session else { return };
                session.is_open = true;
                let hello = session.client.hello();
                self.send(hello);
            }
            SocketEvent::Frame(frame) => {
                let Some(session) = &mut self.session else { return };
                match session.client.receive(&frame) {
                    Ok(Some(action)) => self.act(action),
                    Ok(None) => {}
                    Err(error) => self.give_up(&error),
                }
            }
            SocketEvent::Closed => self.retry(),
        }
    }

    /// A relay that does not speak this protocol will not learn it by trying again.
    fn give_up(&mut self, error: &ClientError) {
        self.leave(&format!("the relay sent something this page cannot read: {error}"));
    }

    fn act(&mut self, action: Action) {
        let Some(session) = &mut self.session else { return };
        match action {
            Action::Send(frames) => self.send(Ok(frames)),
            Action::Train(plan) => session.plan = Some(plan),
            Action::Seal(task) => self.seal(*task),
            Action::AskPassphrase { frames, reason, wrong } => {
                self.send(Ok(frames));
                self.page.tell(FromWorker::AskPassphrase { reason, wrong });
            }
            Action::Report(ClientEvent::Welcome { nickname, .. }) => {
                session.wait = 1;
                let ticket = session.client.ticket();
                self.page.tell(FromWorker::Connection(Connection::Online { nickname, ticket }));
            }
            Action::Report(ClientEvent::Shard(shard)) => self.page.tell(FromWorker::Shard(sheet::view(&shard))),
            Action::Report(ClientEvent::Accepted { .. }) => {}
            Action::Report(ClientEvent::Closed { round, loss, updates }) => {
                self.page.tell(FromWorker::Closed { round, loss, updates });
            }
            Action::Report(ClientEvent::Reconstruction { round, attack, side, picture }) => {
                self.attacked(round, attack, side, &picture);
            }
            Action::Report(ClientEvent::Refused { reason }) => self.page.tell(FromWorker::Notice { text: reason }),
            Action::Report(ClientEvent::Goodbye { reason }) => self.leave(&reason),
        }
    }

    fn set_trial(&mut self, number: u32, picture: Vec<u8>) {
        let Some(session) = &mut self.session else { return };
        match Trial::new(number, picture) {
            Ok(trial) => {
                session.trial = Some(trial);
                session.is_trial_due = true;
            }
            Err(reason) => self.page.tell(FromWorker::Answered { number, answer: Err(reason) }),
        }
    }

    /// Whether there is a picture to try, and weights to try it on.
    fn is_trial_due(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_trial_due && session.trained.is_some())
    }

    /// Sends frames to the relay, if the socket is open.
    pub fn send(&mut self, frames: Result<Vec<Vec<u8>>, WireError>) {
        match (frames, self.session.as_ref().filter(|session| session.is_open).and_then(|s| s.socket.as_ref())) {
            (Ok(frames), Some(socket)) => socket.send(&frames),
            // The socket dropped while training; the update is of a round that goes on without it.
            (Ok(_), None) => {}
            (Err(error), _) => self.page.tell(FromWorker::Notice { text: error.to_string() }),
        }
    }
}
