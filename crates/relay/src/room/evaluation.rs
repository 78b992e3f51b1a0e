//! How well the global model does on pictures that nobody trains on, measured on a thread of its own: rounds never wait
//! for it.

mod measure;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, mpsc},
    thread,
    time::Duration,
};

use anyhow::Context;
use unmask_core::{Architecture, ModelState};
use unmask_federation::GlobalModel;

pub(crate) use self::measure::{Measured, interval};
use crate::room::data_set::SharedDataSet;

/// Runs a model on labelled pictures. The relay knows no tensors, so that whoever starts it hands this in.
pub trait ModelEvaluator: fmt::Debug + Send + Sync {
    /// What the model of `state` says to `images`, `[batch, 3, side, side]` in [0, 1], with labels `[batch]`.
    ///
    /// # Errors
    /// In words for people, if the model cannot be run on them.
    fn evaluate(
        &self,
        architecture: Architecture,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<BatchEvaluation, String>;
}

/// What a model says to a batch of pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchEvaluation {
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

/// The result of an [`EvaluationJob`], or why there is none.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) serial: u64,
    pub(crate) round: u32,
    pub(crate) outcome: Result<Measured, String>,
}

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
    pub(crate) fn start(
        report: impl Fn(Evaluation) -> bool + Send + 'static,
        evaluator: Arc<dyn ModelEvaluator>,
    ) -> anyhow::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        thread::Builder::new()
            .name("evaluation".to_owned())
            .spawn(move || work(&waiting, report, evaluator.as_ref()))
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

fn work(jobs: &mpsc::Receiver<EvaluationJob>, report: impl Fn(Evaluation) -> bool, evaluator: &dyn ModelEvaluator) {
    for job in jobs {
        let (serial, round) = (job.serial, job.round);
        // What the model has become under strangers' updates decides what is computed here: whatever it does, the thread
        // lives on.
        let outcome = catch_unwind(AssertUnwindSafe(|| measure::measure(evaluator, &job)))
            .unwrap_or_else(|_| Err("measuring the model broke down".to_owned()));
        drop(job);
        if !report(Evaluation { serial, round, outcome }) {
            return;
        }
    }
}
