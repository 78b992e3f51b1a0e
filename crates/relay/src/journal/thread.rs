//! The thread that writes the journal, so that the room never waits for the disk.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use anyhow::{Context, anyhow};
use tracing::{info, warn};
use unmask_core::{Architecture, ModelState};
use unmask_federation::{GlobalModel, Moments};
use unmask_room::{Arrays, Journal, NotSaved, Save, Saved, digest};

use super::store::{Contents, Store, Values};

const WEIGHTS: &str = "weights";
const STATISTICS: &str = "statistics";
const FIRST: &str = "first moments";
const SECOND: &str = "second moments";
const RECORDS: &str = "records";

/// A handle to the writing thread. Dropping it waits until all pending saves are written.
#[derive(Debug)]
pub(crate) struct JournalThread {
    saves: Option<mpsc::Sender<Save>>,
    thread: Option<JoinHandle<()>>,
}

impl JournalThread {
    /// Starts the thread, which calls `report` after each save.
    pub(crate) fn start(report: impl Fn(Saved) + Send + 'static, mut store: Store) -> anyhow::Result<Self> {
        let (saves, waiting) = mpsc::channel::<Save>();
        let work = move || {
            for save in waiting {
                let round = save.round;
                // A panic would leave the room waiting for an outcome.
                let written = catch_unwind(AssertUnwindSafe(|| write(&mut store, &save)));
                let written = written.unwrap_or_else(|_| Err(anyhow!("writing broke down")));
                let outcome = written.map_err(|error| {
                    warn!(round, "the journal is not written: {error:#}");
                    NotSaved(error)
                });
                drop(save);
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

fn write(store: &mut Store, Save { round, header, arrays, is_fresh }: &Save) -> anyhow::Result<()> {
    let Some(Arrays { model, moments, records }) = arrays else { return store.write(header, None, false) };
    let records = postcard::to_stdvec(records)?;
    let parts = [
        (WEIGHTS, Values::Floats(&model.state.weights)),
        (STATISTICS, Values::Floats(&model.state.statistics)),
        (FIRST, Values::Floats(&moments.first)),
        (SECOND, Values::Floats(&moments.second)),
        (RECORDS, Values::Bytes(&records)),
    ];
    store.write(header, Some(&parts), *is_fresh)?;
    info!(round, weights = digest(&model.state.weights), "on disk");
    Ok(())
}

/// Reads the arrays of a model of this architecture.
///
/// # Errors
/// Fails if they cannot be decoded.
pub(crate) fn read_arrays(contents: &Contents, architecture: Architecture) -> anyhow::Result<Arrays> {
    let state = ModelState { weights: contents.floats(WEIGHTS)?, statistics: contents.floats(STATISTICS)? };
    let moments = Moments { first: contents.floats(FIRST)?, second: contents.floats(SECOND)? };
    let records = postcard::from_bytes(contents.bytes(RECORDS)?)?;
    Ok(Arrays { model: Arc::new(GlobalModel { architecture, state }), moments: Arc::new(moments), records })
}
