//! Computes a matrix within an experiment.

use std::{
    ops::ControlFlow,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::ExperimentError,
    matrix::{self, MatrixEvent, MatrixRequest, MatrixRow},
    run::{ExperimentEvent, ExperimentRun},
};

/// Progress within a row is reported at most once in this time. A small model takes thousands of steps in a second.
const PAUSE: Duration = Duration::from_millis(50);

/// Computes the rows of a matrix at the positions that `takes` selects. Uses a separate thread, because the
/// experiment's event handler must stay on this one.
///
/// # Errors
/// As [`matrix::run_rows`], and [`ExperimentError::Stopped`] if the run was ended before the last row.
pub(crate) fn watched(
    request: &MatrixRequest<'_>,
    takes: &(dyn Fn(usize) -> bool + Sync),
    run: &mut ExperimentRun<'_, '_>,
) -> Result<Vec<MatrixRow>, ExperimentError> {
    let is_stopped = AtomicBool::new(false);
    let (send, receive) = channel::<f64>();
    let outcome = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let (send, mut total, mut last) = (send, 1, Instant::now());
            matrix::run_rows(request, takes, &mut |event| {
                match event {
                    MatrixEvent::Started { work, .. } => total = work.max(1),
                    MatrixEvent::RowStarted { .. } => (),
                    MatrixEvent::Progress { .. } if last.elapsed() < PAUSE => (),
                    MatrixEvent::Progress { done } | MatrixEvent::RowFinished { done } => {
                        last = Instant::now();
                        // The receiver is gone only if this thread is about to be stopped.
                        let _ = send.send(done as f64 / total as f64);
                    }
                }
                if is_stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        for share in receive {
            if run.notify(ExperimentEvent::Progress { share, note: "" }).is_err() {
                is_stopped.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    if outcome.rows.len() < outcome.planned { Err(ExperimentError::Stopped) } else { Ok(outcome.rows) }
}
