//! A running experiment: its events, and the folder of its finished cases.

use std::ops::ControlFlow;

use unmask_model::device::OpenDevice;

use crate::{
    error::ExperimentError,
    parts::{Machine, MergedRun, Part, PartFolder, RunKind},
    request::{ExperimentRequest, RunRecord},
    store::Store,
};

#[derive(Debug, Clone, Copy)]
pub enum ExperimentEvent<'a> {
    Started {
        cases: usize,
        left: usize,
    },
    /// Some intervals are still too wide, so more seeds are trained.
    CasesAdded {
        cases: usize,
    },
    CaseStarted {
        name: &'a str,
    },
    Progress {
        /// Share that is done, in [0, 1].
        share: f64,
        note: &'a str,
    },
    CaseFinished,
}

/// Receives events, and may end the run.
pub type OnEvent<'a> = &'a mut dyn FnMut(ExperimentEvent<'_>) -> ControlFlow<()>;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope<'a> {
    Whole,
    /// Only the cases of the part, without a report.
    Part(&'a PartFolder),
    /// Nothing: the cases come from the merged parts.
    Merged {
        parts: &'a MergedRun<'a>,
        has_cifar10: bool,
    },
}

pub(crate) struct ExperimentRun<'a, 'b> {
    pub(crate) request: &'a ExperimentRequest<'a>,
    pub(crate) store: Store,
    pub(crate) scope: Scope<'a>,
    pub(crate) on_event: OnEvent<'b>,
}

/// Settings for a training, and its event handler.
pub(crate) struct Trainer<'a> {
    pub(crate) device: &'a OpenDevice,
    /// All threads if absent.
    pub(crate) threads: Option<usize>,
    pub(crate) on_event: OnEvent<'a>,
}

/// Subfolder of an experiment for its finished cases.
pub(crate) const CASES: &str = "cases";

impl ExperimentRun<'_, '_> {
    pub(crate) fn file(&self, key: &str, seed: u64) -> String {
        // The key of a case in a group has a slash.
        format!("{}-{}-{seed}", self.request.scale, key.replace('/', "-"))
    }

    /// Records the files of all cases of the experiment, in order. Only a part needs this.
    ///
    /// # Errors
    /// The folder belongs to another run, or cannot be written.
    pub(crate) fn plan(&self, files: impl IntoIterator<Item = String>) -> Result<(), ExperimentError> {
        let Scope::Part(part) = self.scope else { return Ok(()) };
        let files = files.into_iter().map(|file| format!("{CASES}/{file}")).collect();
        let machine = Machine::here(self.request.threads);
        part.record(self.request.experiment.name(), RunKind::Reproduce, machine, &RunRecord::new(self.request)?, files)
    }

    /// Whether this run includes the case at this position among all cases.
    pub(crate) fn takes(&self, position: usize) -> bool {
        self.part().is_none_or(|part| part.takes(position))
    }

    /// The part, if only a part is computed.
    pub(crate) fn part(&self) -> Option<Part> {
        match self.scope {
            Scope::Part(part) => Some(part.part()),
            Scope::Whole | Scope::Merged { .. } => None,
        }
    }

    /// Whether this is a part, which has no report.
    pub(crate) fn is_part(&self) -> bool {
        self.part().is_some()
    }

    /// Whether CIFAR-10 is available, or was available where the parts were computed.
    pub(crate) fn has_cifar10(&self) -> bool {
        match self.scope {
            Scope::Merged { has_cifar10, .. } => has_cifar10,
            Scope::Whole | Scope::Part(_) => self.request.has_cifar10(),
        }
    }

    /// Checks that a missing case may be computed here.
    ///
    /// # Errors
    /// The parts should have computed it.
    pub(crate) fn check_due(&self, name: &str) -> Result<(), ExperimentError> {
        match self.scope {
            Scope::Merged { .. } => Err(ExperimentError::OtherCase { path: self.store.file(name) }),
            Scope::Whole | Scope::Part(_) => Ok(()),
        }
    }

    /// The machine that computed the whole run.
    pub(crate) fn machine(&self) -> Machine {
        match self.scope {
            Scope::Merged { parts, .. } => parts.machine(),
            Scope::Whole | Scope::Part(_) => Machine::here(self.request.threads),
        }
    }

    pub(crate) fn trainer(&mut self) -> Trainer<'_> {
        let request = self.request;
        Trainer { device: request.device, threads: request.threads, on_event: &mut *self.on_event }
    }

    /// Passes an event to the handler.
    ///
    /// # Errors
    /// [`ExperimentError::Stopped`] if the handler ends the run.
    pub(crate) fn notify(&mut self, event: ExperimentEvent<'_>) -> Result<(), ExperimentError> {
        notify(self.on_event, event)
    }
}

/// Passes an event to the handler.
///
/// # Errors
/// [`ExperimentError::Stopped`] if the handler ends the run.
pub(crate) fn notify(on_event: OnEvent<'_>, event: ExperimentEvent<'_>) -> Result<(), ExperimentError> {
    match on_event(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ExperimentError::Stopped),
    }
}
