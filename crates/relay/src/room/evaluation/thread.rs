//! Measures models on a separate thread, so that rounds never wait.

use std::{
    sync::{Arc, Weak, mpsc},
    thread,
};

use anyhow::Context;
use unmask_federation::GlobalModel;

use super::{Evaluation, EvaluationJob};

/// The measuring thread. Dropping this ends it after its current job.
#[derive(Debug)]
pub(crate) struct EvaluationThread {
    jobs: mpsc::Sender<EvaluationJob>,
    /// The model measured last, or being measured.
    newest: Weak<GlobalModel>,
    is_busy: bool,
}

impl EvaluationThread {
    /// Starts the thread; `report` returns false once the room is gone.
    pub(crate) fn start(report: impl Fn(Evaluation) -> bool + Send + 'static) -> anyhow::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        thread::Builder::new()
            .name("evaluation".to_owned())
            .spawn(move || work(&waiting, report))
            .context("cannot start the thread for measuring the model")?;
        Ok(Self { jobs, newest: Weak::new(), is_busy: false })
    }

    /// Whether to measure this model now: the thread is idle and has not measured it.
    pub(crate) fn is_due(&self, model: &Arc<GlobalModel>) -> bool {
        !self.is_busy && !self.knows(model)
    }

    /// Whether this model is being measured, or was the last to be measured.
    pub(crate) fn knows(&self, model: &Arc<GlobalModel>) -> bool {
        std::ptr::eq(self.newest.as_ptr(), Arc::as_ptr(model))
    }

    pub(crate) fn forget(&mut self) {
        self.newest = Weak::new();
    }

    /// Starts measuring a model, without copying it. Models are not queued: once this one is done, the room's current
    /// model is next.
    pub(crate) fn begin(&mut self, job: EvaluationJob) {
        self.newest = Arc::downgrade(&job.model);
        // Sending fails only once the thread has ended with the room.
        self.is_busy = self.jobs.send(job).is_ok();
    }

    pub(crate) fn done(&mut self) {
        self.is_busy = false;
    }
}

fn work(jobs: &mpsc::Receiver<EvaluationJob>, report: impl Fn(Evaluation) -> bool) {
    for job in jobs {
        let (serial, round) = (job.serial, job.round);
        let outcome = job.held_out.measure(&job.model);
        drop(job);
        if !report(Evaluation { serial, round, outcome }) {
            return;
        }
    }
}
