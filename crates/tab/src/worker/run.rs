//! The worker's loop: events in from page and socket, one training step at a time.

use std::time::Duration;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::{FutureExt, StreamExt};
use gloo_timers::future::sleep;
use js_sys::global;
use unmask_client::{Action, Client, ClientError, GroupLeaving, News, Plan, SealTask, Step};
use unmask_defence::MaskSeed;
use unmask_model::{
    Device, ModelError, Vit,
    device::{Compute, OpenDevice},
};
use unmask_params::{ModelSpec, Preset, Rule};
use unmask_wire::WireError;
use wasm_bindgen::{JsCast, closure::Closure};
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};
use web_time::Instant;

use super::{
    device,
    own_picture::{OwnPicture, rgba},
    socket::{Socket, SocketEvent},
};
use crate::{
    post,
    protocol::{Connection, DeviceChoice, FromWorker, GroupView, ToWorker},
};

const LONGEST_WAIT: u32 = 15;
/// The attack that finds patches, but not where they belong.
const UNORDERED: &str = "jigsaw";
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

/// The way to the page.
struct Page {
    scope: DedicatedWorkerGlobalScope,
}

impl Page {
    /// `None` outside a dedicated worker.
    fn find() -> Option<Self> {
        global().dyn_into().ok().map(|scope| Self { scope })
    }

    fn tell(&self, message: FromWorker) {
        let posted = post::encode(&message)
            .map_err(|error| error.to_string())
            .and_then(|message| self.scope.post_message(&message).map_err(|error| format!("{error:?}")));
        if let Err(error) = posted {
            web_sys::console::error_1(&error.into());
        }
    }
}

/// In a room, or on the way there.
struct Session {
    address: String,
    client: Client,
    own: OwnPicture,
    wanted: DeviceChoice,
    /// The newest plan not yet begun.
    plan: Option<Box<Plan>>,
    socket: Option<Socket>,
    is_open: bool,
    /// Seconds to wait before the next try.
    wait: u32,
}

