//! The room's side of the attacks' work: what is to be done, and what no longer is.

use std::{fmt, sync::Arc, time::Duration};

use unmask_attack::{KnownStart, Searches, WholeUpdate};
use unmask_core::{AttackMethod, ClientId, KeyCheck};
use unmask_wire::view::BudgetView;

use super::{
    candidate::Candidate,
    elsewhere::{self, Copied, DeskNews, Far, Order},
    gathered,
    job::{Job, Sent},
    keys::GivenKey,
    pictures::MOST_EVERYBODY,
    pool,
    queue::{QueuedTask, Task},
    schedule::{Schedule, Shared},
    sum::Mean,
    worker::{Duty, Worker},
};

/// Upper limit of updates queued for gathering; adding one takes less time than any round.
const MOST_TO_GATHER: usize = 16;

/// What a room has its attacks' [`Worker`]s do. Dropping this ends each worker after its current task.
pub struct Attackers {
    shared: Arc<Shared>,
    can_search: bool,
    /// Present if the workers are elsewhere.
    far: Option<Far>,
}

impl fmt::Debug for Attackers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attackers").field("can_search", &self.can_search).finish_non_exhaustive()
    }
}

impl Attackers {
    /// Returns the room's side, and the workers for its host to run side by side. `budget` is the time for the attacks
    /// on one round; `closed_forms` workers share the closed forms; `wake` is called whenever there may be work again.
    /// Without `searches`, attacks cannot run the model.
    pub fn new(
        budget: Duration,
        searches: Option<Arc<dyn Searches>>,
        closed_forms: usize,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> (Self, Vec<Worker>) {
        let shared = Arc::new(Shared::new(budget, wake));
        let mut duties: Vec<Duty> = (0..closed_forms.max(1)).map(|_| Duty::ClosedForms).collect();
        duties.extend([Duty::Gathering, Duty::Everybody]);
        if searches.is_some() {
            duties.push(Duty::Search(None));
        }
        let worker = |duty| Worker::new(duty, Arc::clone(&shared), searches.clone());
        let workers = duties.into_iter().map(worker).collect();
        (Self { shared, can_search: searches.is_some(), far: None }, workers)
    }

    /// Returns the room's side alone: the workers are at an [`AttackDesk`](super::AttackDesk) that shares no memory with
    /// it and gets the orders from `send`. What the desk says, the [`DeskNews`] turn into reports.
    pub fn elsewhere(budget: Duration, send: impl Fn(Vec<u8>) + Send + Sync + 'static) -> (Self, DeskNews) {
        let (far, news) = elsewhere::far(send);
        far.tell(&Order::Budget(budget.as_secs_f64()));
        (Self { shared: Arc::new(Shared::new(budget, || {})), can_search: true, far: Some(far) }, news)
    }

    /// Extracts what the attacks need from an update: for the workers here, also the model if an attack runs it.
    pub(crate) fn read(&self, sent: &Sent<'_>) -> (Job, Option<Arc<WholeUpdate>>) {
        let job = self.read_for_everybody(sent);
        if self.far.is_some() {
            return (job, None);
        }
        // Free the previous model first, so that memory never holds two.
        self.drop_model();
        let whole = if self.is_searching() == Some(true) {
            Some(Arc::new(job.whole(sent)))
        } else {
            // Membership needs the model too, and the teacher may drop a picture later.
            self.runs_models().then(|| job.model(sent)).flatten().map(Arc::new)
        };
        (job, whole)
    }

    /// Extracts what the closed forms need from an update.
    pub(crate) fn read_for_everybody(&self, sent: &Sent<'_>) -> Job {
        let mut job = Job::new(sent);
        job.copied = self.far.is_some().then(|| Box::new(Copied::of(sent)));
        job
    }

    fn tell(&self, order: &Order) {
        if let Some(far) = &self.far {
            far.tell(order);
        }
    }

    /// Hands in an update. Of the waiting updates, only the newest is attacked, but all masked ones are gathered.
    pub(crate) fn attack(&self, mut job: Job, whole: Option<Arc<WholeUpdate>>) {
        if let Some(copied) = job.copied.take() {
            return self.tell(&Order::Attack(copied));
        }
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

    /// Attacks one update of a client for the wall that shows everybody; returns false if too many are waiting.
    pub(crate) fn attack_for_everybody(&self, mut job: Job) -> bool {
        if let Some(copied) = job.copied.take() {
            self.tell(&Order::Everybody(copied));
            return true;
        }
        let is_taken = self.shared.lock().everybody.len() < MOST_EVERYBODY;
        if is_taken {
            self.change(|schedule| schedule.everybody.push_back(job));
        }
        is_taken
    }

    /// Attacks this sum instead of the one before.
    pub(super) fn attack_sum(&self, mean: Option<Mean>) {
        if let Some(far) = &self.far {
            return far.tell(&Order::Sum(mean.map(Box::new)));
        }
        let job = mean.map(Mean::into_job);
        self.change(|schedule| {
            schedule.summed = job.as_ref().map(|job| job.about().serial);
            std::mem::replace(&mut schedule.sum, job)
        });
    }

    /// Drops all work on updates of the old model.
    pub(crate) fn forget_model(&self) {
        self.tell(&Order::ForgetModel);
        self.change(|schedule| {
            schedule.queue.clear();
            schedule.to_gather.clear();
            schedule.everybody.clear();
            schedule.summed = None;
            let next = schedule.search.forget();
            (next, schedule.sum.take(), schedule.whole.take(), schedule.newest.take(), schedule.gathered.take())
        });
    }

    /// Drops all work on this client's updates.
    pub(crate) fn forget_client(&self, client: ClientId) {
        self.tell(&Order::ForgetClient(client));
        self.change(|schedule| {
            schedule.to_gather.retain(|job| job.about.client != client);
            schedule.everybody.retain(|job| job.about.client != client);
            let gathered = schedule.gathered.take_if(|gathered| gathered.is_of(client));
            let newest = schedule.newest.take_if(|job| job.about.client == client);
            let searched = newest.is_some().then(|| {
                schedule.queue.clear();
                (schedule.search.forget(), schedule.whole.take())
            });
            (gathered, newest, searched)
        });
    }

    pub(crate) fn set_budget(&self, time: Duration) {
        self.tell(&Order::Budget(time.as_secs_f64()));
        self.change(|schedule| schedule.budget.set(time));
    }

    pub(crate) fn budget(&self) -> BudgetView {
        let view = self.shared.lock().budget.view();
        match &self.far {
            Some(far) => far.budget(view.seconds),
            None => view,
        }
    }

    /// Tells the workers whether no round is running or due.
    pub(crate) fn room_is_paused(&self, is_paused: bool) {
        if self.shared.lock().is_paused != is_paused {
            self.tell(&Order::Paused(is_paused));
            self.change(|schedule| schedule.is_paused = is_paused);
        }
    }

    /// Turns the search on or off. It begins with the next update, or resumes the last one.
    pub(crate) fn search(&self, on: bool) {
        self.tell(&Order::Search(on));
        self.change(|schedule| schedule.search.turn(on));
    }

    /// Stops the current search, because its client is no longer the target.
    pub(crate) fn forget_search(&self) {
        self.tell(&Order::ForgetSearch);
        self.change(|schedule| schedule.search.forget());
    }

    /// Whether the search is on; `None` if this relay cannot search.
    pub(crate) fn is_searching(&self) -> Option<bool> {
        self.can_search.then(|| self.shared.lock().search.is_on())
    }

    /// Whether an attack may run the model on a picture.
    pub(crate) fn runs_models(&self) -> bool {
        self.can_search && !self.shared.lock().budget.is_none()
    }

    /// Drops the model of the newest update to make room for the next one.
    pub(crate) fn drop_model(&self) {
        self.change(|schedule| schedule.whole.take());
    }

    /// Sets the picture to check each update for, and checks the newest one immediately.
    pub(crate) fn ask(&self, candidate: Option<Candidate>) {
        if let Some(far) = &self.far {
            return far.tell(&Order::Ask(candidate));
        }
        self.change(|schedule| {
            let asks = candidate.is_some();
            schedule.candidate = candidate.map(Arc::new);
            if asks {
                at_once(schedule, Task::Membership);
            }
        });
    }

    /// Keeps both forms of the model that was just encrypted.
    pub(crate) fn set_known_start(&self, check: KeyCheck, known: KnownStart) {
        self.change(|schedule| schedule.keys.known = Some((check, Arc::new(known))));
    }

    /// Sets the key that a client gave away, and immediately reads the newest update with it.
    pub(crate) fn set_key(&self, key: Option<GivenKey>) {
        self.change(|schedule| {
            schedule.keys.given = key;
            if schedule.newest.as_ref().is_some_and(|job| job.encryption.is_some()) {
                at_once(schedule, Task::Method(AttackMethod::Colluder));
            }
        });
    }

    pub(crate) fn has_key(&self) -> bool {
        self.shared.lock().keys.given.is_some()
    }

    pub(crate) fn keep_keys(&self, check: Option<KeyCheck>) {
        self.shared.lock().keys.keep(check);
    }

    /// Changes the schedule and wakes the workers. Drops anything removed only after unlocking.
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

impl Drop for Attackers {
    fn drop(&mut self) {
        self.change(|schedule| schedule.is_closed = true);
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, Defence, MaskSeed, Rule, VitPreset};
    use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
    use unmask_federation::GlobalModel;

    use super::*;
    use crate::{
        attacks::{Report, Step, about::About},
        time::Moment,
    };

    const GATHERING: usize = 1;
    const EVERYBODY: usize = 2;

    /// A job on a client's masked update full of ones.
    fn job(client: u32) -> Job {
        let architecture = Architecture::from(VitPreset::Pico);
        let (layout, model) = (architecture.layout(), GlobalModel { architecture, state: architecture.initial(3) });
        let defence: Defence = "random-binary:0.5".parse().unwrap();
        let plain = PlainUpdate { values: vec![1.0; layout.len()], reference: None };
        let key = KeyMaterial { seed: MaskSeed([7; 32]), cipher: None };
        let update = defence.protect(&layout, plain, key).unwrap().into_checked(&layout).unwrap();
        let (epoch, serial, gathering, round, samples) = (0, client.into(), 0, 4, 1);
        let (client, rule) = (ClientId(client), Rule::FedSgd);
        let about = About { epoch, serial, gathering, client, round, defence, rule, samples };
        Job::new(&Sent {
            about,
            batch: 1,
            encryption: None,
            model: &model,
            update: &update,
            draws_tables: false,
            is_target: false,
        })
    }

    /// The clients whose updates this worker still takes up.
    fn clients(worker: &mut Worker) -> Vec<ClientId> {
        let mut clients = Vec::new();
        while let Step::Worked(reports) = worker.step(&|| Moment::START, &|_| {}) {
            clients.extend(reports.iter().filter_map(Report::about).map(|about| about.client));
        }
        clients
    }

    #[test]
    fn no_work_on_a_forgotten_clients_updates_is_left() {
        let (attackers, mut workers) = Attackers::new(Duration::from_secs(60), None, 1, || {});
        let [ada, bob] = [1, 2].map(ClientId);
        for client in [1, 2] {
            assert!(attackers.attack_for_everybody(job(client)));
            attackers.attack(job(client), None);
        }
        attackers.forget_client(ada);
        assert_eq!(clients(&mut workers[EVERYBODY]), [bob]);
        assert_eq!(clients(&mut workers[GATHERING]), [bob]);
        assert!(!clients(&mut workers[0]).is_empty(), "the newest update is of somebody else");
        attackers.attack(job(1), None);
        attackers.forget_client(ada);
        assert!(workers.iter_mut().all(|worker| clients(worker).is_empty()));
    }

    /// Nothing waits for its thread, but rounds run.
    #[test]
    fn an_attack_far_over_its_budget_ends_while_rounds_run() {
        let (attackers, _workers) = Attackers::new(Duration::from_secs(1), None, 1, || {});
        let mut schedule = attackers.shared.lock();
        schedule.newest = Some(Arc::new(job(1)));
        for (is_paused, seconds, ends) in [(false, 3, false), (false, 5, true), (true, 5, false)] {
            schedule.is_paused = is_paused;
            assert_eq!(schedule.is_overdue(Duration::from_secs(seconds)), ends, "{seconds} s, paused {is_paused}");
        }
    }

    #[test]
    fn without_a_budget_nothing_is_attacked() {
        let (attackers, mut workers) = Attackers::new(Duration::from_secs(60), None, 1, || {});
        attackers.set_budget(Duration::ZERO);
        attackers.attack(job(1), None);
        assert!(clients(&mut workers[0]).is_empty());
        let budget = attackers.budget();
        assert!(budget.seconds == 0.0 && !budget.skipped.is_empty(), "{budget:?}");
    }
}
