//! An experiment while it runs: what it reports, and where its finished parts are kept.

use std::ops::ControlFlow;

use crate::{error::ExperimentError, request::ExperimentRequest, store::Store};

#[derive(Debug, Clone, Copy)]
pub enum ExperimentEvent<'a> {
    Started {
        parts: usize,
        /// Parts that are not finished yet.
        left: usize,
    },
    /// Intervals are still too wide: further seeds are trained.
    PartsAdded {
        /// So many parts more that are not finished yet.
        parts: usize,
    },
    PartStarted {
        name: &'a str,
    },
    /// The part at hand has come this far.
    Progress {
        /// Share of it that is done, in [0, 1].
        share: f64,
        /// A few words on its state.
        note: &'a str,
    },
    PartFinished,
}

/// Receives events, and may end the run.
pub type OnEvent<'a> = &'a mut dyn FnMut(ExperimentEvent<'_>) -> ControlFlow<()>;

/// What an experiment computes with, and where it keeps what it found.
pub(crate) struct ExperimentRun<'a, 'b> {
    pub(crate) request: &'a ExperimentRequest<'a>,
    pub(crate) store: Store,
    pub(crate) on_event: OnEvent<'b>,
}

impl ExperimentRun<'_, '_> {
    pub(crate) fn part(&self, key: &str, seed: u64) -> String {
        format!("{}-{key}-{seed}", self.request.scale)
    }

    /// Passes an event on.
    ///
    /// # Errors
    /// [`ExperimentError::Stopped`], if the run is to end.
    pub(crate) fn notify(&mut self, event: ExperimentEvent<'_>) -> Result<(), ExperimentError> {
        match (self.on_event)(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ExperimentError::Stopped),
        }
    }
}
