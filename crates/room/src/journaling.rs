//! Decides when to save the room, and tracks how much of it is on disk.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use unmask_federation::{GlobalModel, Moments, Room, RoomRecords, SavedRoom};
use unmask_wire::view::JournalView;

use super::{
    lesson::{LessonHead, Opening},
    time::Moment,
};

/// A change between rounds is saved after this delay, together with changes that follow.
const CHANGE: Duration = Duration::from_millis(200);

/// Pause before another attempt to write.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps the lesson where a restart finds it. Dropping it waits until all pending states are written.
pub trait Journal: Send {
    /// Writes a state without holding the room up; its outcome comes back as [`Input::Journaled`](crate::Input). Returns
    /// false if nothing can be written any longer.
    fn write(&mut self, save: Save) -> bool;
}

/// A lesson's large parts. They stay alive until they are written; a round that closes in the meantime allocates new
/// weights.
#[derive(Debug, Clone)]
pub struct Arrays {
    pub model: Arc<GlobalModel>,
    pub moments: Arc<Moments>,
    pub records: RoomRecords,
}

/// A state to write. Without arrays, those of the last save are still valid.
#[derive(Debug)]
pub struct Save {
    /// The last round in it.
    pub round: u32,
    /// Everything else, encoded by the room.
    pub header: Vec<u8>,
    pub arrays: Option<Arrays>,
    /// Whether something was deleted, so that no byte of the file that this replaces may stay.
    pub is_fresh: bool,
    /// Whether a student's data is being deleted, so that files of earlier lessons must go too.
    pub deletes_set_aside: bool,
}

#[derive(Debug)]
pub struct Saved {
    /// The last round in it.
    pub round: u32,
    pub outcome: Result<(), NotSaved>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "The lesson is not on the disk: {0:#}. The lesson continues. Free some space; the relay tries again every five \
     seconds."
)]
pub struct NotSaved(pub anyhow::Error);

/// The room's side of the journal.
pub(super) struct Journaling {
    head: LessonHead,
    /// `None` if no journal is kept.
    journal: Option<Box<dyn Journal>>,
    most_behind: Duration,
    is_busy: bool,
    /// When to save next, if there is anything to save.
    due: Option<Moment>,
    /// Number of saves that succeeded.
    saves: u64,
    /// Number of saves after which both files are free of deleted data.
    clean_after: u64,
    /// The same, if a student asked for it since the room opened.
    deleted_after: u64,
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
    since: Moment,
    is_being_written: bool,
}

impl Journaling {
    /// Takes over the journal. A round may begin while the last one has not been written for `most_behind`.
    pub(super) fn new(journal: Option<Box<dyn Journal>>, most_behind: Duration, opening: &Opening) -> Self {
        let written = opening.last.as_ref().map(|last| (Arc::downgrade(last.room.model()), last.room.policy()));
        Self {
            head: opening.head.clone(),
            journal,
            most_behind,
            is_busy: false,
            // Save nothing yet: if the room cannot be opened, the saved one must survive.
            due: None,
            saves: 0,
            // The older file may hold what was deleted just before the last room ended.
            clean_after: opening.last.is_some().into(),
            deleted_after: 0,
            behind: None,
            written: written.unwrap_or_default(),
            round: opening.last.as_ref().map_or(0, |last| last.room.round()),
            failure: None,
        }
    }

    pub(super) fn head(&self) -> &LessonHead {
        &self.head
    }

    /// Notes that a round has closed; `has_updates` if it took any updates.
    pub(super) fn closed(&mut self, now: Moment, has_updates: bool) {
        self.due = Some(now);
        if has_updates {
            // The arrays include the seeds that were used, which must be saved even if the model did not change.
            self.written = (Weak::new(), 0);
        }
        let since = self.behind.take().map_or(now, |behind| behind.since);
        self.behind = Some(Behind { since, is_being_written: false });
    }

