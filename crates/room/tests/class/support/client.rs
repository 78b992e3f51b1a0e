//! One client on one socket, which can break the protocol's rules.

use std::ops::Deref;

use unmask_core::{ClientId, EncryptionStart, MaskSeed, UpdateForm};
use unmask_defence::{
    Cipher, FROZEN_SEED, KeyMaterial, PlainUpdate, Protect, ProtectedUpdate, RoomKey, commitment, drawn_seed,
};
use unmask_wire::{ClientMessage, LessonState, PlanHeader, RelayMessage, SeedDraw, frames};

use super::{Class, GLANCE, PATIENCE, layout};

#[derive(Debug, Clone)]
pub struct Plan {
    pub header: PlanHeader,
    pub weights: Vec<f32>,
}

impl Deref for Plan {
    type Target = PlanHeader;

    fn deref(&self) -> &PlanHeader {
        &self.header
    }
}

pub struct Client {
    pub id: ClientId,
    pub nickname: String,
    pub ticket: [u8; 16],
    pub socket: Socket,
}

impl Client {
    /// Joins from a browser of its own, or returns from the one that has this ticket.
    pub fn join(class: &Class, nickname: &str, resume: Option<[u8; 16]>) -> Self {
        let browser = resume.and_then(|ticket| class.0.borrow().browsers.get(&ticket).copied());
        let mut socket = Socket::of(class, browser);
        socket.hello(nickname, resume);
        Self::welcomed(socket)
    }

    /// Joins as a student who does not consent to showing reconstructions to the class.
    pub fn join_unseen(class: &Class, nickname: &str) -> Self {
        let mut socket = Socket::open(class);
        let commitment = commitment(&socket.nonce);
        let (nickname, device) = (nickname.to_owned(), "test".to_owned());
        let hello = ClientMessage::Hello {
            nickname,
            resume: None,
            device,
            may_show: false,
            may_lend: false,
            is_robot: false,
            commitment,
            page: socket.page,
        };
        socket.send(&hello, &[]);
        Self::welcomed(socket)
    }

    pub fn welcomed(mut socket: Socket) -> Self {
        match socket.message() {
            Some((RelayMessage::Welcome { client, resume, nickname }, _)) => {
                let lesson = socket.message();
                assert!(matches!(lesson, Some((RelayMessage::Lesson(_), _))), "no lesson but {lesson:?}");
                socket.class.0.borrow_mut().browsers.insert(resume, socket.browser);
                Self { id: client, nickname, ticket: resume, socket }
            }
            other => panic!("no welcome but {other:?}"),
        }
    }

    /// Returns the first message that `pick` accepts and skips earlier ones. [`PATIENCE`] covers all of them, because a
    /// round that closes without updates restarts forever.
    pub fn next<T>(&mut self, what: &str, mut pick: impl FnMut(RelayMessage, Vec<f32>) -> Option<T>) -> T {
        let end = self.socket.class.passed() + PATIENCE;
        while self.socket.class.passed() <= end {
            match self.socket.message() {
                Some((RelayMessage::Goodbye { reason }, _)) => panic!("no {what}; dismissed: {reason}"),
                Some((message, values)) => {
                    if let Some(picked) = pick(message, values) {
                        return picked;
                    }
                }
                None => panic!("no {what}; closed"),
            }
        }
        panic!("no {what} among all that came")
    }

    pub fn plan(&mut self) -> Plan {
        self.next("plan", |message, weights| match message {
            RelayMessage::Plan(header) => Some(Plan { header, weights }),
            _ => None,
        })
    }

    /// Encrypts the model on request with this passphrase, then sends this gradient under the same key.
    pub fn encrypted_round(&mut self, passphrase: &str, gradient: Vec<f32>) {
        let (policy, salt, mut weights) = self.next("seal", |message, weights| match message {
            RelayMessage::Seal { policy, salt, .. } => Some((policy, salt, weights)),
            _ => None,
        });
        let key = RoomKey::derive(passphrase, &salt, EncryptionStart::Plain).unwrap();
        let cipher = Cipher::new(&key, &layout()).unwrap();
        cipher.encrypt(&mut weights).unwrap();
        self.socket.send(&ClientMessage::Sealed { policy, check: cipher.check() }, &weights);
        let plan = self.plan();
        let update = protect(&plan, gradient, KeyMaterial { seed: MaskSeed([0; 32]), cipher: Some(&cipher) });
        self.send_update(&plan, 1.0, update);
    }

    /// Sends the update for this plan, made from a gradient, or from weights under FedAvg.
    pub fn update(&mut self, plan: &Plan, values: Vec<f32>) {
        let update = protect(plan, values, KeyMaterial { seed: self.seed(plan), cipher: None });
        self.send_update(plan, 1.0, update);
    }

    /// The seed of this client's mask in that round.
    pub fn seed(&self, plan: &Plan) -> MaskSeed {
        drawn_seed(&self.socket.nonce, &plan.nonce)
    }

    pub fn send_update(&mut self, plan: &Plan, loss: f32, update: ProtectedUpdate) {
        self.send_samples(plan, loss, 1, update);
    }

    pub fn send_samples(&mut self, plan: &Plan, loss: f32, samples: u32, update: ProtectedUpdate) {
        let (round, policy) = (plan.round, plan.policy);
        let draws = matches!(update.form, UpdateForm::Masked { seed, .. } if seed != FROZEN_SEED);
        let nonce = self.socket.nonce;
        let draw = draws.then(|| SeedDraw { nonce, next: commitment(&nonce) });
        let message = ClientMessage::Update { round, policy, loss, samples, form: update.form, draw };
        self.socket.send(&message, &update.values);
    }

