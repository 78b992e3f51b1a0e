//! The recording of the lesson: what the class saw, one state a second, for later playback.
//!
//! The room hands states and withdrawals to a thread in order. The thread keeps the recording in memory and, if there
//! is a journal, also in a file. A state from before a withdrawal can therefore never be recorded after it.

mod file;
mod thread;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use unmask_core::ClientId;
use unmask_recording::{Forgotten, MAX_BYTES, Recording, RecordingError, addresses};
use unmask_wire::view::RoomView;

pub(crate) use self::file::RecordingFile;
use self::thread::{Order, RecordingThread};
use crate::attacks::Pictures;

/// Shortest time between two states while the recording is less than 1 / [`PARTS`] full.
const INTERVAL: Duration = Duration::from_secs(1);
/// The interval doubles each time another 1 / `PARTS` of the space is used, so that a long lesson fits.
const PARTS: usize = 8;
/// Upper limit of states queued for the thread; further states are skipped.
const MAX_WAITING: usize = 8;
/// Milliseconds between the last state before a restart of the relay and the first one after it.
const BREAK: u64 = 1000;

#[derive(Debug)]
pub(crate) enum Kept {
    /// No recording is made.
    Nowhere,
    InMemory,
    /// In memory and in this folder.
    InFolder(PathBuf),
}

/// The room's side of the recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// `None` if this relay does not record.
    thread: Option<RecordingThread>,
    /// Size of the recording in bytes.
    used: Arc<AtomicUsize>,
    /// Each queued state holds a clone, so the reference count gives the length of the queue.
    waiting: Arc<()>,
    began: Instant,
    /// Milliseconds recorded before this relay was started.
    offset: u64,
    last: Option<Instant>,
    due: Option<Instant>,
    /// Addresses of the pictures in the last state, which the thread already has.
    handed: Vec<String>,
    /// Clients with a picture or an attack result in the recording.
    seen: BTreeSet<ClientId>,
    /// Whether the recording may show other clients, from before the relay was restarted.
    may_have_more: bool,
}

impl Recorder {
    /// Continues the recording of the lesson that began at `began`, or starts one. Also returns a sentence about any
    /// problem with the existing recording. The thread passes lines for the class to `report`.
    pub(crate) fn start(
        report: impl Fn(String) + Send + 'static,
        kept: Kept,
        began: u64,
        now: Instant,
    ) -> anyhow::Result<(Self, Option<String>)> {
        let used = Arc::<AtomicUsize>::default();
        let is_on = !matches!(kept, Kept::Nowhere);
        let (file, found, problem) = match kept {
            Kept::InFolder(folder) => {
                let (file, found, problem) = RecordingFile::open(folder, began);
                (Some(file), found, problem)
            }
            Kept::Nowhere | Kept::InMemory => (None, None, None),
        };
        let offset = found.as_ref().map_or(0, |found| found.last_at() + BREAK);
        let may_have_more = found.is_some();
        let start = || {
            let recording = found.unwrap_or_else(|| Recording::new(env!("CARGO_PKG_VERSION"), began));
            RecordingThread::start(report, recording, file, Arc::clone(&used))
        };
        let thread = is_on.then(start).transpose()?;
        let recorder = Self {
            thread,
            used,
            waiting: Arc::new(()),
            began: now,
            offset,
            last: None,
            due: None,
            handed: Vec::new(),
            seen: BTreeSet::new(),
            may_have_more,
        };
        Ok((recorder, problem))
    }

    /// Notes a change in the room; the next state becomes due after the interval.
    pub(crate) fn changed(&mut self, now: Instant) {
        if self.thread.is_some() && self.due.is_none() {
            self.due = Some(self.last.map_or(now, |last| now.max(last + self.interval())));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn record_if_due(&mut self, now: Instant, view: &Arc<RoomView>, pictures: &Pictures) {
        if self.due.is_some_and(|due| due <= now) {
            self.record(now, view, pictures);
        }
    }

    /// Records the last state of a room that ends, if anything has changed since.
    pub(crate) fn record_last(&mut self, now: Instant, view: &Arc<RoomView>, pictures: &Pictures) {
        if self.due.is_some() {
            self.record(now, view, pictures);
        }
    }

    fn record(&mut self, now: Instant, view: &Arc<RoomView>, pictures: &Pictures) {
        (self.due, self.last) = (None, Some(now));
        let Some(thread) = &self.thread else { return };
        if Arc::strong_count(&self.waiting) > MAX_WAITING {
            return;
        }
        let at = self.offset + u64::try_from((now - self.began).as_millis()).unwrap_or(u64::MAX);
        let shown: Vec<&str> = addresses(view).map(|shown| shown.address).collect();
        let new = shown.iter().filter(|address| !self.handed.iter().any(|handed| handed == *address));
        // Fetch the pictures now: none can have been forgotten since the view was made.
        let pictures = new.filter_map(|address| Some(((*address).to_owned(), pictures.get(address)?))).collect();
        let handed = shown.into_iter().map(str::to_owned).collect();
        self.seen.extend(addresses(view).map(|shown| shown.client));
        self.seen.extend(view.attacks.iter().map(|card| card.client));
        self.seen.extend(view.label.iter().map(|label| label.client));
        self.seen.extend(view.membership.iter().map(|card| card.client));
        thread.hand(Order::State { at, view: Arc::clone(view), pictures, _waits: Arc::clone(&self.waiting) });
        self.handed = handed;
    }

    /// Removes a client's pictures and attack results, if it was ever shown. Other clients are skipped, because anyone
    /// can join without consenting.
    pub(crate) fn hide(&mut self, client: ClientId) {
        if self.seen.remove(&client) || self.may_have_more {
            self.forget(Forgotten::shown(client));
        }
    }

    /// Removes the picture of its own that a client showed, if it may be in the recording.
    pub(crate) fn hide_original(&self, client: ClientId) {
        if self.seen.contains(&client) || self.may_have_more {
            self.forget(Forgotten::original(client));
        }
    }

    pub(crate) fn forget(&self, forgotten: Forgotten) {
        if let Some(thread) = &self.thread {
            thread.hand(Order::Forget(forgotten));
        }
    }

    /// Sends the packed file as it is now; drops `reply` if there is no recording.
    pub(crate) fn give(&self, reply: oneshot::Sender<Result<Vec<u8>, RecordingError>>) {
        if let Some(thread) = &self.thread {
            thread.hand(Order::Give(reply));
        }
    }

    fn interval(&self) -> Duration {
        let part = PARTS * self.used.load(Ordering::Relaxed) / MAX_BYTES;
        INTERVAL * (1 << part.min(PARTS))
    }
}
