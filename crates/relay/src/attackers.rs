//! The threads that run the attacks.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use anyhow::Context;
use tokio::sync::mpsc;
use unmask_attack::Searches;
use unmask_room::{Attackers, Input, Step, Worker};

use crate::clock::Clock;

/// Upper limit of threads for closed forms.
const MOST_THREADS: usize = 4;

/// Wakes threads that wait for work.
#[derive(Debug, Default)]
struct Signal {
    /// Counts the changes, so that none is missed between a look for work and the wait.
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    fn seen(&self) -> u64 {
        *self.lock()
    }

    /// Waits for a change after the one seen.
    fn wait(&self, seen: u64) {
        let changes = self.changed.wait_while(self.lock(), |changes| *changes == seen);
        drop(changes.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Starts the threads, which end with the room that gets the result.
///
/// # Errors
/// If the system has no threads for them.
pub(crate) fn start(
    budget: Duration,
    searches: Option<Arc<dyn Searches>>,
    inputs: &mpsc::WeakSender<Input>,
    clock: Clock,
) -> anyhow::Result<Attackers> {
    let signal = Arc::<Signal>::default();
    let wake = Arc::clone(&signal);
    // Leave the other half of the machine to the tabs and the relay.
    let closed_forms = (thread::available_parallelism().map_or(1, NonZeroUsize::get) / 2).clamp(1, MOST_THREADS);
    let (attackers, workers) = Attackers::new(budget, searches, closed_forms, move || wake.change());
    for worker in workers {
        let (signal, inputs) = (Arc::clone(&signal), inputs.clone());
        let thread = thread::Builder::new().name(worker.name().to_owned());
        let work = move || work(worker, &signal, &inputs, clock);
        thread.spawn(work).context("cannot start the threads for the attacks")?;
    }
    Ok(attackers)
}

fn work(mut worker: Worker, signal: &Signal, inputs: &mpsc::WeakSender<Input>, clock: Clock) {
    let is_told = |report| inputs.upgrade().is_some_and(|room| room.blocking_send(Input::Attacked(report)).is_ok());
    loop {
        let seen = signal.seen();
        // An attack hears from its schedule that the room has gone.
        match worker.step(&|| clock.moment(), &|report| {
            is_told(report);
        }) {
            Step::Idle => signal.wait(seen),
            Step::Worked(reports) => {
                if !reports.into_iter().all(is_told) {
                    return;
                }
            }
            Step::Over => return,
        }
    }
}
