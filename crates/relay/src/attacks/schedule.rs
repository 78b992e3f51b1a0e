//! What the room and the attacking threads share: one lock and one signal for all of it, so that nobody misses a change.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use unmask_attack::WholeUpdate;

use super::{
    budget::Budget, candidate::Candidate, gathered::Gathered, job::Job, keys::Keys, queue::Queue, report::Report,
    search_queue::SearchQueue,
};

/// Everything that waits or is under way. It is locked for moments only: the room's actor takes it too.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Closed forms, labels and membership on the newest update.
    pub(super) queue: Queue<Arc<Job>>,
    /// Time for them.
    pub(super) budget: Budget,
    /// The newest update of the client under attack.
    pub(super) newest: Option<Arc<Job>>,
    /// It whole, with its model, where this relay can run that.
    pub(super) whole: Option<Arc<WholeUpdate>>,
    /// Updates to gather, oldest first.
    pub(super) to_gather: VecDeque<Arc<Job>>,
    /// The rounds gathered, unless one is just being added.
    pub(super) gathered: Option<Gathered>,
    /// Whether one is.
    pub(super) is_gathering: bool,
    /// The search through the model.
    pub(super) search: SearchQueue,
    /// Keys of the encryption in force.
    pub(super) keys: Keys,
    /// The picture that the teacher dropped.
    pub(super) candidate: Option<Arc<Candidate>>,
    /// Whether no round runs and none is to come.
    pub(super) is_paused: bool,
    /// Whether the room is gone.
    pub(super) is_closed: bool,
}

impl Schedule {
    /// The number of the newest update.
    pub(super) fn serial(&self) -> u64 {
        self.newest.as_ref().map_or(0, |job| job.about.serial)
    }

    /// Whether an attack that has run for so long is to end: nothing is to be made of any update any more, or its time is over
    /// while rounds run or another one waits for a thread.
    pub(super) fn is_overdue(&self, time: Duration) -> bool {
        let is_in_the_way = !self.is_paused || self.queue.is_awaited();
        self.is_closed || self.newest.is_none() || (is_in_the_way && self.budget.is_overrun(time))
    }

    /// Whether a search may take a step: where rounds run, after the closed forms and from what they left.
    pub(super) fn may_search(&self) -> bool {
        !self.budget.is_none() && (self.is_paused || (self.queue.is_idle() && !self.budget.is_spent()))
    }
}

/// Tells the room; false once it is gone.
type Reporter = Box<dyn Fn(Report) -> bool + Send + Sync>;

/// The schedule and the signal that it has changed.
pub(super) struct Shared {
    schedule: Mutex<Schedule>,
    changed: Condvar,
    reporter: Reporter,
}

impl Shared {
    /// An empty schedule.
    pub(super) fn new(budget: Duration, reporter: Reporter) -> Self {
        let schedule = Schedule {
            queue: Queue::default(),
            budget: Budget::new(budget),
            newest: None,
            whole: None,
            to_gather: VecDeque::new(),
            gathered: None,
            is_gathering: false,
            search: SearchQueue::default(),
            keys: Keys::default(),
            candidate: None,
            is_paused: true,
            is_closed: false,
        };
        Self { schedule: Mutex::new(schedule), changed: Condvar::new(), reporter }
    }

    /// Locks the schedule. Nothing is reported while it is locked: the room may be waiting for it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unlocks the schedule until it has changed.
    pub(super) fn wait<'a>(&self, schedule: MutexGuard<'a, Schedule>) -> MutexGuard<'a, Schedule> {
        self.changed.wait(schedule).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for a change.
    pub(super) fn changed(&self) {
        self.changed.notify_all();
    }

    /// Tells the room; `false` once it is gone.
    pub(super) fn report(&self, report: Report) -> bool {
        (self.reporter)(report)
    }
}
