//! A room in simulated time with clients that read at once everything they are sent.

mod client;
pub mod descent;
pub mod private;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use unmask_attack::Searches;
use unmask_core::{Aggregation, Architecture, OptimiserKind, ParamLayout, VitPreset};
use unmask_room::{
    CandidatePicture, Input, RoomConfig,
    bench::{Bench, Surroundings, reply},
};
use unmask_wire::{
    RelayMessage,
    view::{AttackView, ClientState, ClientView, Control, RoomView},
};

pub use self::client::{Client, Plan, Socket, protect};

/// How long to wait for every expected event, by the room's clock.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much time passes between two looks at the room.
const GLANCE: Duration = Duration::from_millis(10);
/// The worker that searches, after those for closed forms, gathering and everybody.
const SEARCH: usize = 3;

pub const RATE: f32 = 0.5;

pub fn layout() -> ParamLayout {
    Architecture::from(VitPreset::Pico).layout()
}

/// Returns a gradient of the right length, different for each number.
pub fn gradient(number: usize) -> Vec<f32> {
    (0..layout().len()).map(|i| ((number * 131 + i * 17) % 101) as f32 / 500.0 - 0.1).collect()
}

/// A room with its clients. A clone is the same room.
#[derive(Debug, Clone)]
pub struct Class(Rc<RefCell<World>>);

#[derive(Debug)]
struct World {
    bench: Bench,
    /// What each socket has received and its client has not looked at.
    received: Vec<VecDeque<(RelayMessage, Vec<f32>)>>,
    /// Sockets whose client reads nothing.
    deaf: BTreeSet<usize>,
    /// Each ticket's browser.
    browsers: BTreeMap<[u8; 16], u128>,
    /// How long a step of a search takes. It steps only while time passes.
    search_step: Option<Duration>,
    /// When it takes the next one.
    search_due: Duration,
    passed: Duration,
}

impl World {
    /// Does all work but a search, and lets every client read.
    fn settle(&mut self) {
        while self.search_step.is_some() && ((0..SEARCH).any(|worker| self.bench.attack(worker)) || self.bench.work()) {
        }
        let sockets = self.received.iter_mut().enumerate();
        for (socket, received) in sockets.filter(|(socket, _)| !self.deaf.contains(socket)) {
            received.extend(self.bench.messages(socket));
        }
    }

    fn pass(&mut self, time: Duration) {
        let Some(step) = self.search_step else {
            self.passed += time;
            self.bench.pass(time);
            return self.settle();
        };
        let end = self.passed + time;
        while self.passed < end {
            if self.passed >= self.search_due {
                self.bench.attack(SEARCH);
                self.search_due = self.passed + step;
            }
            let time = self.search_due.min(end) - self.passed;
            self.bench.pass(time);
            self.passed += time;
            self.settle();
        }
    }
}

