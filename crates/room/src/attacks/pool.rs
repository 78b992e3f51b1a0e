//! The workers for closed forms, labels and membership. Each runs one task at a time.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tracing::error;
use unmask_attack::{
    AccumulatedRounds, AttackError, AttackProgress, GoOn, Misfit, Observation, Recovered, SearchOptions, Searches,
    WholeUpdate, own_gradient,
};
use unmask_core::AttackMethod;

use super::{
    candidate::{self, Candidate},
    gathered,
    job::Job,
    keys::Keys,
    queue::{QueuedTask, Task},
    remarks,
    report::{Failure, Finding, NoResult, Report, Seen},
    schedule::{Schedule, Shared},
    tables::Tables,
};
use crate::time::Moment;

/// A task's input in addition to the update.
struct Held {
    keys: Keys,
    candidate: Option<Arc<Candidate>>,
    whole: Option<Arc<WholeUpdate>>,
    rounds: Option<Arc<AccumulatedRounds>>,
}

enum Order {
    Run(QueuedTask<Arc<Job>>, Held),
    /// Tasks were skipped; there is nothing to run.
    Skipped,
}

/// Returns the tasks to run on an update when it arrives. If the update is to be gathered, the attack on several rounds
/// follows later.
pub(super) fn tasks(job: &Job, has_candidate: bool) -> Vec<Task> {
    let is_later = |method| method == AttackMethod::Rounds && gathered::is_wanted(job);
    let methods = job.methods().into_iter();
    let methods = methods.filter(|&method| !method.is_search() && !is_later(method));
    let membership = has_candidate.then_some(Task::Membership);
    std::iter::once(Task::Label).chain(methods.map(Task::Method)).chain(membership).collect()
}

/// Runs the next task; `searches` run the model for membership and to peel certain pictures off a batch. `None` if there is none.
pub(super) fn step(shared: &Shared, searches: &dyn Searches, now: &dyn Fn() -> Moment) -> Option<Vec<Report>> {
    let order = order(&mut shared.lock())?;
    let report = match order {
        Order::Skipped => Some(Report::Skipped),
        Order::Run(queued, held) => run(&Means { shared, searches, now }, &queued, &held),
    };
    Some(report.into_iter().collect())
}

/// What running a task takes besides the update.
#[derive(Clone, Copy)]
struct Means<'a> {
    shared: &'a Shared,
    searches: &'a dyn Searches,
    now: &'a dyn Fn() -> Moment,
}

fn order(schedule: &mut Schedule) -> Option<Order> {
    let (is_spent, is_none) = (schedule.budget.is_spent(), schedule.budget.is_none());
    let skipped = schedule.queue.skip(|queued| is_none || (is_spent && !queued.is_asked));
    if !skipped.is_empty() {
        skipped.into_iter().for_each(|task| schedule.budget.skip(task.name()));
        return Some(Order::Skipped);
    }
    let (serial, is_gathering) = (schedule.serial(), schedule.is_gathering);
    let queued = schedule.queue.take(serial, |task| task != Task::Method(AttackMethod::Rounds) || !is_gathering)?;
    schedule.budget.make_up(queued.task.name());
    let rounds = schedule.gathered.as_ref().map(|gathered| Arc::clone(&gathered.rounds));
    let runs_model = matches!(queued.task, Task::Membership | Task::Method(AttackMethod::Batch));
    let whole = schedule.whole.clone().filter(|_| runs_model && queued.job.about.serial == serial);
    let held = Held { keys: schedule.keys.clone(), candidate: schedule.candidate.clone(), whole, rounds };
    Some(Order::Run(queued, held))
}

