//! The state that the room and the workers of its attacks share.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use unmask_attack::WholeUpdate;

use super::{
    budget::Budget, candidate::Candidate, gathered::Gathered, job::Job, keys::Keys, queue::Queue,
    search_queue::SearchQueue, sum::SumJob,
};

/// All waiting and running work. Lock it only briefly: the room takes the same lock.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Closed forms, labels and membership on the newest update.
    pub(super) queue: Queue<Arc<Job>>,
    pub(super) budget: Budget,
    /// The newest update of the client under attack.
    pub(super) newest: Option<Arc<Job>>,
    /// The newest update in full with its model, if this relay can run the model.
    pub(super) whole: Option<Arc<WholeUpdate>>,
    /// Updates to gather, oldest first.
    pub(super) to_gather: VecDeque<Arc<Job>>,
    /// The rounds gathered; `None` while one is being added.
    pub(super) gathered: Option<Gathered>,
    pub(super) is_gathering: bool,
    /// One update of each client for the wall that shows everybody.
    pub(super) everybody: VecDeque<Job>,
    /// The sum to take the next step on.
    pub(super) sum: Option<SumJob>,
    /// The sum that the room still wants taken apart, by its serial number.
    pub(super) summed: Option<u64>,
    pub(super) search: SearchQueue,
    pub(super) keys: Keys,
    pub(super) candidate: Option<Arc<Candidate>>,
    /// Whether no round is running or due.
    pub(super) is_paused: bool,
    pub(super) is_closed: bool,
}

impl Schedule {
    pub(super) fn serial(&self) -> u64 {
        self.newest.as_ref().map_or(0, |job| job.about.serial)
    }

    /// Whether to end an attack that has run for this long: the room or the target's updates are gone, or the attack
    /// has exceeded its time while rounds run or another task waits for a thread.
    pub(super) fn is_overdue(&self, time: Duration) -> bool {
        let is_in_the_way = !self.is_paused || self.queue.is_awaited();
        self.is_closed || self.newest.is_none() || (is_in_the_way && self.budget.is_overrun(time))
    }

    /// Whether a search may take a step. While rounds run, it runs after the closed forms, on the rest of their budget.
    pub(super) fn may_search(&self) -> bool {
        !self.budget.is_none() && (self.is_paused || (self.queue.is_idle() && !self.budget.is_spent()))
    }
}

pub(super) struct Shared {
    schedule: Mutex<Schedule>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Shared {
    /// `wake` is called after each change, so that workers look for work again.
    pub(super) fn new(budget: Duration, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let schedule = Schedule {
            queue: Queue::default(),
            budget: Budget::new(budget),
            newest: None,
            whole: None,
            to_gather: VecDeque::new(),
            gathered: None,
            is_gathering: false,
            everybody: VecDeque::new(),
            sum: None,
            summed: None,
            search: SearchQueue::default(),
            keys: Keys::default(),
            candidate: None,
            is_paused: true,
            is_closed: false,
        };
        Self { schedule: Mutex::new(schedule), wake: Box::new(wake) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changed(&self) {
        (self.wake)();
    }
}
