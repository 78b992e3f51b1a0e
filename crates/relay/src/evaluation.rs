//! How well the global model does on pictures that nobody trains on, measured on a thread of its own: rounds never wait
//! for it.

mod measure;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, mpsc as threads},
    thread,
    time::Duration,
};

use anyhow::Context;
use tokio::sync::mpsc;
use unmask_core::{Architecture, ModelState};
use unmask_federation::GlobalModel;

pub(crate) use self::measure::{Measured, interval};
use crate::{room::Input, sharing::SharedDataSet};

/// Runs a model on labelled pictures. The relay knows no tensors, so that whoever starts it hands this in.
pub trait Evaluates: fmt::Debug + Send + Sync {
    /// What the model says to `images`, `[batch, 3, side, side]` in [0, 1], with labels `[batch]`; `state` is its
    /// state.
    ///
    /// # Errors
    /// In words for people, if the model cannot be run on them.
    fn evaluate(
        &self,
        architecture: Architecture,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Answers, String>;
}

/// What a model says to a batch of pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    pub loss: f32,
    /// `[batch, classes]`, row-major.
    pub logits: Vec<f32>,
}

#[derive(Debug)]
pub(crate) struct EvaluationJob {
    /// Tells results that are still wanted from others.
    pub(crate) serial: u64,
    /// The round after which the model came about; 0 before the first.
    pub(crate) round: u32,
    /// The model. Kept alive until it is measured: a round that closes meanwhile writes its new weights elsewhere.
    pub(crate) model: Arc<GlobalModel>,
    pub(crate) data_set: Arc<SharedDataSet>,
    pub(crate) budget: Duration,
}

/// The result of an [`EvaluationJob`].
#[derive(Debug)]
pub(crate) struct Evaluation {
    /// The job's number.
    pub(crate) serial: u64,
    pub(crate) round: u32,
    /// The result, or why there is none.
    pub(crate) outcome: Result<Measured, String>,
}

/// The measuring thread; it ends when this is dropped, after what it is at.
#[derive(Debug)]
pub(crate) struct Evaluator {
    jobs: threads::Sender<EvaluationJob>,
    /// The model measured last, or being measured.
    newest: Weak<GlobalModel>,
    is_busy: bool,
}

impl Evaluator {
    /// Starts the thread; it reports as [`Input::Evaluated`].
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(crate) fn start(room: mpsc::WeakSender<Input>, evaluates: Arc<dyn Evaluates>) -> anyhow::Result<Self> {
        let (jobs, waiting) = threads::channel();
        thread::Builder::new()
            .name("evaluation".to_owned())
            .spawn(move || work(&waiting, &room, evaluates.as_ref()))
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

    /// Forgets which model was measured last.
    pub(crate) fn forget(&mut self) {
        self.newest = Weak::new();
    }

    /// Measures a model. Newer models wait with their round until this one is done, and nothing of them is copied.
    pub(crate) fn begin(&mut self, job: EvaluationJob) {
        self.newest = Arc::downgrade(&job.model);
        // The thread ends with this sender alone.
        self.is_busy = self.jobs.send(job).is_ok();
    }

    /// The thread has reported.
    pub(crate) fn done(&mut self) {
        self.is_busy = false;
    }
}

fn work(jobs: &threads::Receiver<EvaluationJob>, room: &mpsc::WeakSender<Input>, evaluates: &dyn Evaluates) {
    for job in jobs {
        let (serial, round) = (job.serial, job.round);
        // What the model has become under strangers' updates decides what is computed here: whatever it does, the thread
        // lives on.
        let outcome = catch_unwind(AssertUnwindSafe(|| measure::measure(evaluates, &job)))
            .unwrap_or_else(|_| Err("measuring the model broke down".to_owned()));
        drop(job);
        let Some(room) = room.upgrade() else { return };
        if room.blocking_send(Input::Evaluated(Evaluation { serial, round, outcome })).is_err() {
            return;
        }
    }
}
