//! Saving the room, resuming a saved one, and collecting its files for download.

use std::{sync::Arc, time::Duration};

use tracing::error;
use unmask_core::ClientId;
use unmask_recording::Forgotten;

use super::{
    Classroom,
    files::LessonFiles,
    lesson::Lesson,
    log::Log,
    roster::{Entry, Roster},
    time::Moment,
};

/// Time for clients to come back before a round begins with those present.
const RETURN: Duration = Duration::from_secs(1);

impl Classroom {
    pub(super) fn write_down(&mut self) {
        match postcard::to_stdvec(&self.lesson()) {
            Ok(header) => self.journaling.write(&self.room, header),
            Err(error) => {
                error!("the lesson cannot be encoded: {error}");
                self.journaling.give_up();
            }
        }
    }

    fn lesson(&self) -> Lesson {
        Lesson {
            head: self.journaling.head().clone(),
            room: self.room.state(),
            initialiser: self.initialiser.record(),
            roster: self.roster.record(),
            door: self.door.record(),
            history: self.history.record(),
            log: self.log.record(),
            sharing: self.sharing.record(),
            accuracies: self.measuring.accuracies().cloned().collect(),
            stage: self.stage.clone(),
            attacks: self.attacks.record(),
            measuring_seconds: self.measuring.budget().as_secs_f64(),
            is_careful: self.stage.is_careful(),
        }
    }

    /// Restores everything except the room, which is restored already.
    ///
    /// # Errors
    /// If the data set cannot be divided as before.
    pub(super) fn restore(&mut self, lesson: Lesson, now: Moment) -> anyhow::Result<()> {
        let Lesson {
            room,
            initialiser,
            roster,
            door,
            history,
            log,
            sharing,
            accuracies,
            stage,
            attacks,
            measuring_seconds,
            is_careful,
            ..
        } = lesson;
        self.sharing.restore(sharing)?;
        self.initialiser.restore(initialiser, room.next_architecture());
        self.roster = Roster::restore(roster, now);
        self.door.restore(door);
        if self.config.approve_first && !self.door.approves() {
            self.say(
                "Newcomers come in at once, as the teacher chose in this lesson; --approve-first is for new lessons.",
            );
        }
        self.stage = stage;
        self.stage.set_careful(is_careful);
        self.end_restored_game();
        self.look_at_beat();
        self.history.restore(history, self.room.update_counts(), room.settings().defence());
        // Lines logged while the journal was opened belong after the restored ones.
        let news: Vec<String> = self.log.lines().map(|line| line.text.clone()).collect();
        self.log = Log::restore(log);
        self.log.set_time(self.now.unix);
        news.into_iter().for_each(|line| self.say(line));
        // Command line flags take precedence.
        let measuring =
            Duration::try_from_secs_f64(measuring_seconds).ok().filter(|_| !self.config.is_given("--test-seconds"));
        self.measuring.restore(accuracies, room.round(), measuring.unwrap_or(self.measuring.budget()));
        self.attacks.restore(attacks, self.config.is_given("--attack-seconds"));
        // A power cut may have kept a withdrawal from reaching the recording on disk.
        let withdrawn: Vec<ClientId> = self.roster.iter().filter(|entry| !entry.may_show()).map(Entry::id).collect();
        withdrawn.into_iter().for_each(|client| self.recorder.hide(client));
        // So may a deletion have. Clients that joined just before it are in the recording and nowhere else: nobody could
        // withdraw them, and others get their numbers.
        let next = u32::try_from(2 * self.config.limits.clients).unwrap_or(u32::MAX);
        self.recorder.forget(Forgotten::known_all(self.roster.strangers(next)));
        if room.is_resting() {
            self.timers.rest(now, self.config.pace.max(RETURN));
        }
        self.say(format!("The relay was started again; the lesson goes on after round {}.", room.round()));
        Ok(())
    }

    pub(super) fn files(&self) -> LessonFiles {
        LessonFiles {
            head: self.journaling.head().clone(),
            view: self.view(),
            model: Arc::clone(self.room.model()),
            round: self.room.state().round(),
            is_encrypted: self.room.seal().is_some(),
            rounds: self.history.rounds(),
            events: self.log.whole(),
        }
    }
}
