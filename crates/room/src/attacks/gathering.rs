//! The worker that gathers rounds of one client.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::error;
use unmask_core::{AttackMethod, VitConfig};

use super::{
    gathered::Gathered,
    job::Job,
    queue::{QueuedTask, Task},
    report::{Failure, Report},
    schedule::{Schedule, Shared},
};

/// Adds the next update; `None` if there is none.
pub(super) fn step(shared: &Shared) -> Option<Vec<Report>> {
    let (job, config, gathered) = next(&mut shared.lock())?;
    let mut gathered = gathered
        .filter(|gathered| gathered.goes_with(&job.about))
        .unwrap_or_else(|| Gathered::new(&job.about, &config));
    let outcome = catch_unwind(AssertUnwindSafe(|| gathered.add(&job).map_err(Failure::from))).unwrap_or_else(|_| {
        error!(round = job.about.round, "gathering broke down on an update");
        // A panic may have left the means half updated.
        gathered = Gathered::new(&job.about, &config);
        Err(Failure::BrokeDown { what: "gathering" })
    });
    let is_due = outcome.is_ok() && !gathered.is_solved();
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
    Some(vec![Report::Gathered(Box::new(job.about), outcome)])
}

/// Takes the next update and the rounds gathered so far, so that no other worker sees them half updated.
fn next(schedule: &mut Schedule) -> Option<(Arc<Job>, VitConfig, Option<Gathered>)> {
    while let Some(job) = schedule.to_gather.pop_front() {
        if let Some(config) = job.architecture.vit() {
            schedule.is_gathering = true;
            return Some((job, config, schedule.gathered.take()));
        }
    }
    None
}
