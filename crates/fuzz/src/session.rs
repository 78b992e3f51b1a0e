//! Fuzzes frames of several sockets to a room, with the teacher's controls between them.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use arbitrary::Arbitrary;
use unmask_core::{Architecture, AttackMethod, ClientId, InitialWeights, KeyCheck, MaskSeed, UpdateForm, VitPreset};
use unmask_defence::{commitment, drawn_seed};
use unmask_lesson::{Poll, Question, Scene, Suspect};
use unmask_room::{
    Pretrained, RoomConfig, RoomLimits,
    bench::{Bench, Sent, Surroundings},
};
use unmask_wire::{ClientMessage, ORIGINAL_SIDE, RelayMessage, SeedDraw, frames, view::Control};

use crate::{
    frames::Piece,
    values::{Float, Values, steps},
};

const MAX_STEPS: usize = 48;
/// Sockets that are open at the same time.
const SOCKETS: usize = 4;
const CLIENTS: usize = 6;
const DEADLINE: Duration = Duration::from_millis(20);
/// Log lines that the room shows.
const MAX_LOG: usize = 100;
/// Milliseconds within which an honest client completes a round.
const PATIENCE: u32 = 500;

const DEFENCES: [&str; 4] = ["none", "fixed-position", "random-binary:0.5", "encrypted"];

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Connect {
        nickname: &'a str,
        may_show: bool,
    },
    Close(u8),
    Piece(u8, Piece<'a>),
    Say(u8, Said<'a>),
    /// An update for the last round that the socket was asked for.
    Answer {
        socket: u8,
        loss: Float,
        samples: u32,
        form: Form,
        values: Values,
    },
    Control(Order<'a>),
    Wait,
}

#[derive(Debug, Arbitrary)]
enum Said<'a> {
    Device(&'a str),
    Consent(bool, bool),
    Visibility(bool),
    Return,
    Ping,
    Unable { round: Option<u8>, reason: &'a str, is_locked: bool },
    Score { round: u8, attack: u8, psnr: Float, ssim: Float },
    Hello,
    Vote { poll: u8, answer: u16 },
    KnowGaps(u8),
    Original { side: bool, words: u16 },
    HideOriginal,
    Forget,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Form {
    Dense,
    Masked(u8),
    Encrypted,
    Sealed,
}

#[derive(Debug, Arbitrary)]
enum Order<'a> {
    Start,
    Pause,
    OneRound,
    Reset,
    Defence(u8),
    Rule(bool),
    Optimiser(bool),
    Batch(u16),
    Target(u8),
    Readmit(u8),
    Lock(bool),
    Rename(u8, &'a str),
    Remove(u8),
    Ban(u8),
    LiftBans,
    GatherAnew,
    Lesson(u8, u8),
    AskPoll(u8, &'a [u8], Option<u16>),
    ClosePoll,
    Together(Vec<Order<'a>>),
}

/// The room survives any input: its memory is bounded, its weights are finite, and an honest client that joins
/// afterwards completes a round.
pub(crate) fn run(data: &[u8]) {
    let bench = Bench::open(config(), Surroundings::default()).expect("a room");
    let mut world = World { bench, sockets: Vec::new() };
    for step in steps(data, MAX_STEPS) {
        world.take(step);
        world.check();
    }
    world.goes_on();
}

struct World {
    bench: Bench,
    sockets: Vec<Socket>,
}

/// A client's end of a socket.
struct Socket {
    number: usize,
    /// The last plan or request to encrypt, with its number of values.
    asked: Option<Asked>,
    was_accepted: bool,
    was_sent_out: bool,
}

#[derive(Clone, Copy)]
struct Asked {
    round: u32,
    policy: u32,
    check: Option<KeyCheck>,
    /// The relay's half of the masks' seeds.
    relay: [u8; 16],
}

impl World {
    fn take(&mut self, step: Step<'_>) {
        match step {
            Step::Connect { nickname, may_show } => self.connect(nickname, may_show),
            Step::Close(socket) => {
                if let Some(index) = self.index(socket) {
                    let socket = self.sockets.remove(index);
                    self.bench.close(socket.number);
                }
            }
            Step::Piece(socket, piece) => {
                if let Some(index) = self.index(socket) {
                    for frame in piece.frames() {
                        self.bench.receive(self.sockets[index].number, &frame);
                    }
                }
            }
            Step::Say(socket, said) => {
                if let Some(index) = self.index(socket) {
                    let message = self.message(index, &said);
                    let words = if let Said::Original { words, .. } = said { usize::from(words % 1024) } else { 0 };
                    self.send(index, &message, &vec![f32::NAN; words]);
                }
            }
            Step::Answer { socket, loss, samples, form, values } => {
                if let Some(index) = self.index(socket) {
                    self.answer(index, (loss.value(), samples), form, &values.fill(model().layout().len()));
                }
            }
            // The teacher reads the room's objection; the fuzzer ignores it.
            Step::Control(order) => drop(self.bench.control(control(&order))),
            Step::Wait => self.bench.pass(DEADLINE),
        }
    }

    fn index(&self, socket: u8) -> Option<usize> {
        (!self.sockets.is_empty()).then(|| usize::from(socket) % self.sockets.len())
    }

    fn connect(&mut self, nickname: &str, may_show: bool) {
        if self.sockets.len() == SOCKETS {
            let oldest = self.sockets.remove(0);
            self.bench.close(oldest.number);
        }
        let number = self.bench.connect();
        self.sockets.push(Socket { number, asked: None, was_accepted: false, was_sent_out: false });
        let (nickname, device) = (nickname.to_owned(), "CPU".to_owned());
        let commitment = commitment(&[number as u8; 32]);
        let hello = ClientMessage::Hello {
            nickname,
            resume: None,
            device,
            may_show,
            may_lend: may_show,
            is_robot: false,
            commitment,
            page: commitment,
        };
        self.send(self.sockets.len() - 1, &hello, &[]);
    }

    fn message(&self, index: usize, said: &Said<'_>) -> ClientMessage {
        let asked = self.sockets[index].asked.unwrap_or(Asked { round: 1, policy: 1, check: None, relay: [0; 16] });
        match *said {
            Said::Device(device) => ClientMessage::Device { device: device.to_owned() },
            Said::Consent(may_show, may_lend) => ClientMessage::Consent { may_show, may_lend },
            Said::Visibility(is_hidden) => ClientMessage::Visibility { is_hidden },
            Said::Return => ClientMessage::Return,
            Said::Ping => ClientMessage::Ping,
            Said::Unable { round, reason, is_locked } => ClientMessage::Unable {
                round: round.map_or(asked.round, u32::from),
                policy: asked.policy,
                reason: reason.to_owned(),
                is_locked,
            },
            Said::Score { round, attack, psnr, ssim } => ClientMessage::Score {
                round: round.into(),
                attack: AttackMethod::ALL[usize::from(attack) % AttackMethod::ALL.len()],
                psnr: psnr.value(),
                ssim: ssim.value(),
            },
            Said::Hello => ClientMessage::Hello {
                nickname: "again".to_owned(),
                resume: None,
                device: String::new(),
                may_show: true,
                may_lend: true,
                is_robot: true,
                commitment: [0; 32],
                page: [0; 32],
            },
            Said::Vote { poll, answer } => ClientMessage::Vote { poll: poll.into(), answer },
            Said::KnowGaps(poll) => ClientMessage::KnowGaps { poll: poll.into() },
            Said::Original { side, .. } => ClientMessage::Original { side: if side { ORIGINAL_SIDE } else { 0 } },
            Said::HideOriginal => ClientMessage::HideOriginal,
            Said::Forget => ClientMessage::Forget,
        }
    }

    fn answer(&mut self, index: usize, (loss, samples): (f32, u32), form: Form, values: &[f32]) {
        let Some(Asked { round, policy, check, relay }) = self.sockets[index].asked else { return };
        let check = check.unwrap_or(KeyCheck([7; 16]));
        let nonce = [self.sockets[index].number as u8; 32];
        let draw = Some(SeedDraw { nonce, next: commitment(&nonce) });
        let form = match form {
            Form::Dense => UpdateForm::Dense,
            Form::Masked(seed) => {
                // Half of the seeds are drawn as they should be.
                let seed = if seed < 128 { drawn_seed(&nonce, &relay) } else { MaskSeed([seed; 32]) };
                UpdateForm::Masked { seed, rates: "0.5".parse().expect("a rate") }
            }
            Form::Encrypted => UpdateForm::Encrypted { check },
            Form::Sealed => return self.send(index, &ClientMessage::Sealed { policy, check }, values),
        };
        self.send(index, &ClientMessage::Update { round, policy, loss, samples, form, draw }, values);
    }

    /// A message too long for a header cannot be sent by any client.
    fn send(&mut self, index: usize, message: &ClientMessage, values: &[f32]) {
        for frame in frames(message, values).unwrap_or_default() {
            self.bench.receive(self.sockets[index].number, &frame);
        }
    }

    fn check(&mut self) {
        for socket in &mut self.sockets {
            for sent in self.bench.sent(socket.number) {
                socket.hears(sent);
            }
        }
        let view = self.bench.view();
        assert!(view.log.len() <= MAX_LOG, "{} lines", view.log.len());
        assert!(view.clients.len() <= 2 * CLIENTS, "{} clients", view.clients.len());
        assert!(view.losses.iter().all(|point| point.loss.is_finite()), "{:?}", view.losses);
    }

    /// The other clients leave, the teacher resets, and one honest client trains.
    fn goes_on(&mut self) {
        for socket in std::mem::take(&mut self.sockets) {
            self.bench.close(socket.number);
        }
        let order = [
            Control::Pause,
            Control::Lock { on: false },
            Control::LiftBans,
            control(&Order::Optimiser(false)),
            control(&Order::Defence(0)),
            control(&Order::Rule(false)),
            control(&Order::Batch(1)),
            Control::Reset,
        ];
        for control in order {
            self.bench.control(control).expect("the teacher may");
        }
        self.connect("honest", true);
        self.bench.control(Control::Start).expect("the teacher may");
        let values = vec![0.01; model().layout().len()];
        for _ in 0..PATIENCE {
            self.check();
            if self.sockets[0].was_accepted {
                return;
            }
            if std::mem::take(&mut self.sockets[0].was_sent_out) {
                self.send(0, &ClientMessage::Return, &[]);
            }
            self.answer(0, (2.0, 1), Form::Dense, &values);
            self.sockets[0].asked = None;
            self.bench.pass(Duration::from_millis(1));
        }
        panic!("an honest client cannot complete a round: {:?}", self.bench.view().log);
    }
}

impl Socket {
    fn hears(&mut self, sent: Sent) {
        let message = match &sent {
            Sent::Message(message) => message,
            Sent::Model(message, state) => {
                assert!(state.weights.iter().all(|weight| weight.is_finite()), "a weight is not finite");
                message.as_ref()
            }
            Sent::Shard => return,
        };
        match message {
            RelayMessage::Plan(plan) => {
                let check = plan.encryption.map(|encryption| encryption.check);
                self.asked = Some(Asked { round: plan.round, policy: plan.policy, check, relay: plan.nonce });
            }
            RelayMessage::Seal { policy, .. } => {
                self.asked = Some(Asked { round: 0, policy: *policy, check: None, relay: [0; 16] });
            }
            RelayMessage::Accepted { .. } => self.was_accepted = true,
            RelayMessage::SittingOut => self.was_sent_out = true,
            _ => {}
        }
    }
}

fn control(order: &Order<'_>) -> Control {
    let client = |client: u8| ClientId(u32::from(client % 8));
    match *order {
        Order::Start => Control::Start,
        Order::Pause => Control::Pause,
        Order::OneRound => Control::OneRound,
        Order::Reset => Control::Reset,
        Order::Defence(index) => {
            Control::Defence { defence: DEFENCES[usize::from(index) % DEFENCES.len()].parse().expect("a defence") }
        }
        Order::Rule(is_fedavg) => {
            Control::Rule { rule: if is_fedavg { "fedavg" } else { "fedsgd" }.parse().expect("a rule") }
        }
        Order::Optimiser(is_adam) => {
            let optimiser = if is_adam { "adam:0.001" } else { "sgd:0.1" };
            Control::Optimiser { optimiser: optimiser.parse().expect("an optimiser") }
        }
        Order::Batch(samples) => Control::Batch { samples },
        Order::Target(number) => Control::Target { client: client(number) },
        Order::Readmit(number) => Control::Readmit { client: client(number) },
        Order::Lock(on) => Control::Lock { on },
        Order::Rename(number, nickname) => Control::Rename { client: client(number), nickname: nickname.to_owned() },
        Order::Remove(number) => Control::Remove { client: client(number) },
        Order::Ban(number) => Control::Ban { client: client(number) },
        Order::LiftBans => Control::LiftBans,
        Order::GatherAnew => Control::GatherAnew,
        Order::Lesson(scene, beat) => {
            Control::Lesson { scene: Scene::from_number(scene % Scene::ALL.len() as u8).expect("a scene"), beat }
        }
        Order::AskPoll(question, suspects, correct) => {
            let all = [
                Question::Whose,
                Question::Safe,
                Question::Seconds,
                Question::Rate,
                Question::WhoseMasked,
                Question::WhoseUpdate,
            ];
            let suspect = |number: &u8| Suspect { client: client(*number), nickname: String::new() };
            let suspects = suspects.iter().map(suspect).collect();
            Control::AskPoll { poll: Poll { question: all[usize::from(question) % all.len()], suspects, correct } }
        }
        Order::ClosePoll => Control::ClosePoll,
        Order::Together(ref orders) => Control::Together { controls: orders.iter().map(control).collect() },
    }
}

fn model() -> Architecture {
    Architecture::from(VitPreset::Pico)
}

/// A small room with short rounds and weights drawn once, because drawing takes longer than most inputs.
fn config() -> RoomConfig {
    static WEIGHTS: OnceLock<Pretrained> = OnceLock::new();
    let draw =
        || Pretrained { title: "drawn once".to_owned(), architecture: model(), state: Arc::new(model().initial(1)) };
    RoomConfig {
        architecture: model(),
        deadline: DEADLINE,
        pace: Duration::ZERO,
        attack_budget: Duration::ZERO,
        initial_weights: InitialWeights::Pretrained,
        pretrained: Some(WEIGHTS.get_or_init(draw).clone()),
        limits: RoomLimits { clients: CLIENTS, ..RoomLimits::default() },
        ..RoomConfig::default()
    }
}
