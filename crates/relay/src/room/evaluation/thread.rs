//! Measures on a thread of its own: rounds never wait for it.

use std::{
    sync::{Arc, Weak, mpsc},
    thread,
};

use anyhow::Context;
use unmask_federation::GlobalModel;

use super::{Evaluation, EvaluationJob};

/// The measuring thread; it ends when this is dropped, after what it is at.
#[derive(Debug)]
pub(crate) struct EvaluationThread {
    jobs: mpsc::Sender<EvaluationJob>,
    /// The model measured last, or being measured.
    newest: Weak<GlobalModel>,
    is_busy: bool,
}

impl EvaluationThread {
    /// Starts the thread; `report` gives false once nobody listens.
    pub(crate) fn start(report: impl Fn(Evaluation) -> bool + Send + 'static) -> anyhow::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        thread::Builder::new()
            .name("evaluation".to_owned())
            .spawn(move || work(&waiting, report))
            .context("no thread for measuring the model")?;
        Ok(Self { jobs, newest: Weak::new(), is_busy: false })
    }

    /// Whether this model is worth measuring now: nothing is being measured, and it was not measured before.
    pub(crate) fn is_due(&self, model: &Arc<GlobalModel>) -> bool {
        !self.is_busy && !self.knows(model)
    }

    /// Whether this model was the last to be measured, or is being measured.
    pub(crate) fn knows(&self, model: &Arc<GlobalModel>) -> bool {
        std::ptr::eq(self.newest.as_ptr(), Arc::as_ptr(model))
    }

    pub(crate) fn forget(&mut self) {
        self.newest = Weak::new();
    }

    /// Measures a model. Newer models wait with their round until this one is done, and nothing of them is copied.
    pub(crate) fn begin(&mut self, job: EvaluationJob) {
        self.newest = Arc::downgrade(&job.model);
        // The thread ends with this sender alone.
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