    /// Notes any other change. Urgent changes include a client's new ticket, without which the client would be lost.
    pub(super) fn changed(&mut self, now: Moment, is_urgent: bool) {
        let due = if is_urgent { now } else { now + CHANGE };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Schedules two saves after a client was forgotten, because the journal has two files. A save that is running
    /// does not count.
    pub(super) fn forgotten(&mut self) {
        let after = self.saves + u64::from(self.is_busy) + 2;
        (self.due, self.clean_after, self.deleted_after) = (Some(Moment::START), after, after);
    }

    /// Number of saves after which nothing is left of what is deleted now.
    pub(super) fn clean_after(&self) -> u64 {
        self.clean_after
    }

    /// Whether nothing is left of what was deleted when [`clean_after`](Self::clean_after) was this number.
    pub(super) fn is_clean(&self, clean_after: u64) -> bool {
        self.journal.is_none() || self.saves >= clean_after
    }

    /// Whether the lesson is saved.
    pub(super) fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Whether saving fails.
    pub(super) fn is_failing(&self) -> bool {
        self.failure.is_some()
    }

    /// Number of saves to come that replace a whole file.
    fn overwrites(&self) -> u8 {
        u8::try_from(self.clean_after.saturating_sub(self.saves)).unwrap_or(u8::MAX)
    }

    /// Until when the next round must wait for the last one to reach the disk. This limits the loss in a power cut to
    /// one round, and saves a copy of the model. There is no wait while saving fails.
    pub(super) fn holds_until(&self) -> Option<Moment> {
        let behind = self.behind.as_ref().filter(|_| self.journal.is_some() && self.failure.is_none())?;
        Some(behind.since + self.most_behind)
    }

    /// When to save next; `None` while a save is running.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due.filter(|_| self.journal.is_some() && !self.is_busy)
    }

    /// Number of saves that a room must make before it ends.
    pub(super) fn unwritten(&mut self) -> u8 {
        if self.is_busy {
            // Nobody will hear what becomes of the running save, so everything in it is saved again.
            (self.written, self.due) = ((Weak::new(), 0), Some(Moment::START));
        }
        if self.journal.is_some() { self.overwrites().max(self.due.is_some().into()) } else { 0 }
    }

    /// Saves the room; `header` holds everything except the arrays.
    pub(super) fn write(&mut self, room: &Room, header: Vec<u8>) {
        self.due = None;
        // Arrays go into the older file, so that the next save reaches the other one.
        let (is_fresh, deletes_set_aside) = (self.overwrites() > 0, self.saves < self.deleted_after);
        let Some(journal) = &mut self.journal else { return };
        if let Some(behind) = &mut self.behind {
            behind.is_being_written = true;
        }
        let is_written = std::ptr::eq(self.written.0.as_ptr(), Arc::as_ptr(room.model()));
        let arrays = (is_fresh || !is_written || self.written.1 != room.policy()).then(|| {
            let SavedRoom { model, moments, records, .. } = room.saved();
            Arrays { model, moments, records }
        });
        self.written = (Arc::downgrade(room.model()), room.policy());
        self.is_busy = journal.write(Save { round: room.state().round(), header, arrays, is_fresh, deletes_set_aside });
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
        self.failure = Some("The lesson is not on the disk: it cannot be encoded.".to_owned());
    }

    /// Takes the outcome of a save; returns the line to log, if any.
    pub(super) fn saved(&mut self, now: Moment, Saved { round, outcome }: Saved) -> Option<String> {
        self.is_busy = false;
        if self.behind.as_ref().is_some_and(|behind| behind.is_being_written) {
            self.behind = None;
        }
        match outcome {
            Ok(()) => {
                self.round = round;
                self.saves += 1;
                if self.overwrites() > 0 {
                    self.due = Some(Moment::START);
                }
                let was_failing = self.failure.take().is_some();
                was_failing.then(|| format!("The lesson is on the disk again, up to round {round}."))
            }
            Err(error) => {
                self.written = (Weak::new(), 0);
                let again = now + AGAIN;
                self.due = Some(self.due.map_or(again, |before| before.min(again)));
                let reason = error.to_string();
                let is_new = self.failure.replace(reason.clone()).as_ref() != Some(&reason);
                is_new.then_some(reason)
            }
        }
    }

