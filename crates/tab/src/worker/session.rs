//! One student's stay in one room, across several sockets.

use std::{cell::Cell, rc::Rc, time::Duration};

use unmask_client::{Client, Doubt, Outcome, PictureSelection, ReconstructionScore, RoundPlan, SealTask};
use unmask_core::{AttackMethod, Backoff};
use unmask_data::{Picture, chw_to_hwc};
use unmask_model::{
    Device, Network,
    device::{Compute, OpenDevice},
};
use unmask_wire::WireError;
use web_time::Instant;

use super::{
    caution,
    device::{Attempt, ChosenDevice, compute},
    loan::Loans,
    own_attack::{OwnAttacks, compared},
    own_mask::OwnGradient,
    page::Page,
    socket::{Socket, SocketEvent},
    views,
};
use crate::{
    prediction::most_probable,
    protocol::{self, DeviceChoice, FromWorker, Notice, Prediction, Reconstruction, SentUpdate, Training},
};

/// The number of classes in a prediction.
const NAMED: usize = 5;

/// The slowest upload to wait for, in bytes per second: a class that shares a poor network.
const SLOWEST: f64 = 50_000.0;
/// The longest time an update may take to upload, whatever its size.
const LONGEST_UPLOAD: Duration = Duration::from_secs(60);

/// What a session answers to a plan.
enum Answer {
    Update(Vec<Vec<u8>>, Box<SentUpdate>),
    /// The plan looks doctored, for these reasons.
    Refusal(Vec<Doubt>),
}

/// A client that is in a room or about to be.
pub struct Session {
    pub address: String,
    /// Holds the private picture.
    pub client: Client,
    pub socket: Option<Socket>,
    /// When this socket was opened or last received something.
    heard: Rc<Cell<Instant>>,
    /// When everything sent has left this device, even on a slow network. Until then no answer can be expected, since a
    /// ping waits in line behind it.
    left_by: Instant,
    /// Whether the page was told that the relay does not answer.
    is_silent: bool,
    /// When the relay was last pinged.
    pinged: Instant,
    /// Waiting times before the next attempts to connect.
    pub backoff: Backoff,
    /// The newest plan that has not started.
    pub plan: Option<Box<RoundPlan>>,
    /// The plan trained last, kept for its weights.
    trained: Option<Box<RoundPlan>>,
    /// The requested device; the faster one if `None`.
    wanted: Option<Compute>,
    /// The picture to classify and the page's number for it.
    picture: Option<(u32, Picture)>,
    /// Whether it has to be classified with the present weights.
    is_prediction_due: bool,
    own_attacks: OwnAttacks,
    /// The gradient behind the last update, if it is of one private picture.
    own_gradient: Option<OwnGradient>,
    /// The other client's update that this student attacks.
    pub loans: Loans,
    /// Whether the student wants the class to see the private picture, also on the next socket.
    pub wants_shown: bool,
}

impl Session {
    pub fn new(address: String, client: Client, wanted: DeviceChoice) -> Self {
        Self {
            address,
            client,
            socket: None,
            heard: Rc::new(Cell::new(Instant::now())),
            left_by: Instant::now(),
            is_silent: false,
            pinged: Instant::now(),
            backoff: Backoff::default(),
            plan: None,
            trained: None,
            wanted: compute(wanted),
            picture: None,
            is_prediction_due: false,
            own_attacks: OwnAttacks::default(),
            own_gradient: None,
            loans: Loans::default(),
            wants_shown: false,
        }
    }

    /// Opens a socket in place of the last one.
    ///
    /// # Errors
    /// If the browser refuses the address immediately.
    pub fn connect(&mut self, tell: impl Fn(SocketEvent) + 'static) -> Result<(), String> {
        // Each socket has its own time: late events of the last one say nothing about this one.
        self.heard = Rc::new(Cell::new(Instant::now()));
        self.left_by = self.heard.get();
        self.is_silent = false;
        let heard = Rc::clone(&self.heard);
        let tell = move |event| {
            // Recorded here rather than in the loop, which may be busy with a training step.
            heard.set(Instant::now());
            tell(event);
        };
        self.socket = Some(Socket::open(&self.address, tell)?);
        Ok(())
    }