impl Class {
    /// A paused room with the smallest model, SGD and short pauses.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut RoomConfig)) -> Self {
        Self::open(change, None, None)
    }

    /// A room that has no time for attacks.
    pub fn unattacked(change: impl FnOnce(&mut RoomConfig)) -> Self {
        Self::with(|config| {
            config.attack_budget = Duration::ZERO;
            change(config);
        })
    }

    /// A room whose attacks can run this model.
    pub fn with_model(model: Arc<dyn Searches>, change: impl FnOnce(&mut RoomConfig)) -> Self {
        Self::open(change, Some(model), None)
    }

    /// A room that can search. Each step takes this long.
    pub fn searching(searches: Arc<dyn Searches>, step: Duration, change: impl FnOnce(&mut RoomConfig)) -> Self {
        Self::open(change, Some(searches), Some(step))
    }

    fn open(
        change: impl FnOnce(&mut RoomConfig),
        searches: Option<Arc<dyn Searches>>,
        search_step: Option<Duration>,
    ) -> Self {
        let mut config = RoomConfig {
            architecture: Architecture::from(VitPreset::Pico),
            optimiser: OptimiserKind::Sgd { rate: RATE },
            // The plain mean of the papers' equations, which the tests compute by hand.
            aggregation: Aggregation::Mean,
            pace: Duration::from_millis(10),
            attack_budget: Duration::from_secs(600),
            ..RoomConfig::default()
        };
        change(&mut config);
        let mut bench = Bench::open(config, Surroundings { searches, ..Surroundings::default() }).unwrap();
        if let Some(step) = search_step {
            bench.be_lazy(true);
            bench.let_looks_take(step);
        }
        let (received, deaf, browsers, passed, search_due) = Default::default();
        Self(Rc::new(RefCell::new(World { bench, received, deaf, browsers, search_step, search_due, passed })))
    }

    /// Lets an attack find the clock this much later at each look.
    pub fn let_looks_take(&self, look: Duration) {
        self.0.borrow_mut().bench.let_looks_take(look);
    }

    pub fn pass(&self, time: Duration) {
        self.0.borrow_mut().pass(time);
    }

    /// How much time has passed, by the room's clock.
    pub fn passed(&self) -> Duration {
        self.0.borrow().passed
    }

    pub fn room(&self) -> RoomView {
        self.0.borrow().bench.timed_view()
    }

    /// The weights of the room's model, `[P]`.
    pub fn weights(&self) -> Vec<f32> {
        self.0.borrow().bench.model().state.weights.clone()
    }

    pub fn room_when(&self, what: &str, is_wanted: impl Fn(&RoomView) -> bool) -> RoomView {
        let end = self.passed() + PATIENCE;
        loop {
            let view = self.room();
            if is_wanted(&view) {
                return view;
            }
            assert!(self.passed() < end, "{what} did not come about: {view:#?}");
            self.pass(GLANCE);
        }
    }

    pub fn log_line(&self, part: &str) {
        self.room_when(part, |room| room.log.iter().any(|line| line.text.contains(part)));
    }

    /// Applies a control of the teacher, or returns the room's reason against it.
    pub fn try_control(&self, control: &Control) -> Result<(), String> {
        let mut world = self.0.borrow_mut();
        let outcome = world.bench.control(control.clone());
        world.settle();
        outcome.map_err(|reason| reason.to_string())
    }

    pub fn control(&self, control: Control) {
        assert_eq!(self.try_control(&control), Ok(()), "{control:?}");
    }

    /// Returns why the room refuses a control.
    pub fn refusal_of(&self, control: &Control) -> String {
        self.try_control(control).expect_err("a refusal")
    }

    /// Drops a picture of the teacher.
    pub fn ask_about(&self, picture: CandidatePicture) {
        let (reply, answer) = reply();
        let mut world = self.0.borrow_mut();
        world.bench.tell(Input::Candidate { picture, reply });
        world.settle();
        answer.try_recv().expect("an answer").expect("a candidate");
    }

    /// Returns the PNG that a page gets at this path.
    pub fn picture(&self, path: &str) -> Option<Vec<u8>> {
        self.0.borrow().bench.picture(path).map(|png| png.to_vec())
    }

    pub fn client(&self, nickname: &str) -> Client {
        Client::join(self, nickname, None)
    }
}

pub fn view<'a>(room: &'a RoomView, nickname: &str) -> &'a ClientView {
    room.clients.iter().find(|client| client.nickname == nickname).unwrap_or_else(|| panic!("no {nickname}: {room:?}"))
}

pub fn find_card<'a>(room: &'a RoomView, attack: &str) -> Option<&'a AttackView> {
    room.attacks.iter().find(|card| card.attack.name() == attack)
}

pub fn card<'a>(room: &'a RoomView, attack: &str) -> &'a AttackView {
    find_card(room, attack).unwrap_or_else(|| panic!("no {attack}: {:#?}", room.attacks))
}

pub fn remark<'a>(room: &'a RoomView, attack: &str) -> &'a str {
    card(room, attack).remark.as_deref().unwrap_or_default()
}

pub fn state(room: &RoomView, nickname: &str) -> Option<ClientState> {
    room.clients.iter().find(|client| client.nickname == nickname).map(|client| client.state)
}