    /// The journal's state as the room shows it; `None` without a journal.
    pub(super) fn view(&self) -> Option<JournalView> {
        self.journal.as_ref()?;
        Some(JournalView { round: self.round, failure: self.failure.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use anyhow::anyhow;
    use unmask_core::RoundSettings;

    use super::*;
    use crate::config::RoomConfig;

    /// What each save held: whether it had the arrays, and whether it replaced a whole file.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<(bool, bool)>>>);

    impl Paper {
        fn saves(&self) -> Vec<(bool, bool)> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }
    }

    impl Journal for Paper {
        fn write(&mut self, save: Save) -> bool {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((save.arrays.is_some(), save.is_fresh));
            true
        }
    }

    const BEHIND: Duration = Duration::from_secs(7);

    fn journaling(paper: &Paper) -> (Journaling, Room) {
        let config = RoomConfig::default();
        let architecture = config.architecture;
        let model = GlobalModel { architecture, state: architecture.initial(1) };
        let settings = RoundSettings::new(config.defence, config.rule, 1, config.optimiser).unwrap();
        let opening = Opening::new(&config, [0; 16], 0);
        (Journaling::new(Some(Box::new(paper.clone())), BEHIND, &opening), Room::new(model, settings))
    }

    fn at(seconds: u64) -> Moment {
        Moment::after(Duration::from_secs(seconds))
    }

    fn saved(round: u32) -> Saved {
        Saved { round, outcome: Ok(()) }
    }

    #[test]
    fn a_round_holds_the_next_one_until_it_is_on_the_disk() {
        let paper = Paper::default();
        let (mut journaling, room) = journaling(&paper);
        assert_eq!((journaling.holds_until(), journaling.next_due()), (None, None));
        journaling.closed(at(10), true);
        journaling.closed(at(12), true);
        assert_eq!((journaling.holds_until(), journaling.next_due()), (Some(at(17)), Some(at(12))));
        journaling.write(&room, Vec::new());
        assert_eq!((journaling.holds_until(), journaling.next_due()), (Some(at(17)), None));
        assert_eq!(journaling.saved(at(13), saved(2)), None);
        assert_eq!((journaling.holds_until(), journaling.next_due()), (None, None));
        assert_eq!(journaling.view(), Some(JournalView { round: 2, failure: None }));
    }

    #[test]
    fn arrays_are_written_when_a_round_had_updates() {
        let paper = Paper::default();
        let (mut journaling, room) = journaling(&paper);
        let mut save = |has_updates: Option<bool>| {
            match has_updates {
                Some(has_updates) => journaling.closed(at(1), has_updates),
                None => journaling.changed(at(1), false),
            }
            journaling.write(&room, Vec::new());
            journaling.saved(at(1), saved(1));
        };
        [None, None, Some(false), Some(true), None].into_iter().for_each(&mut save);
        assert_eq!(paper.saves(), [true, false, false, true, false].map(|has_arrays| (has_arrays, false)));
    }

    #[test]
    fn what_is_deleted_leaves_both_files() {
        let paper = Paper::default();
        let (mut journaling, room) = journaling(&paper);
        journaling.changed(at(1), true);
        journaling.write(&room, Vec::new());
        journaling.forgotten();
        let clean_after = journaling.clean_after();
        let mut left = Vec::new();
        for _ in 0..3 {
            journaling.saved(at(1), saved(0));
            left.push((journaling.is_clean(clean_after), journaling.next_due().is_some()));
            journaling.write(&room, Vec::new());
        }
        assert_eq!(left, [(false, true), (false, true), (true, false)]);
        assert_eq!(paper.saves(), [(true, false), (true, true), (true, true), (false, false)]);
    }

    #[test]
    fn a_failing_disk_holds_nobody_and_is_tried_again() {
        let paper = Paper::default();
        let (mut journaling, room) = journaling(&paper);
        let full = || Saved { round: 1, outcome: Err(NotSaved(anyhow!("no space left"))) };
        journaling.closed(at(10), true);
        journaling.write(&room, Vec::new());
        assert!(journaling.saved(at(11), full()).is_some_and(|line| line.contains("no space left")));
        assert!(journaling.is_failing());
        assert_eq!((journaling.holds_until(), journaling.next_due()), (None, Some(at(11) + AGAIN)));
        journaling.closed(at(12), true);
        assert_eq!(journaling.holds_until(), None);
        journaling.write(&room, Vec::new());
        assert_eq!(journaling.saved(at(13), full()), None, "it is said once");
        assert!(journaling.view().is_some_and(|view| view.failure.is_some() && view.round == 0));
        journaling.write(&room, Vec::new());
        assert!(journaling.saved(at(20), saved(2)).is_some_and(|line| line.contains("up to round 2")));
        assert!(!journaling.is_failing());
        assert_eq!(journaling.view(), Some(JournalView { round: 2, failure: None }));
    }
}
