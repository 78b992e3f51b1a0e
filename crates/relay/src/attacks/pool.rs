//! The threads that run closed forms, labels and membership, one task each at a time.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::error;
use unmask_attack::{Accumulated, AttackProgress, CannotAttack, Method, NoSearches, Recovered, SearchOptions};

use super::{
    Finding, Report, Seen,
    candidate::{self, Candidate},
    desk::{Desk, Shared},
    job::Job,
    keys::Keys,
    queue::{Errand, Task},
    remarks,
    report::cannot,
};

/// What a task takes with it besides the update.
struct Held {
    keys: Keys,
    candidate: Option<Arc<Candidate>>,
    rounds: Option<Arc<Accumulated>>,
}

/// What a thread is to do next.
enum Order {
    Run(Errand<Arc<Job>>, Held),
    /// Tasks were left out, which is all there is to say.
    Skipped,
}

/// The tasks on an update as soon as it comes. Several rounds together follow once it is added to them.
pub(super) fn tasks(job: &Job, has_candidate: bool) -> Vec<Task> {
    let methods =
        job.concealment.methods().into_iter().filter(|method| !method.is_search() && *method != Method::Rounds);
    let membership = has_candidate.then_some(Task::Membership);
    std::iter::once(Task::Label).chain(methods.map(Task::Method)).chain(membership).collect()
}

/// Runs tasks until the room is gone.
pub(super) fn work(shared: &Shared) {
    while let Some(order) = next(shared) {
        let report = match order {
            Order::Skipped => Some(Report::Skipped),
            Order::Run(errand, held) => run(shared, &errand, &held),
        };
        if report.is_some_and(|report| !shared.report(report)) {
            return;
        }
    }
}

fn next(shared: &Shared) -> Option<Order> {
    let mut desk = shared.lock();
    loop {
        if desk.is_closed {
            return None;
        }
        if let Some(order) = order(&mut desk) {
            return Some(order);
        }
        desk = shared.wait(desk);
    }
}

fn order(desk: &mut Desk) -> Option<Order> {
    let (is_spent, is_none) = (desk.budget.is_spent(), desk.budget.is_none());
    let skipped = desk.queue.skip(|errand| is_none || (is_spent && !errand.is_asked));
    if !skipped.is_empty() {
        skipped.into_iter().for_each(|task| desk.budget.skip(task.name()));
        return Some(Order::Skipped);
    }
    let (serial, is_gathering) = (desk.serial(), desk.is_gathering);
    let errand = desk.queue.take(serial, |task| task != Task::Method(Method::Rounds) || !is_gathering)?;
    desk.budget.make_up(errand.task.name());
    let rounds = desk.gathered.as_ref().map(|gathered| Arc::clone(&gathered.rounds));
    let held = Held { keys: desk.keys.clone(), candidate: desk.candidate.clone(), rounds };
    Some(Order::Run(errand, held))
}

/// Runs one task; its time is taken off the budget.
fn run(shared: &Shared, errand: &Errand<Arc<Job>>, held: &Held) -> Option<Report> {
    let Errand { task, job, .. } = errand;
    let started = Instant::now();
    // What is attacked comes from outside: whatever it makes the linear algebra do, the thread lives on.
    let report = catch_unwind(AssertUnwindSafe(|| perform(*task, job, held))).unwrap_or_else(|_| {
        error!(round = job.about.round, "{} broke down on an update", task.name());
        broken(*task, job, held)
    });
    let took = started.elapsed();
    {
        let mut desk = shared.lock();
        desk.queue.done(*task);
        desk.budget.spend(job.about.serial, took);
        if let (Task::Method(Method::Rounds), Some(rounds)) = (*task, &held.rounds)
            && let Some(gathered) = &mut desk.gathered
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
    let reason = "the attack broke down on this update".to_owned();
    let about = Box::new(job.about);
    match task {
        Task::Label => Some(Report::Labels(about, Err(reason))),
        Task::Method(method) => Some(found(method, job, Err(reason))),
        Task::Membership => Some(Report::Membership(about, held.candidate.as_ref()?.number, Err(reason))),
    }
}

fn perform(task: Task, job: &Job, held: &Held) -> Option<Report> {
    let about = Box::new(job.about);
    match task {
        Task::Label => Some(Report::Labels(about, job.labels().map_err(|error| error.to_string()))),
        Task::Method(method) => Some(found(method, job, attack(method, job, held))),
        Task::Membership => {
            let candidate = held.candidate.as_ref()?;
            Some(Report::Membership(about, candidate.number, candidate::ask(job, candidate)))
        }
    }
}

fn found(method: Method, job: &Job, outcome: Result<Seen, String>) -> Report {
    let outcome = outcome.map_err(|reason| cannot(&reason));
    Report::Found(Box::new(Finding { about: job.about, method, seconds: 0.0, outcome, search: None }))
}

fn attack(method: Method, job: &Job, held: &Held) -> Result<Seen, String> {
    let mut observation = job.observation.clone();
    observation.encryption = job.encryption.map(|(_, check)| held.keys.of(check));
    observation.rounds = held.rounds.clone().ok_or(CannotAttack::NoRounds);
    let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
    let recovered = unmask_attack::run(method, &observation, &NoSearches, SearchOptions::default(), go_on);
    let Recovered { pictures, mut notes, .. } = recovered.map_err(|error| error.to_string())?;
    notes.extend(remarks::on(method, job));
    Seen::new(job.config.image, pictures.concat(), &notes)
}