/// Runs one task and charges its time to the budget.
fn run(means: &Means<'_>, queued: &QueuedTask<Arc<Job>>, held: &Held) -> Option<Report> {
    let Means { shared, now, .. } = *means;
    let QueuedTask { task, job, .. } = queued;
    let started = now();
    // Updates come from outside: if one makes the linear algebra panic, the worker must survive.
    let report = catch_unwind(AssertUnwindSafe(|| perform(*task, means, job, held))).unwrap_or_else(|_| {
        error!(round = job.about.round, "{} broke down on an update", task.name());
        broken(*task, job, held)
    });
    let took = now() - started;
    {
        let mut schedule = shared.lock();
        schedule.queue.done(*task);
        schedule.budget.spend(job.about.serial, took);
        if let (Task::Method(AttackMethod::Rounds), Some(rounds)) = (*task, &held.rounds)
            && let Some(gathered) = &mut schedule.gathered
        {
            gathered.solved(rounds);
        }
    }
    shared.changed();
    report.map(|report| timed(report, took))
}

fn timed(mut report: Report, took: Duration) -> Report {
    if let Report::Found(finding) = &mut report {
        finding.seconds = took.as_secs_f64();
    }
    report
}

fn broken(task: Task, job: &Job, held: &Held) -> Option<Report> {
    let reason = Failure::BrokeDown { what: "the attack" };
    let about = Box::new(job.about);
    match task {
        Task::Label => Some(Report::Labels(about, Err(reason))),
        Task::Method(method) => Some(found(method, job, Err(reason))),
        Task::Membership => Some(Report::Membership(about, held.candidate.as_ref()?.number, Err(reason))),
    }
}

fn perform(task: Task, means: &Means<'_>, job: &Job, held: &Held) -> Option<Report> {
    let Means { shared, searches, now } = *means;
    let about = Box::new(job.about);
    let started = now();
    let go_on = &mut || match shared.lock().is_overdue(now() - started) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    match task {
        Task::Label => Some(Report::Labels(about, job.labels().map_err(Failure::from))),
        Task::Method(method) => Some(found(method, job, attack(method, means, job, held, go_on))),
        Task::Membership => {
            let candidate = held.candidate.as_ref()?;
            Some(Report::Membership(
                about,
                candidate.number,
                candidate::ask(job, candidate, held.whole.clone(), searches, go_on),
            ))
        }
    }
}

fn found(method: AttackMethod, job: &Job, outcome: Result<Seen, Failure>) -> Report {
    let outcome = outcome.map_err(NoResult::from);
    Report::Found(Box::new(Finding { about: job.about, method, seconds: 0.0, outcome, search: None }))
}

fn attack(method: AttackMethod, means: &Means<'_>, job: &Job, held: &Held, go_on: GoOn<'_>) -> Result<Seen, Failure> {
    let mut observation = job.observation.clone();
    observation.encryption = job.encryption.map(|(_, check)| held.keys.of(check));
    observation.rounds = held.rounds.clone().ok_or(AttackError::NoRounds);
    observation.whole = held.whole.clone();
    let progress = &mut |_: AttackProgress<'_>| go_on();
    let recovered = unmask_attack::run(method, &observation, means.searches, SearchOptions::default(), progress);
    let Recovered { pictures, mut notes, .. } = recovered?;
    notes.extend(check(means, job, observation, &pictures, go_on));
    notes.extend(remarks::on(method, job));
    let seen = Seen::new(job.architecture.side(), pictures.concat(), &notes)?;
    Ok(Seen { tables: Tables::of(method, job), ..seen })
}

/// Says how much of the update's tensors a reconstruction leaves unexplained, by its own gradient.
///
/// Returns `None` for a mixture of several pictures, if the model is not available (encrypted, or of an older update),
/// and if the round's time is spent, because other attacks come first.
fn check(
    Means { shared, searches, .. }: &Means<'_>,
    job: &Job,
    mut observation: Observation,
    pictures: &[Vec<f32>],
    go_on: GoOn<'_>,
) -> Option<String> {
    if observation.batch != 1 || go_on().is_break() {
        return None;
    }
    // Take the model only now: held during the attack, it would share memory with the next update's model. Only the attack
    // on batches and membership hold it.
    observation.whole = {
        let schedule = shared.lock();
        let is_due = schedule.serial() == job.about.serial && !schedule.budget.is_spent();
        Some(schedule.whole.clone().filter(|_| is_due)?)
    };
    let own = own_gradient(&observation, *searches, pictures).ok()?;
    remarks::unexplained(&Misfit::of_tensors(&own, &observation.evidence().ok()?.gradients).ok()?)
}