    /// Returns the next message other than plans, ends and lists of rounds, lesson states and reconstructions, which arrive at
    /// any time.
    pub fn answer(&mut self) -> RelayMessage {
        self.next("answer", |message, _| match message {
            RelayMessage::Plan(_)
            | RelayMessage::Closed { .. }
            | RelayMessage::Listed(_)
            | RelayMessage::Lesson(_)
            | RelayMessage::Reconstruction { .. } => None,
            answer => Some(answer),
        })
    }

    pub fn lesson_when(&mut self, what: &str, is_wanted: impl Fn(&LessonState) -> bool) -> LessonState {
        self.next(what, |message, _| match message {
            RelayMessage::Lesson(lesson) if is_wanted(&lesson) => Some(lesson),
            _ => None,
        })
    }

    pub fn reconstruction(&mut self, by: &str) -> (u32, Vec<f32>) {
        self.next("reconstruction", |message, values| match message {
            RelayMessage::Reconstruction { round, attack, .. } if attack.name() == by => Some((round, values)),
            _ => None,
        })
    }

    /// Returns the reason of the next refusal; skips acceptances.
    pub fn refusal(&mut self) -> String {
        self.next("refusal", |message, _| match message {
            RelayMessage::Refused { reason } => Some(reason),
            RelayMessage::Plan(_)
            | RelayMessage::Closed { .. }
            | RelayMessage::Listed(_)
            | RelayMessage::Reconstruction { .. }
            | RelayMessage::SittingOut
            | RelayMessage::Lesson(_)
            | RelayMessage::Accepted { .. } => None,
            other => panic!("no refusal but {other:?}"),
        })
    }
}

pub fn protect(plan: &Plan, values: Vec<f32>, keys: KeyMaterial<'_>) -> ProtectedUpdate {
    let reference = plan.rule.is_fedavg().then_some(plan.weights.as_slice());
    plan.defence.protect(&layout(), PlainUpdate { values, reference }, keys).unwrap()
}

/// A socket to the room. Dropping it closes it.
pub struct Socket {
    class: Class,
    number: usize,
    browser: u128,
    /// What the seeds of its masks are drawn from. It need not be fresh, since the relay's half is.
    pub nonce: [u8; 32],
    /// Another one is a page that was loaded again.
    pub page: [u8; 32],
}

impl Socket {
    /// Opens a socket of a browser of its own.
    pub fn open(class: &Class) -> Self {
        Self::of(class, None)
    }

    fn of(class: &Class, browser: Option<u128>) -> Self {
        let mut world = class.0.borrow_mut();
        let browser = browser.unwrap_or(world.received.len() as u128);
        let number = world.bench.connect_from(browser);
        world.received.push([].into());
        Self { class: class.clone(), number, browser, nonce: [number as u8; 32], page: [number as u8; 32] }
    }

    pub fn hello(&mut self, nickname: &str, resume: Option<[u8; 16]>) {
        let hello = ClientMessage::Hello {
            nickname: nickname.to_owned(),
            resume,
            device: "test".to_owned(),
            may_show: true,
            may_lend: true,
            is_robot: false,
            commitment: commitment(&self.nonce),
            page: self.page,
        };
        self.send(&hello, &[]);
    }

    pub fn send(&mut self, message: &ClientMessage, values: &[f32]) {
        for frame in frames(message, values).unwrap() {
            self.frame(&frame);
        }
    }

    pub fn frame(&mut self, frame: &[u8]) {
        let mut world = self.class.0.borrow_mut();
        world.bench.receive(self.number, frame);
        world.settle();
    }

    /// Closes the socket.
    pub fn leave(&mut self) {
        let mut world = self.class.0.borrow_mut();
        world.bench.close(self.number);
        world.settle();
    }

    /// Stops reading, or goes on.
    pub fn reads(&mut self, on: bool) {
        let deaf = &mut self.class.0.borrow_mut().deaf;
        if on {
            deaf.remove(&self.number)
        } else {
            deaf.insert(self.number)
        };
    }

    /// Returns the next message, or `None` once the room has closed the socket.
    pub fn message(&mut self) -> Option<(RelayMessage, Vec<f32>)> {
        let end = self.class.passed() + PATIENCE;
        loop {
            if let Some(message) = self.waiting() {
                return Some(message);
            }
            if !self.class.0.borrow().bench.is_open(self.number) {
                return None;
            }
            assert!(self.class.passed() < end, "no message in time");
            self.class.pass(GLANCE);
        }
    }

    /// Returns the next message that has already come.
    pub fn waiting(&mut self) -> Option<(RelayMessage, Vec<f32>)> {
        self.class.0.borrow_mut().received[self.number].pop_front()
    }

    /// Returns the reason of the goodbye, after which the socket must be closed.
    pub fn goodbye(&mut self) -> String {
        loop {
            match self.message() {
                Some((RelayMessage::Goodbye { reason }, _)) => {
                    assert!(self.message().is_none(), "still open");
                    return reason;
                }
                Some(_) => {}
                None => panic!("closed without a goodbye"),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A test that fails may hold the class.
        if let Ok(mut world) = self.class.0.try_borrow_mut() {
            world.bench.close(self.number);
            world.settle();
        }
    }
}
