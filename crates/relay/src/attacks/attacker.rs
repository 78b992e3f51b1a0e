//! The attacking threads: starting and stopping them, and handing them work.

use std::{num::NonZeroUsize, sync::Arc, thread, time::Duration};

use anyhow::Context;
use unmask_attack::{KnownStart, NoSearches, Searches, WholeUpdate};
use unmask_core::{AttackMethod, ClientId, KeyCheck};
use unmask_wire::view::BudgetView;

use super::{
    candidate::Candidate,
    gathered, gathering,
    job::Job,
    keys::GivenKey,
    pool,
    queue::{QueuedTask, Task},
    report::Report,
    schedule::{Schedule, Shared},
    search,
};

/// Upper limit of threads for closed forms.
const MOST_THREADS: usize = 4;
/// Upper limit of updates queued for gathering; adding one takes less time than any round.
const MOST_TO_GATHER: usize = 16;

/// The attacking threads. Dropping this ends each thread after its current task.
pub(super) struct Attacker {
    shared: Arc<Shared>,
    can_search: bool,
}

impl Attacker {
    /// Starts the threads; `report` returns false once the room is gone.
    pub(super) fn start(
        report: impl Fn(Report) -> bool + Send + Sync + 'static,
        budget: Duration,
        searches: Option<Arc<dyn Searches>>,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::new(budget, Box::new(report)));
        let attacker = Self { shared: Arc::clone(&shared), can_search: searches.is_some() };
        // Leave the other half of the machine to the tabs and the relay.
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get) / 2;
        for number in 0..threads.clamp(1, MOST_THREADS) {
            let (shared, searches) = (Arc::clone(&shared), searches.clone());
            spawn(format!("attacks {number}"), move || {
                pool::work(&shared, searches.as_deref().unwrap_or(&NoSearches));
            })?;
        }
        if let Some(searches) = searches {
            let shared = Arc::clone(&shared);
            spawn("search".to_owned(), move || search::work(&shared, searches.as_ref()))?;
        }
        spawn("gathering".to_owned(), move || gathering::work(&shared))?;
        Ok(attacker)
    }

    /// Hands in an update. Of the waiting updates, only the newest is attacked, but all masked ones are gathered.
    pub(super) fn attack(&self, job: Job, whole: Option<Arc<WholeUpdate>>) {
        let job = Arc::new(job);
        self.change(|schedule| {
            schedule.budget.begin(job.about.serial);
            schedule.queue.renew(pool::tasks(&job, schedule.candidate.is_some()), &job);
            if gathered::is_wanted(&job) {
                if schedule.to_gather.len() == MOST_TO_GATHER {
                    schedule.to_gather.pop_front();
                }
                schedule.to_gather.push_back(Arc::clone(&job));
            }
            let before = std::mem::replace(&mut schedule.whole, whole.clone());
            (before, schedule.search.offer(&job, whole), schedule.newest.replace(job))
        });
    }

    /// Drops all work on updates of the old model.
    pub(super) fn forget_model(&self) {
        self.change(|schedule| {
            schedule.queue.clear();
            schedule.to_gather.clear();
            let next = schedule.search.forget();
            (next, schedule.whole.take(), schedule.newest.take(), schedule.gathered.take())
        });
    }

    /// Drops all work on this client's updates.
    pub(super) fn forget_client(&self, client: ClientId) {
        self.change(|schedule| {
            schedule.to_gather.retain(|job| job.about.client != client);
            let gathered = schedule.gathered.take_if(|gathered| gathered.is_of(client));
            let newest = schedule.newest.take_if(|job| job.about.client == client);
            let searched = newest.is_some().then(|| {
                schedule.queue.clear();
                (schedule.search.forget(), schedule.whole.take())
            });
            (gathered, newest, searched)
        });
    }

    pub(super) fn set_budget(&self, time: Duration) {
        self.change(|schedule| schedule.budget.set(time));
    }

    pub(super) fn budget(&self) -> BudgetView {
        self.shared.lock().budget.view()
    }

    /// Tells the threads whether no round is running or due.
    pub(super) fn room_is_paused(&self, is_paused: bool) {
        if self.shared.lock().is_paused != is_paused {
            self.change(|schedule| schedule.is_paused = is_paused);
        }
    }

    /// Turns the search on or off. It begins with the next update, or resumes the last one.
    pub(super) fn search(&self, on: bool) {
        self.change(|schedule| schedule.search.turn(on));
    }

    /// Stops the current search, because its client is no longer the target.
    pub(super) fn forget_search(&self) {
        self.change(|schedule| schedule.search.forget());
    }

    /// Whether the search is on; `None` if this relay cannot search.
    pub(super) fn is_searching(&self) -> Option<bool> {
        self.can_search.then(|| self.shared.lock().search.is_on())
    }

    /// Whether an attack may run the model on a picture.
    pub(super) fn runs_models(&self) -> bool {
        self.can_search && !self.shared.lock().budget.is_none()
    }

    /// Drops the model of the newest update to make room for the next one.
    pub(super) fn drop_model(&self) {
        self.change(|schedule| schedule.whole.take());
    }

    /// Sets the picture to check each update for, and checks the newest one immediately.
    pub(super) fn ask(&self, candidate: Option<Candidate>) {
        self.change(|schedule| {
            let asks = candidate.is_some();
            schedule.candidate = candidate.map(Arc::new);
            if asks {
                at_once(schedule, Task::Membership);
            }
        });
    }

    /// Keeps both forms of the model that was just encrypted.
    pub(super) fn set_known_start(&self, check: KeyCheck, known: KnownStart) {
        self.change(|schedule| schedule.keys.known = Some((check, Arc::new(known))));
    }

    /// Sets the key that a client gave away, and immediately reads the newest update with it.
    pub(super) fn set_key(&self, key: Option<GivenKey>) {
        self.change(|schedule| {
            schedule.keys.given = key;
            if schedule.newest.as_ref().is_some_and(|job| job.encryption.is_some()) {
                at_once(schedule, Task::Method(AttackMethod::Colluder));
            }
        });
    }

    pub(super) fn has_key(&self) -> bool {
        self.shared.lock().keys.given.is_some()
    }

    pub(super) fn keep_keys(&self, check: Option<KeyCheck>) {
        self.shared.lock().keys.keep(check);
    }

    /// Changes the schedule and wakes the threads. Drops anything removed only after unlocking.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule) -> T) {
        let rest = change(&mut self.shared.lock());
        self.shared.changed();
        drop(rest);
    }
}

fn at_once(schedule: &mut Schedule, task: Task) {
    if let Some(job) = schedule.newest.clone() {
        schedule.queue.add(QueuedTask { task, job, is_asked: true });
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    thread::Builder::new().name(name).spawn(work).context("cannot start the threads for the attacks")?;
    Ok(())
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.change(|schedule| schedule.is_closed = true);
    }
}
