//! The thread that writes the journal, so that the room never waits for the disk.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread::{self, JoinHandle},
};

use anyhow::{Context, anyhow};
use tracing::{info, warn};
use unmask_journal::{Store, save};
use unmask_room::{Journal, NotSaved, Save, Saved, digest};

use super::DataFolder;

/// A handle to the writing thread. Dropping it waits until all pending saves are written.
#[derive(Debug)]
pub(crate) struct JournalThread {
    saves: Option<mpsc::Sender<Save>>,
    thread: Option<JoinHandle<()>>,
}

impl JournalThread {
    /// Starts the thread, which calls `report` after each save.
    pub(crate) fn start(report: impl Fn(Saved) + Send + 'static, mut store: Store<DataFolder>) -> anyhow::Result<Self> {
        let (saves, waiting) = mpsc::channel::<Save>();
        let work = move || {
            for state in waiting {
                let round = state.round;
                // A panic would leave the room waiting for an outcome.
                let written = catch_unwind(AssertUnwindSafe(|| save(&mut store, &state)));
                let written = written.unwrap_or_else(|_| Err(anyhow!("writing broke down")));
                if let (Ok(()), Some(arrays)) = (&written, &state.arrays) {
                    info!(round, weights = digest(&arrays.model.state.weights), "on disk");
                }
                let outcome = written.map_err(|error| {
                    warn!(round, "the journal is not written: {error:#}");
                    NotSaved(error)
                });
                drop(state);
                report(Saved { round, outcome });
            }
        };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(work);
        Ok(Self { saves: Some(saves), thread: Some(thread.context("no thread for the journal")?) })
    }
}

impl Journal for JournalThread {
    /// Queues a state; false if the thread has ended.
    fn write(&mut self, save: Save) -> bool {
        self.saves.as_ref().is_some_and(|saves| saves.send(save).is_ok())
    }
}

impl Drop for JournalThread {
    fn drop(&mut self) {
        self.saves = None;
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported.
            let _ = thread.join();
        }
    }
}
