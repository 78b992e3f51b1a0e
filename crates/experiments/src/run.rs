//! An experiment while it runs: what it reports, and where its finished parts are kept.

use std::ops::ControlFlow;

use crate::{request::Request, store::Store};

/// What happens while an experiment runs.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The run starts.
    Started {
        /// All parts.
        parts: usize,
        /// Parts that are not finished yet.
        left: usize,
    },
    /// A part starts.
    PartStarted {
        /// What it is.
        name: &'a str,
    },
    /// The part at hand has come this far.
    Progress {
        /// Share of it that is done, in [0, 1].
        share: f64,
        /// A few words on its state.
        note: &'a str,
    },
    /// The part at hand is finished and kept.
    PartFinished,
}

/// Receives events, and may end the run.
pub type OnEvent<'a> = &'a mut dyn FnMut(Event<'_>) -> ControlFlow<()>;

/// What an experiment computes with, and where it keeps what it found.
pub(crate) struct Run<'a, 'b> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) store: Store,
    pub(crate) on_event: OnEvent<'b>,
}

impl Run<'_, '_> {
    /// The name of a part's file.
    pub(crate) fn part(&self, key: &str, seed: u64) -> String {
        format!("{}-{key}-{seed}", self.request.scale)
    }

    /// Passes an event on; whether the run is to end.
    pub(crate) fn notify(&mut self, event: Event<'_>) -> ControlFlow<()> {
        (self.on_event)(event)
    }
}