    /// Time since the last event on this socket.
    pub fn silence(&self) -> Duration {
        self.heard.get().elapsed()
    }

    /// Whether the page was told that the relay does not answer.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Tells the page whether the relay answers, if that has changed.
    pub fn set_silent(&mut self, is_silent: bool, page: &Page) {
        if self.is_silent != is_silent {
            self.is_silent = is_silent;
            page.tell(FromWorker::Silent(is_silent));
        }
    }

    /// Time until everything sent has left this device, even on a slow network.
    pub fn sending(&self) -> Duration {
        self.left_by.saturating_duration_since(Instant::now())
    }

    pub fn update_arrived(&mut self) {
        self.left_by = Instant::now();
    }

    pub fn has_heard_since(&self, then: Instant) -> bool {
        self.heard.get() >= then
    }

    pub fn since_ping(&self) -> Duration {
        self.pinged.elapsed()
    }

    pub fn hello(&mut self, page: &Page) {
        match fresh_bytes() {
            Ok(fresh) => {
                let hello = self.client.hello(fresh);
                self.send(hello, page);
            }
            Err(reason) => page.tell(FromWorker::Notice(Notice::Said(reason))),
        }
    }

    /// Asks the relay for a sign of life.
    pub fn ping(&mut self, page: &Page) {
        self.pinged = Instant::now();
        let ping = self.client.ping();
        self.send(ping, page);
    }

    /// Sends frames to the relay. Without a socket they are dropped, since their round goes on without this tab.
    pub fn send(&mut self, frames: Result<Vec<Vec<u8>>, WireError>, page: &Page) {
        match (frames, &mut self.socket) {
            (Ok(frames), Some(socket)) => {
                let bytes: usize = frames.iter().map(Vec::len).sum();
                let time = Duration::from_secs_f64(bytes as f64 / SLOWEST).min(LONGEST_UPLOAD);
                self.left_by = self.left_by.max(Instant::now()) + time;
                socket.send(frames);
            }
            (Ok(_), None) => {}
            (Err(error), _) => page.tell(FromWorker::Notice(Notice::Said(error.to_string()))),
        }
    }

    /// Trains `plan`, applies the defence and sends the update.
    pub async fn train(&mut self, plan: Box<RoundPlan>, device: &mut ChosenDevice, page: &Page) {
        // A phone has no memory for two rounds' weights during a step.
        self.trained = None;
        let open = self.device_for(&plan, device, page).await;
        page.tell(FromWorker::Training(Training {
            round: plan.round,
            model: plan.architecture.to_string(),
            defence: plan.defence,
            rule: plan.rule,
            shared: match &plan.pictures {
                PictureSelection::Private => None,
                PictureSelection::Shared { positions, .. } => Some(positions.len() as u32),
            },
            // A secure sum has at least three people, whatever a step needs.
            is_exposed: plan.least < 3 && plan.sum.is_none(),
            is_summed: plan.sum.is_some(),
        }));
        match self.update(&plan, (open, device), page).await {
            Ok(Answer::Update(frames, sent)) => {
                self.send(Ok(frames), page);
                page.tell(FromWorker::Sent(*sent));
            }
            Ok(Answer::Refusal(doubts)) => {
                let refusal = self.client.refuse(&plan, &doubts);
                self.send(refusal, page);
                page.tell(FromWorker::Doubts(caution::found(plan.round, &doubts, true)));
            }
            Err(reason) => {
                let unable = self.client.unable(plan.round, plan.policy, &reason);
                self.send(unable, page);
                page.tell(FromWorker::Notice(Notice::NoUpdate { round: plan.round, reason }));
            }
        }
        self.trained = Some(plan);
        self.is_prediction_due = self.picture.is_some();
    }

