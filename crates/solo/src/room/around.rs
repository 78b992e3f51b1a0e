//! What is around the room: where its effects wait for the host's next turn.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use unmask_core::Architecture;
use unmask_room::{Host, Input, Moment, Now, Outside, Reply, Snapshot, Work, longest_message};
use unmask_wire::channel::{Answer, Asker};

#[derive(Debug)]
pub(super) struct Around(Mutex<Effects>);

#[derive(Debug)]
struct Effects {
    snapshot: Snapshot,
    work: VecDeque<Work>,
    answers: Vec<(Asker, Answer)>,
    /// Orders for the attacks' desk.
    orders: Vec<Vec<u8>>,
    /// The longest message of a client in bytes.
    longest: usize,
}

impl Around {
    pub(super) fn new(longest: usize) -> Self {
        let (snapshot, work, answers, orders) = Default::default();
        Self(Mutex::new(Effects { snapshot, work, answers, orders, longest }))
    }

    /// The state that the room showed last.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.lock().snapshot.clone()
    }

    pub(super) fn longest(&self) -> usize {
        self.lock().longest
    }

    pub(super) fn answer(&self, asker: Asker, answer: Answer) {
        self.lock().answers.push((asker, answer));
    }

    pub(super) fn answers(&self) -> Vec<(Asker, Answer)> {
        std::mem::take(&mut self.lock().answers)
    }

    pub(super) fn order(&self, order: Vec<u8>) {
        self.lock().orders.push(order);
    }

    pub(super) fn orders(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().orders)
    }

    pub(super) fn next_work(&self) -> Option<Work> {
        self.lock().work.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Effects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room's end.
pub(super) struct Effecting(pub(super) Arc<Around>);

impl Host for Effecting {
    fn publish(&mut self, snapshot: Snapshot) {
        self.0.lock().snapshot = snapshot;
    }

    fn start(&mut self, work: Work) -> bool {
        self.0.lock().work.push_back(work);
        true
    }

    fn expect(&mut self, architecture: Architecture) {
        let mut effects = self.0.lock();
        effects.longest = effects.longest.max(longest_message(architecture));
    }

    /// There is no disk.
    fn erase_set_aside(&mut self) -> bool {
        true
    }

    fn reuse(&mut self, _: Vec<f32>) {}
}

/// Does slow work now, and returns what it tells the room.
pub(super) fn run(work: Work, clock: &dyn Fn() -> Now) -> Vec<Input> {
    let beside = Beside { clock, inputs: Mutex::default() };
    work.run(&beside);
    beside.inputs.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct Beside<'a> {
    clock: &'a dyn Fn() -> Now,
    inputs: Mutex<Vec<Input>>,
}

impl Outside for Beside<'_> {
    fn now(&self) -> Moment {
        (self.clock)().moment
    }

    fn tell(&self, input: Input) -> bool {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        true
    }
}

/// An answer that the room gives at once.
#[derive(Debug)]
pub(super) struct Kept<T>(Arc<Mutex<Option<T>>>);

impl<T> Kept<T> {
    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns a reply, and where its answer is kept.
pub(super) fn kept<T: Send + 'static>() -> (Reply<T>, Kept<T>) {
    let place = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&place);
    let reply = Reply::new(move |given| {
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
        true
    });
    (reply, Kept(place))
}
