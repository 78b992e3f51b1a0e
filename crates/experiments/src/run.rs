//! An experiment while it runs: what it reports, and where its finished cases are kept.

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
        /// Cases that are not finished yet.
        left: usize,
    },
    /// Intervals are still too wide: further seeds are trained.
    CasesAdded {
        /// So many cases more that are not finished yet.
        cases: usize,
    },
    CaseStarted {
        name: &'a str,
    },
    /// The case at hand has come this far.
    Progress {
        /// Share of it that is done, in [0, 1].
        share: f64,
        /// A few words on its state.
        note: &'a str,
    },
    CaseFinished,
}

/// Receives events, and may end the run.
pub type OnEvent<'a> = &'a mut dyn FnMut(ExperimentEvent<'_>) -> ControlFlow<()>;

/// How much of an experiment is computed here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope<'a> {
    Whole,
    /// Those cases that are for the part; no report follows.
    Part(&'a PartFolder),
    /// Nothing: all parts have come together.
    Merged {
        parts: &'a MergedRun<'a>,
        has_cifar10: bool,
    },
}

/// What an experiment computes with, and where it keeps what it found.
pub(crate) struct ExperimentRun<'a, 'b> {
    pub(crate) request: &'a ExperimentRequest<'a>,
    pub(crate) store: Store,
    pub(crate) scope: Scope<'a>,
    pub(crate) on_event: OnEvent<'b>,
}

/// What trains, and who is told of it.
pub(crate) struct Trainer<'a> {
    pub(crate) device: &'a OpenDevice,
    /// All if absent.
    pub(crate) threads: Option<usize>,
    pub(crate) on_event: OnEvent<'a>,
}

/// The folder of finished cases in that of an experiment.
pub(crate) const CASES: &str = "cases";

impl ExperimentRun<'_, '_> {
    /// The name of a case's file.
    pub(crate) fn file(&self, key: &str, seed: u64) -> String {
        // A case of a group has a slash in its key.
        format!("{}-{}-{seed}", self.request.scale, key.replace('/', "-"))
    }

    /// Says which files of the store keep all cases of the experiment, in their order, where that is of use: in a part.
    ///
    /// # Errors
    /// The folder is of another run, or cannot be written.
    pub(crate) fn plan(&self, files: impl IntoIterator<Item = String>) -> Result<(), ExperimentError> {
        let Scope::Part(part) = self.scope else { return Ok(()) };
        let files = files.into_iter().map(|file| format!("{CASES}/{file}")).collect();
        let machine = Machine::here(self.request.threads);
        part.record(self.request.experiment.name(), RunKind::Reproduce, machine, &RunRecord::new(self.request)?, files)
    }

    /// Whether the case at this position of all is computed here, or was.
    pub(crate) fn takes(&self, position: usize) -> bool {
        self.part().is_none_or(|part| part.takes(position))
    }

    /// The part that is computed here, if it is no whole.
    pub(crate) fn part(&self) -> Option<Part> {
        match self.scope {
            Scope::Part(part) => Some(part.part()),
            Scope::Whole | Scope::Merged { .. } => None,
        }
    }

    /// Whether this is a part, so that no report can be made.
    pub(crate) fn is_part(&self) -> bool {
        self.part().is_some()
    }

    /// Whether the photographs are there, or were where it was computed.
    pub(crate) fn has_cifar10(&self) -> bool {
        match self.scope {
            Scope::Merged { has_cifar10, .. } => has_cifar10,
            Scope::Whole | Scope::Part(_) => self.request.has_cifar10(),
        }
    }

    /// A case that is not kept is to be computed.
    ///
    /// # Errors
    /// It should have been by a part.
    pub(crate) fn check_due(&self, name: &str) -> Result<(), ExperimentError> {
        match self.scope {
            Scope::Merged { .. } => Err(ExperimentError::OtherCase { path: self.store.file(name) }),
            Scope::Whole | Scope::Part(_) => Ok(()),
        }
    }

    /// Where the whole was computed.
    pub(crate) fn machine(&self) -> Machine {
        match self.scope {
            Scope::Merged { parts, .. } => parts.machine(),
            Scope::Whole | Scope::Part(_) => Machine::here(self.request.threads),
        }
    }

    /// What trains a case with the threads of the request.
    pub(crate) fn trainer(&mut self) -> Trainer<'_> {
        let request = self.request;
        Trainer { device: request.device, threads: request.threads, on_event: &mut *self.on_event }
    }

    /// Passes an event on.
    ///
    /// # Errors
    /// [`ExperimentError::Stopped`], if the run is to end.
    pub(crate) fn notify(&mut self, event: ExperimentEvent<'_>) -> Result<(), ExperimentError> {
        notify(self.on_event, event)
    }
}

/// Passes an event on.
///
/// # Errors
/// [`ExperimentError::Stopped`], if the run is to end.
pub(crate) fn notify(on_event: OnEvent<'_>, event: ExperimentEvent<'_>) -> Result<(), ExperimentError> {
    match on_event(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ExperimentError::Stopped),
    }
}
