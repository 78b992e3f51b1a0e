//! Several rounds of one client, on a thread of their own: adding is cheap, and must not wait behind an attack.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::error;
use unmask_attack::{AccumulatedRounds, Added, Concealment};
use unmask_core::{AttackMethod, ClientId, Defence, Rule, VitConfig};
use unmask_wire::view::GatheredView;

use super::{
    About, Report,
    job::Job,
    queue::{QueuedTask, Task},
    schedule::Shared,
};

/// What rounds must have in common to be put together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Common {
    epoch: u64,
    gathering: u64,
    client: ClientId,
    rule: Rule,
}

impl Common {
    fn of(about: &About) -> Self {
        let About { epoch, gathering, client, rule, .. } = *about;
        Self { epoch, gathering, client, rule }
    }
}

/// The rounds gathered so far.
#[derive(Debug)]
pub(super) struct Gathered {
    common: Common,
    /// The means over them.
    pub(super) rounds: Arc<AccumulatedRounds>,
    /// Whether the picture behind just these rounds was sought already.
    is_solved: bool,
}

impl Gathered {
    fn new(about: &About, config: &VitConfig) -> Self {
        Self { common: Common::of(about), rounds: Arc::new(AccumulatedRounds::new(config)), is_solved: false }
    }

    /// The picture behind these rounds was sought.
    pub(super) fn solved(&mut self, rounds: &Arc<AccumulatedRounds>) {
        self.is_solved |= Arc::ptr_eq(&self.rounds, rounds);
    }

    /// Adds an update, unless the model has drifted too far.
    fn add(&mut self, job: &Job) -> Result<GatheredView, String> {
        let add = |evidence| Arc::make_mut(&mut self.rounds).add(evidence);
        let added = job.observation.evidence().and_then(add).map_err(|error| error.to_string())?;
        self.is_solved &= added == Added::Drifted;
        Ok(view(&self.rounds, job.about.defence))
    }
}

fn view(rounds: &AccumulatedRounds, defence: Defence) -> GatheredView {
    // One common mask hides the same entries in every round.
    let is_frozen = defence.has_common_mask();
    let rounds_needed = rounds.rounds_until_solvable().filter(|_| !is_frozen);
    GatheredView {
        rounds: u32::try_from(rounds.rounds()).unwrap_or(u32::MAX),
        hidden: rounds.hidden_share(),
        expected_hidden: rounds.expected_hidden_share(),
        whole_equations: rounds.whole_equations(),
        needed_equations: rounds.config().patches(),
        rounds_needed: rounds_needed.and_then(|rounds| u32::try_from(rounds).ok()),
        has_drifted: rounds.has_drifted(),
    }
}

/// Whether an update is to be added.
pub(super) fn is_wanted(job: &Job) -> bool {
    job.concealment == Concealment::Entries && job.architecture.vit().is_some()
}

/// Adds what comes, in order, until the room is gone.
pub(super) fn work(shared: &Shared) {
    while let Some((job, config, gathered)) = next(shared) {
        let mut gathered = gathered
            .filter(|gathered| gathered.common == Common::of(&job.about))
            .unwrap_or_else(|| Gathered::new(&job.about, &config));
        let outcome = catch_unwind(AssertUnwindSafe(|| gathered.add(&job))).unwrap_or_else(|_| {
            error!(round = job.about.round, "gathering broke down on an update");
            // What a panic left of the means is not worth keeping.
            gathered = Gathered::new(&job.about, &config);
            Err("gathering broke down on this update".to_owned())
        });
        let is_due = outcome.is_ok() && !gathered.is_solved;
        {
            let mut schedule = shared.lock();
            schedule.gathered = Some(gathered);
            schedule.is_gathering = false;
            if is_due && schedule.newest.as_ref().is_some_and(|newest| newest.about.serial == job.about.serial) {
                let task = Task::Method(AttackMethod::Rounds);
                schedule.queue.add(QueuedTask { task, job: Arc::clone(&job), is_asked: false });
            }
        }
        shared.changed();
        if !shared.report(Report::Gathered(Box::new(job.about), outcome)) {
            return;
        }
    }
}

/// The next update, and what was gathered before it; nobody else has that meanwhile.
fn next(shared: &Shared) -> Option<(Arc<Job>, VitConfig, Option<Gathered>)> {
    let mut schedule = shared.lock();
    loop {
        if schedule.is_closed {
            return None;
        }
        if let Some(job) = schedule.to_gather.pop_front()
            && let Some(config) = job.architecture.vit()
        {
            schedule.is_gathering = true;
            return Some((job, config, schedule.gathered.take()));
        }
        schedule = shared.wait(schedule);
    }
}
