//! When the room is written down, and how far it is on the disk.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;
use unmask_federation::{GlobalModel, Room, SavedRoom};
use unmask_wire::view::JournalView;

use super::lesson::{LessonHead, Opening};
use crate::journal::{Arrays, JournalThread, Save, Saved};

/// What happens between rounds is written down together with what follows shortly after.
const CHANGE: Duration = Duration::from_millis(200);

/// The journal in the room.
#[derive(Debug)]
pub(super) struct Journaling {
    /// Which lesson is written down.
    head: LessonHead,
    /// Where this relay keeps a journal.
    thread: Option<JournalThread>,
    most_behind: Duration,
    is_busy: bool,
    /// When there is something to write.
    due: Option<Instant>,
    /// Writes to come until nothing is left in either file of what was there before.
    overwrites: u8,
    /// A round that is not on the disk yet.
    behind: Option<Behind>,
    /// The model whose arrays were written last, and the policy: with the same ones the rest is enough.
    written: (Weak<GlobalModel>, u32),
    /// The last round on the disk.
    round: u32,
    failure: Option<String>,
}

#[derive(Debug)]
struct Behind {
    since: Instant,
    is_being_written: bool,
}

impl Journaling {
    /// Takes the journal that was opened; its thread tells `report` what became of each save.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(super) fn start(report: impl Fn(Saved) + Send + 'static, opening: &mut Opening) -> anyhow::Result<Self> {
        let (store, config) = opening.journal.take().unzip();
        let written = opening.last.as_ref().map(|last| (Arc::downgrade(last.room.model()), last.room.policy()));
        Ok(Self {
            head: opening.head.clone(),
            thread: store.map(|store| JournalThread::start(report, store)).transpose()?,
            most_behind: config.unwrap_or_default().most_behind,
            is_busy: false,
            // A room that cannot be opened must not be written over the one that was.
            due: None,
            overwrites: 0,
            behind: None,
            written: written.unwrap_or_default(),
            round: opening.last.as_ref().map_or(0, |last| last.room.round()),
            failure: None,
        })
    }

    /// Which lesson it is.
    pub(super) fn head(&self) -> &LessonHead {
        &self.head
    }

    /// A round has closed; `has_updates` where any were taken.
    pub(super) fn closed(&mut self, now: Instant, has_updates: bool) {
        self.due = Some(now);
        if has_updates {
            // Seeds were used, even where the model stays as it was.
            self.written = (Weak::new(), 0);
        }
        let since = self.behind.take().map_or(now, |behind| behind.since);
        self.behind = Some(Behind { since, is_being_written: false });
    }

    /// Something else has changed. It is urgent where a client could be lost with it: it holds a new ticket.
    pub(super) fn changed(&mut self, now: Instant, is_urgent: bool) {
        let due = if is_urgent { now } else { now + CHANGE };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Somebody is to be forgotten: both files, which take turns, are written over.
    pub(super) fn forgotten(&mut self, now: Instant) {
        (self.due, self.overwrites) = (Some(now), 2);
    }

    /// Until when the next round waits for the last one to be on the disk: so that a power cut costs one round at most,
    /// and no model is copied for the journal. Not while nothing can be written.
    pub(super) fn holds_until(&self) -> Option<Instant> {
        let behind = self.behind.as_ref().filter(|_| self.thread.is_some() && self.failure.is_none())?;
        Some(behind.since + self.most_behind)
    }

    /// When there is something to write next, and nothing is being written.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.filter(|_| self.thread.is_some() && !self.is_busy)
    }

    /// Whether there is something to write, now or later.
    pub(super) fn is_unwritten(&self) -> bool {
        self.due.is_some() && self.thread.is_some()
    }

    /// Writes the room down, with `header` for everything that is not in its arrays.
    pub(super) fn write(&mut self, room: &Room, header: Vec<u8>) {
        self.due = None;
        self.overwrites = self.overwrites.saturating_sub(1);
        let Some(thread) = &self.thread else { return };
        if let Some(behind) = &mut self.behind {
            behind.is_being_written = true;
        }
        let is_written = std::ptr::eq(self.written.0.as_ptr(), Arc::as_ptr(room.model()));
        let arrays = (!is_written || self.written.1 != room.policy()).then(|| {
            let SavedRoom { model, moments, records, .. } = room.saved();
            Arrays { model, moments, records }
        });
        self.written = (Arc::downgrade(room.model()), room.policy());
        self.is_busy = thread.write(Save { round: room.state().round(), header, arrays });
        if !self.is_busy {
            self.behind = None;
            self.failure =
                Some("The lesson is not on the disk: what writes it has broken down. Start the relay again.".into());
        }
    }

    /// There is something that cannot be written: the next change may help.
    pub(super) fn give_up(&mut self) {
        (self.due, self.behind) = (None, None);
    }

    /// Takes the news that something was written, or was not; what there is to say of it.
    pub(super) fn saved(&mut self, Saved { round, outcome }: Saved) -> Option<String> {
        self.is_busy = false;
        if self.behind.as_ref().is_some_and(|behind| behind.is_being_written) {
            self.behind = None;
        }
        match outcome {
            Ok(()) => {
                self.round = round;
                if self.overwrites > 0 {
                    self.due = Some(Instant::now());
                }
                let was_failing = self.failure.take().is_some();
                was_failing.then(|| format!("The lesson is on the disk again, up to round {round}."))
            }
            Err(reason) => {
                self.written = (Weak::new(), 0);
                let is_new = self.failure.replace(reason.clone()).as_ref() != Some(&reason);
                is_new.then_some(reason)
            }
        }
    }

    /// How far the room is on the disk; `None` where it is not to be.
    pub(super) fn view(&self) -> Option<JournalView> {
        self.thread.as_ref()?;
        Some(JournalView { round: self.round, failure: self.failure.clone() })
    }
}