    async fn update(
        &mut self,
        plan: &RoundPlan,
        (open, device): (OpenDevice, &mut ChosenDevice),
        page: &Page,
    ) -> Result<Answer, String> {
        let pictures = self.client.pictures(plan);
        let tell = |doubts: &[Doubt]| {
            if !doubts.is_empty() {
                page.tell(FromWorker::Doubts(caution::found(plan.round, doubts, false)));
            }
        };
        let Attempt { outcome, milliseconds, changed } =
            device.attempt(open, plan, pictures, self.client.caution(), tell).await;
        if let Some((cpu, reason)) = changed {
            self.tell_device(&cpu, reason, page);
        }
        let trained = match outcome {
            Outcome::Trained(_, trained) => trained,
            Outcome::Refused(doubts) => return Ok(Answer::Refusal(doubts)),
            Outcome::Failed(reason) => return Err(reason),
        };
        let (loss, samples) = (trained.loss, trained.samples);
        let fresh = fresh_bytes()?;
        // A new gradient answers the question that was asked about the last one.
        let asked = self.own_gradient.take().and_then(|own| own.asked());
        self.own_gradient = OwnGradient::of(plan, &trained).map(|own| own.asking(asked));
        let outgoing = self.client.update(plan, trained, fresh).map_err(|error| error.to_string())?;
        let sent = SentUpdate {
            round: plan.round,
            loss,
            milliseconds,
            bytes: outgoing.bytes as u64,
            plain_bytes: outgoing.plain_bytes as u64,
            samples,
            rule: plan.rule,
            groups: outgoing.groups.into_iter().map(views::group).collect(),
        };
        // Of an update in a secure sum nobody gets anything to attack.
        if let Some(update) = outgoing.update {
            self.own_attacks.offer(plan, samples, update);
        }
        Ok(Answer::Update(outgoing.frames, Box::new(sent)))
    }

    pub fn seal(&mut self, task: SealTask, page: &Page) {
        let policy = task.policy;
        let sealed = fresh_bytes()
            .map(u64::from_le_bytes)
            .and_then(|fresh| self.client.seal(task, fresh).map_err(|error| error.to_string()));
        match sealed {
            Ok(frames) => {
                self.send(Ok(frames), page);
                page.tell(FromWorker::ModelEncrypted);
            }
            Err(reason) => {
                let unable = self.client.unable(0, policy, &reason);
                self.send(unable, page);
                page.tell(FromWorker::Notice(Notice::NotEncrypted { reason }));
            }
        }
    }

    /// Compares a reconstruction with its original, if it is of a single picture.
    pub fn compare(&mut self, round: u32, attack: AttackMethod, side: usize, picture: &[f32], page: &Page) {
        let comparison = match self.client.compare(round, attack, side, picture).transpose() {
            Ok(comparison) => comparison,
            Err(reason) => {
                page.tell(FromWorker::Notice(Notice::NotCompared { round, reason: reason.to_string() }));
                return;
            }
        };
        if let Some(&ReconstructionScore { psnr, ssim, .. }) = comparison.as_ref() {
            let score = self.client.score(round, attack, psnr, ssim);
            self.send(score, page);
        }
        let comparison = comparison.map(|score| compared(side, score));
        let picture = views::rgba(side, picture);
        page.tell(FromWorker::Attacked(Reconstruction { round, attack, picture, comparison }));
    }

    /// Whether an update was sent that this tab has not attacked.
    pub fn is_own_attack_due(&self) -> bool {
        self.own_attacks.is_due() && self.trained.is_some()
    }

    /// Attacks the last update sent and shows the result only to this student.
    pub fn attack_own(&mut self, page: &Page) {
        let own = self.trained.as_ref().and_then(|plan| self.own_attacks.run(plan, &self.client));
        if let Some(own) = own {
            page.tell(FromWorker::OwnAttack(own));
        }
    }

