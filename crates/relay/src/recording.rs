//! The recording of the lesson: what the class was shown, a state a second, for whoever plays it later.
//!
//! The room hands in its states and what is to be forgotten, in their order; a thread of its own keeps them, in memory and,
//! where there is a journal, in a file beside it. So a state from before somebody withdrew can never follow the withdrawal.

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
use unmask_recording::{Forgotten, MAX_BYTES, Recording, addresses};
use unmask_wire::view::RoomView;

pub(crate) use self::file::RecordingFile;
use self::thread::{Order, RecordingThread};
use crate::attacks::Pictures;

/// Shortest time between two states of a recording that has most of its room left.
const INTERVAL: Duration = Duration::from_secs(1);
/// Each time another such part of the room is used, states are twice as far apart: so a long lesson fits.
const PARTS: usize = 8;
/// States that may wait for the thread; more are passed over.
const MAX_WAITING: usize = 8;
/// Between the last state before a relay was stopped and the first one after.
const BREAK: u64 = 1000;

/// Where a recording is kept.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Nowhere: none is made.
    Nowhere,
    /// In memory alone.
    InMemory,
    /// In this folder too.
    InFolder(PathBuf),
}

/// The recording in the room.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Where this relay makes one.
    thread: Option<RecordingThread>,
    /// Bytes that the recording has.
    used: Arc<AtomicUsize>,
    /// One for each state that waits, and this.
    waiting: Arc<()>,
    began: Instant,
    /// Milliseconds of recording from before this relay was started.
    offset: u64,
    /// When the last state was handed in.
    last: Option<Instant>,
    /// When the next one is due, where anything has changed.
    due: Option<Instant>,
    /// Addresses of the pictures in the last state, which the thread has.
    handed: Vec<String>,
    /// Clients of whom a picture or a result of an attack was handed in.
    seen: BTreeSet<ClientId>,
    /// Whether there may be more of them, from before this relay was started.
    may_have_more: bool,
}

impl Recorder {
    /// Goes on with the recording of the lesson that began then, or begins one; what was wrong with the one that was there,
    /// in a sentence. The thread tells `report` what the class should know.
    ///
    /// # Errors
    /// If the operating system gives no thread.
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

    /// Something in the room has changed, and is recorded in time.
    pub(crate) fn changed(&mut self, now: Instant) {
        if self.thread.is_some() && self.due.is_none() {
            self.due = Some(self.last.map_or(now, |last| now.max(last + self.interval())));
        }
    }

    /// When the next state is to be recorded, if anything has changed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due
    }

    /// Records the room as it is published, if that is due.
    pub(crate) fn record_if_due(&mut self, now: Instant, view: &Arc<RoomView>, pictures: &Pictures) {
        if self.due.is_some_and(|due| due <= now) {
            self.record(now, view, pictures);
        }
    }

    /// Records the last state of a room that ends, if it is not recorded yet.
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
        // Here, where they cannot have been forgotten since the view was made.
        let pictures = new.filter_map(|address| Some(((*address).to_owned(), pictures.get(address)?))).collect();
        let handed = shown.into_iter().map(str::to_owned).collect();
        self.seen.extend(addresses(view).map(|shown| shown.client));
        self.seen.extend(view.attacks.iter().map(|card| card.client));
        self.seen.extend(view.label.iter().map(|label| label.client));
        self.seen.extend(view.membership.iter().map(|told| told.client));
        thread.hand(Order::State { at, view: Arc::clone(view), pictures, _waits: Arc::clone(&self.waiting) });
        self.handed = handed;
    }

    /// Takes out pictures of a client and what attacks found, where it was ever shown: anybody may come and not agree.
    pub(crate) fn hide(&mut self, client: ClientId) {
        if self.seen.remove(&client) || self.may_have_more {
            self.forget(Forgotten::shown(client));
        }
    }

    /// Takes out the own picture of a client, where it may have been shown.
    pub(crate) fn hide_original(&self, client: ClientId) {
        if self.seen.contains(&client) || self.may_have_more {
            self.forget(Forgotten::original(client));
        }
    }

    /// Takes out what somebody withdrew, from all states so far.
    pub(crate) fn forget(&self, forgotten: Forgotten) {
        if let Some(thread) = &self.thread {
            thread.hand(Order::Forget(forgotten));
        }
    }

    /// Gives the file as it is now, packed; drops `reply` where none is made.
    pub(crate) fn give(&self, reply: oneshot::Sender<Result<Vec<u8>, String>>) {
        if let Some(thread) = &self.thread {
            thread.hand(Order::Give(reply));
        }
    }

    fn interval(&self) -> Duration {
        let part = PARTS * self.used.load(Ordering::Relaxed) / MAX_BYTES;
        INTERVAL * (1 << part.min(PARTS))
    }
}
