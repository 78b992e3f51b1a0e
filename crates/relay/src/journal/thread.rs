//! The thread that writes: the room never waits for the disk.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use anyhow::Context;
use tracing::{info, warn};
use unmask_core::{Architecture, ModelState};
use unmask_federation::{GlobalModel, Moments, RoomRecords};

use super::{
    digest::digest,
    store::{Contents, Store, Values},
};

const WEIGHTS: &str = "weights";
const STATISTICS: &str = "statistics";
const FIRST: &str = "first moments";
const SECOND: &str = "second moments";
const RECORDS: &str = "records";

/// A lesson's large parts. Kept alive until they are written: a round that closes meanwhile writes its new weights
/// elsewhere.
#[derive(Debug)]
pub(crate) struct Arrays {
    pub(crate) model: Arc<GlobalModel>,
    pub(crate) moments: Arc<Moments>,
    pub(crate) records: RoomRecords,
}

/// What to write; without arrays those of the last time are still right.
#[derive(Debug)]
pub(crate) struct Save {
    /// The last round in it.
    pub(crate) round: u32,
    /// Everything else, as the room encodes it.
    pub(crate) header: Vec<u8>,
    pub(crate) arrays: Option<Arrays>,
}

/// What became of a [`Save`].
#[derive(Debug)]
pub(crate) struct Saved {
    /// The last round in it.
    pub(crate) round: u32,
    /// Why it is not on the disk, in words with the remedy.
    pub(crate) outcome: Result<(), String>,
}

/// The writing thread. Dropping this waits until everything handed in is written.
#[derive(Debug)]
pub(crate) struct JournalThread {
    saves: Option<mpsc::Sender<Save>>,
    thread: Option<JoinHandle<()>>,
}

impl JournalThread {
    /// Starts the thread, which tells `report` what became of each save.
    pub(crate) fn start(report: impl Fn(Saved) + Send + 'static, mut store: Store) -> anyhow::Result<Self> {
        let (saves, waiting) = mpsc::channel::<Save>();
        let work = move || {
            // Whoever waits for the news may be gone: what was handed in is written all the same.
            for save in waiting {
                let round = save.round;
                let outcome = write(&mut store, &save).map_err(|error| {
                    warn!(round, "the journal is not written: {error:#}");
                    format!(
                        "The lesson is not on the disk: {error:#}. It goes on; make room there, and the relay tries again \
                         after the next round."
                    )
                });
                drop(save);
                report(Saved { round, outcome });
            }
        };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(work);
        Ok(Self { saves: Some(saves), thread: Some(thread.context("no thread for the journal")?) })
    }

    /// Hands in what to write; false if the thread is gone.
    pub(crate) fn write(&self, save: Save) -> bool {
        self.saves.as_ref().is_some_and(|saves| saves.send(save).is_ok())
    }
}

impl Drop for JournalThread {
    fn drop(&mut self) {
        self.saves = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn write(store: &mut Store, Save { round, header, arrays }: &Save) -> anyhow::Result<()> {
    let Some(Arrays { model, moments, records }) = arrays else { return store.write(header, None) };
    let records = postcard::to_stdvec(records)?;
    let parts = [
        (WEIGHTS, Values::Floats(&model.state.weights)),
        (STATISTICS, Values::Floats(&model.state.statistics)),
        (FIRST, Values::Floats(&moments.first)),
        (SECOND, Values::Floats(&moments.second)),
        (RECORDS, Values::Bytes(&records)),
    ];
    store.write(header, Some(&parts))?;
    info!(round, weights = digest(&model.state.weights), "on disk");
    Ok(())
}

/// The arrays as they were written, of a model of this architecture.
///
/// # Errors
/// If they cannot be understood.
pub(crate) fn read_arrays(contents: &Contents, architecture: Architecture) -> anyhow::Result<Arrays> {
    let state = ModelState { weights: contents.floats(WEIGHTS)?, statistics: contents.floats(STATISTICS)? };
    let moments = Moments { first: contents.floats(FIRST)?, second: contents.floats(SECOND)? };
    let records = postcard::from_bytes(contents.bytes(RECORDS)?)?;
    Ok(Arrays { model: Arc::new(GlobalModel { architecture, state }), moments: Arc::new(moments), records })
}