    /// Asks what leaks at a rate in percent.
    pub fn try_mask(&mut self, percent: u8) {
        if let Some(own) = &mut self.own_gradient {
            own.ask(percent);
        }
    }

    pub fn is_mask_due(&self) -> bool {
        self.trained.is_some() && self.own_gradient.as_ref().is_some_and(OwnGradient::is_due)
    }

    /// Tells the page what leaks at the rate asked for.
    pub fn attack_masked(&mut self, page: &Page) {
        let own = self.own_gradient.as_mut().zip(self.trained.as_ref());
        if let Some(tried) = own.and_then(|(own, plan)| own.attack(plan, &self.client)) {
            page.tell(FromWorker::OwnMask(tried));
        }
    }

    /// Runs the next attack on another client's update and shows the result only to this student.
    pub fn attack_loan(&mut self, page: &Page) {
        if let Some(result) = self.loans.run(self.trained.as_deref()) {
            page.tell(FromWorker::Loan(result));
        }
    }

    /// Shows the class the private picture, if the student wants that.
    pub fn show(&mut self, page: &Page) {
        let Some(original) = self.client.original().filter(|_| self.wants_shown) else { return };
        match self.client.show_original(&original) {
            Ok(frames) => self.send(Ok(frames), page),
            Err(error) => page.tell(FromWorker::Notice(Notice::NotShown { reason: error.to_string() })),
        }
    }

    pub fn set_picture(&mut self, number: u32, picture: Picture) {
        self.picture = Some((number, picture));
        self.is_prediction_due = true;
    }

    /// Whether there is a picture to classify and weights to do it with.
    pub fn is_prediction_due(&self) -> bool {
        self.is_prediction_due && self.trained.is_some()
    }

    /// Classifies the picture with the present weights.
    pub async fn classify(&mut self, device: &mut ChosenDevice, page: &Page) {
        self.is_prediction_due = false;
        let Some((plan, (number, picture))) = self.trained.take().zip(self.picture.take()) else { return };
        let device = self.device_for(&plan, device, page).await;
        let prediction = predict(&picture, &plan, device.device()).await;
        page.tell(FromWorker::Classified { number, prediction });
        (self.trained, self.picture) = (Some(plan), Some((number, picture)));
    }

    /// The device for the model of `plan`. Page and relay learn of a change.
    async fn device_for(&mut self, plan: &RoundPlan, device: &mut ChosenDevice, page: &Page) -> OpenDevice {
        let (device, reason) = device.for_model(plan.architecture, self.wanted).await;
        if let Some(reason) = reason {
            self.tell_device(&device, reason, page);
        }
        device
    }

    fn tell_device(&mut self, device: &OpenDevice, reason: String, page: &Page) {
        page.tell(FromWorker::Device(protocol::Device { name: device.compute().to_string(), reason }));
        let message = self.client.device(&device.description());
        self.send(message, page);
    }
}

async fn predict(picture: &Picture, plan: &RoundPlan, device: &Device) -> Result<Prediction, String> {
    let side = plan.architecture.side();
    let image = picture.for_model(side);
    let network = Network::new(plan.architecture, device).map_err(|error| error.to_string())?;
    let logits = network.logits(&plan.state, &image, 1).await.map_err(|error| error.to_string())?;
    // A model may have more classes than its data set.
    let classes = match &plan.pictures {
        PictureSelection::Shared { shard, .. } => shard.classes().len().min(logits.len()),
        PictureSelection::Private => logits.len(),
    };
    Ok(Prediction {
        after: plan.round.saturating_sub(1),
        is_shared: matches!(plan.pictures, PictureSelection::Shared { .. }),
        classes,
        best: most_probable(&logits[..classes], NAMED),
        input: views::rgba(side, &chw_to_hwc(&image, side, side)),
    })
}

fn fresh_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("the browser provides no random numbers: {error}"))?;
    Ok(bytes)
}