struct Worker {
    page: Page,
    events: UnboundedSender<Event>,
    serial: u32,
    session: Option<Session>,
    device: Option<(Preset, OpenDevice)>,
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
                Some(plan) => self.train(*plan).await,
                None => {
                    let Some(event) = events.next().await else { return };
                    self.handle(event);
                }
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Page(ToWorker::Join { socket, nickname, picture, label, device, passphrase }) => {
                self.join(socket, &nickname, picture, label, device);
                self.set_passphrase(passphrase);
            }
            Event::Page(ToWorker::Passphrase { passphrase }) => self.set_passphrase(Some(passphrase)),
            Event::Page(ToWorker::Leave) => self.leave("you left the room"),
            Event::Retry(serial) if serial == self.serial && self.session.is_some() => self.connect(),
            Event::Socket(serial, event) if serial == self.serial => self.socket_event(event),
            Event::Retry(_) | Event::Socket(..) => {}
        }
    }

    fn join(&mut self, address: String, nickname: &str, picture: Vec<u8>, label: u8, wanted: DeviceChoice) {
        match OwnPicture::new(picture, label) {
            Ok(own) => {
                let device = self.device.as_ref().map(|(_, device)| device.description());
                let client = Client::new(nickname, device.as_deref().unwrap_or(UNKNOWN_DEVICE));
                let (plan, socket, is_open, wait) = (None, None, false, 1);
                self.session = Some(Session { address, client, own, wanted, plan, socket, is_open, wait });
                self.connect();
            }
            Err(reason) => self.leave(&format!("this picture cannot be used: {reason}")),
        }
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
            Action::Ask { frames, reason, wrong } => {
                self.send(Ok(frames));
                self.page.tell(FromWorker::AskPassphrase { reason, wrong });
            }
            Action::Tell(News::Welcome { nickname, .. }) => {
                session.wait = 1;
                self.page.tell(FromWorker::Connection(Connection::Online { nickname }));
            }
            Action::Tell(News::Accepted { .. }) => {}
            Action::Tell(News::Closed { round, loss, updates }) => {
                self.page.tell(FromWorker::Closed { round, loss, updates });
            }
            Action::Tell(News::Reconstruction { round, attack, side, picture }) => {
                self.attacked(round, attack, side, &picture);
            }
            Action::Tell(News::Refused { reason }) => self.page.tell(FromWorker::Notice { text: reason }),
            Action::Tell(News::Goodbye { reason }) => self.leave(&reason),
        }
    }

    fn seal(&mut self, task: SealTask) {
        let Some(session) = &self.session else { return };
        let policy = task.policy;
        let sealed = fresh_bytes()
            .map(u64::from_le_bytes)
            .and_then(|fresh| session.client.seal(task, fresh).map_err(|error| error.to_string()));
        match sealed {
            Ok(frames) => {
                self.send(Ok(frames));
                self.page.tell(FromWorker::Sealed {});
            }
            Err(reason) => {
                let unable = session.client.unable(0, policy, &reason);
                self.send(unable);
                self.page.tell(FromWorker::Notice { text: format!("the model could not be encrypted: {reason}") });
            }
        }
    }

    fn attacked(&mut self, round: u32, attack: String, side: usize, picture: &[f32]) {
        let Some(session) = &self.session else { return };
        let model = self.device.as_ref().map(|(preset, _)| ModelSpec::new(*preset).config());
        let patch = model.filter(|_| attack == UNORDERED).map(|config| config.patch);
        match session.own.score(side, picture, patch) {
            Ok((psnr, ssim)) => {
                let score = session.client.score(round, &attack, psnr, ssim);
                let (own, reconstruction) = (rgba(&session.own.hwc(side)), rgba(picture));
                self.send(score);
                let side = side as u32;
                self.page.tell(FromWorker::Attacked { round, attack, side, reconstruction, own, psnr, ssim });
            }
            Err(reason) => {
                let text = format!("the reconstruction of round {round} cannot be compared: {reason}");
                self.page.tell(FromWorker::Notice { text });
            }
        }
    }

    fn send(&mut self, frames: Result<Vec<Vec<u8>>, WireError>) {
        match (frames, self.session.as_ref().filter(|session| session.is_open).and_then(|s| s.socket.as_ref())) {
            (Ok(frames), Some(socket)) => socket.send(&frames),
            // The socket dropped while training; the update is of a round that goes on without it.
            (Ok(_), None) => {}
            (Err(error), _) => self.page.tell(FromWorker::Notice { text: error.to_string() }),
        }
    }

    async fn train(&mut self, plan: Plan) {
        let device = self.device_for(&plan).await;
        let Some(session) = &self.session else { return };
        self.page.tell(FromWorker::Training {
            round: plan.round,
            model: plan.spec.preset.to_string(),
            defence: plan.defence.to_string(),
            rule: plan.rule.to_string(),
        });
        let begun = Instant::now();
        let image = session.own.chw(plan.spec.config().image);
        let step = step(&plan, &image, session.own.label, device.device()).await;
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        let outgoing = step.map_err(|error| error.to_string()).and_then(|step| {
            let (loss, samples) = (step.loss, step.samples);
            let outgoing = session.client.update(&plan, step, fresh_seed()?).map_err(|error| error.to_string())?;
            Ok((loss, samples, outgoing))
        });
        match outgoing {
            Ok((loss, samples, outgoing)) => {
                self.send(Ok(outgoing.frames));
                self.page.tell(FromWorker::Sent {
                    round: plan.round,
                    loss,
                    milliseconds,
                    bytes: outgoing.bytes as u64,
                    plain_bytes: outgoing.plain_bytes as u64,
                    samples,
                    rule: plan.rule.to_string(),
                    groups: outgoing.groups.into_iter().map(group_view).collect(),
                });
            }
            Err(reason) => {
                let unable = session.client.unable(plan.round, plan.policy, &reason);
                self.send(unable);
                self.page.tell(FromWorker::Notice { text: format!("no update in round {}: {reason}", plan.round) });
            }
        }
    }

    /// The device chosen for this model; chosen anew when the size changes, since the faster one may be another then.
    async fn device_for(&mut self, plan: &Plan) -> OpenDevice {
        if let Some((preset, device)) = &self.device
            && *preset == plan.spec.preset
        {
            return device.clone();
        }
        let wanted = self.session.as_ref().map_or(DeviceChoice::Auto, |session| session.wanted);
        let (device, reason) = device::choose(plan.spec, 1, compute(wanted)).await;
        self.device = Some((plan.spec.preset, device.clone()));
        self.page.tell(FromWorker::Device { name: device.compute().to_string(), reason });
        if let Some(session) = &mut self.session {
            let message = session.client.device(&device.description());
            self.send(message);
        }
        device
    }
}

fn compute(wanted: DeviceChoice) -> Option<Compute> {
    match wanted {
        DeviceChoice::Auto => None,
        DeviceChoice::Cpu => Some(Compute::Cpu),
        DeviceChoice::WebGpu => Some(Compute::Gpu),
    }
}

/// One gradient, or the local epochs, as the plan's rule says, on `image` `[3, side, side]`.
async fn step(plan: &Plan, image: &[f32], label: usize, device: &Device) -> Result<Step, ModelError> {
    let vit = Vit::new(plan.spec, device)?;
    // One private picture is all there is. A larger batch would hold it several times: the same gradient.
    let (labels, samples) = ([label], 1);
    Ok(match plan.rule {
        Rule::FedSgd => {
            let step = vit.loss_and_gradient(&plan.weights, image, &labels).await?;
            Step { loss: step.loss, values: step.gradient, samples }
        }
        Rule::FedAvg { epochs, rate } => {
            let trained = vit.train_locally(&plan.weights, image, &labels, plan.batch, epochs, rate).await?;
            Step { loss: trained.loss, values: trained.weights, samples }
        }
    })
}

fn fresh_seed() -> Result<MaskSeed, String> {
    fresh_bytes().map(MaskSeed)
}

fn fresh_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("the browser gives no random numbers: {error}"))?;
    Ok(bytes)
}

fn group_view(group: GroupLeaving) -> GroupView {
    GroupView {
        title: group.group.title().to_owned(),
        values: group.values,
        zeros: group.zeros,
        norm_before: group.norm_before,
        norm_after: group.norm_after,
        noise: group.noise,
        ciphertext: group.ciphertext,
        width: group.width as u32,
        height: group.height as u32,
        before: group.before,
        after: group.after,
    }
}
