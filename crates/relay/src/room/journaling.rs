//! Decides when to save the room, and tracks how much of it is on disk.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;
use unmask_federation::{GlobalModel, Room, SavedRoom};
use unmask_wire::view::JournalView;

use super::lesson::{LessonHead, Opening};
use crate::journal::{Arrays, JournalThread, Save, Saved};

/// A change between rounds is saved after this delay, together with changes that follow.
const CHANGE: Duration = Duration::from_millis(200);

/// The room's side of the journal.
#[derive(Debug)]
pub(super) struct Journaling {
    head: LessonHead,
    /// `None` if this relay keeps no journal.
    thread: Option<JournalThread>,
    most_behind: Duration,
    is_busy: bool,
    /// When to save next, if there is anything to save.
    due: Option<Instant>,
    /// Number of saves until both files are free of deleted data.
    overwrites: u8,
    /// A round that is not on disk yet.
    behind: Option<Behind>,
    /// The model and policy of the arrays saved last; while they are unchanged, the header is enough.
    written: (Weak<GlobalModel>, u32),
    /// The last round on disk.
    round: u32,
    failure: Option<String>,
}

#[derive(Debug)]
struct Behind {
    since: Instant,
    is_being_written: bool,
}

impl Journaling {
    /// Takes over the opened journal; its thread passes the outcome of each save to `report`.
    pub(super) fn start(report: impl Fn(Saved) + Send + 'static, opening: &mut Opening) -> anyhow::Result<Self> {
        let (store, config) = opening.journal.take().unzip();
        let written = opening.last.as_ref().map(|last| (Arc::downgrade(last.room.model()), last.room.policy()));
        Ok(Self {
            head: opening.head.clone(),
            thread: store.map(|store| JournalThread::start(report, store)).transpose()?,
            most_behind: config.unwrap_or_default().most_behind,
            is_busy: false,
            // Save nothing yet: if the room cannot be opened, the saved one must survive.
            due: None,
            overwrites: 0,
            behind: None,
            written: written.unwrap_or_default(),
            round: opening.last.as_ref().map_or(0, |last| last.room.round()),
            failure: None,
        })
    }

    pub(super) fn head(&self) -> &LessonHead {
        &self.head
    }

    /// Notes that a round has closed; `has_updates` if it took any updates.
    pub(super) fn closed(&mut self, now: Instant, has_updates: bool) {
        self.due = Some(now);
        if has_updates {
            // The arrays include the seeds that were used, which must be saved even if the model did not change.
            self.written = (Weak::new(), 0);
        }
        let since = self.behind.take().map_or(now, |behind| behind.since);
        self.behind = Some(Behind { since, is_being_written: false });
    }

    /// Notes any other change. Urgent changes include a client's new ticket, without which the client would be lost.
    pub(super) fn changed(&mut self, now: Instant, is_urgent: bool) {
        let due = if is_urgent { now } else { now + CHANGE };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Schedules two saves after a client was forgotten, because the journal alternates between two files.
    pub(super) fn forgotten(&mut self, now: Instant) {
        (self.due, self.overwrites) = (Some(now), 2);
    }

    /// Until when the next round must wait for the last one to reach the disk. This limits the loss in a power cut to
    /// one round, and saves a copy of the model. There is no wait while saving fails.
    pub(super) fn holds_until(&self) -> Option<Instant> {
        let behind = self.behind.as_ref().filter(|_| self.thread.is_some() && self.failure.is_none())?;
        Some(behind.since + self.most_behind)
    }

    /// When to save next; `None` while a save is running.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.filter(|_| self.thread.is_some() && !self.is_busy)
    }

    /// Whether there is anything to save, now or later.
    pub(super) fn is_unwritten(&self) -> bool {
        self.due.is_some() && self.thread.is_some()
    }

    /// Saves the room; `header` holds everything except the arrays.
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
            self.failure = Some(
                "The lesson is not on the disk: the thread that saves it has stopped. Start the relay again.".into(),
            );
        }
    }

    /// Skips a save that cannot be encoded; the next change may fix it.
    pub(super) fn give_up(&mut self) {
        (self.due, self.behind) = (None, None);
    }

    /// Takes the outcome of a save; returns the line to log, if any.
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
            Err(error) => {
                self.written = (Weak::new(), 0);
                let reason = error.to_string();
                let is_new = self.failure.replace(reason.clone()).as_ref() != Some(&reason);
                is_new.then_some(reason)
            }
        }
    }

    /// The journal's state as the room shows it; `None` without a journal.
    pub(super) fn view(&self) -> Option<JournalView> {
        self.thread.as_ref()?;
        Some(JournalView { round: self.round, failure: self.failure.clone() })
    }
}
