//! Times at which the room acts on its own.

use std::time::Duration;

use unmask_federation::Event;

use super::{clock::RoundClock, recent::Recent, time::Moment};

/// A round that goes on for this long after an answer waits for those who have not answered.
const WHILE: Duration = Duration::from_secs(1);

/// Upper limit of rounds that begin while an answer is quick.
const ROUNDS: usize = 64;

/// The running round's clock and deadline, and the pause between rounds.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: RoundClock,
    /// When the running round has outlasted its last answer.
    waited: Option<(Moment, Event)>,
    /// When the rounds of the last seconds began.
    began: Recent<(u32, u32, Moment)>,
    deadline: Option<(Moment, Event)>,
    rest: Option<Moment>,
    /// The next round begins no sooner than this.
    hold: Option<Moment>,
}

impl Timers {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            clock: RoundClock::start(now),
            waited: None,
            began: Recent::new(ROUNDS),
            deadline: None,
            rest: None,
            hold: None,
        }
    }

    /// Starts the clock of a round that began or was given a new time limit.
    pub(crate) fn begin(&mut self, now: Moment, time: Duration, round: u32, policy: u32) {
        self.clock = RoundClock::start(now);
        self.began.push((round, policy, now));
        self.deadline = Some((now + time, Event::Deadline { round, policy }));
        self.waited = Some((now + WHILE, Event::Waited { round, policy }));
    }

    /// Whether an answer to this round that arrives now is one that rounds wait for.
    pub(crate) fn is_quick(&self, now: Moment, round: u32, policy: u32) -> bool {
        let began = self.began.iter().find(|(number, under, _)| (*number, *under) == (round, policy));
        began.is_some_and(|(.., began)| now - *began <= RoundClock::LEAST)
    }

    pub(crate) fn answered(&mut self, now: Moment) {
        self.clock.answered(now);
        if let Some((_, Event::Deadline { round, policy })) = self.deadline {
            self.waited = Some((now + WHILE, Event::Waited { round, policy }));
        }
    }

    /// Shortens the deadline to [`RoundClock::enough`], because enough clients of this round have answered.
    pub(crate) fn quorum(&mut self, round: u32, policy: u32, awaited: bool) {
        if let Some((at, Event::Deadline { round: armed, policy: under })) = &mut self.deadline
            && (*armed, *under) == (round, policy)
        {
            *at = self.clock.enough(awaited).min(*at);
        }
    }

    pub(crate) fn end(&mut self) {
        (self.deadline, self.waited) = (None, None);
    }

    /// Schedules the next round after `pause`.
    pub(crate) fn rest(&mut self, now: Moment, pause: Duration) {
        self.rest = Some(now + pause);
    }

    /// Extends the pause at least until this time; `None` lifts the extension.
    pub(crate) fn hold(&mut self, until: Option<Moment>) {
        self.hold = until;
    }

    fn rest_ends(&self) -> Option<Moment> {
        self.rest.map(|at| at.max(self.hold.unwrap_or(at)))
    }

    /// The latest time at which the running round ends.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        self.deadline.as_ref().map(|(at, _)| *at)
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        [self.deadline(), self.waited.as_ref().map(|(at, _)| *at), self.rest_ends()].into_iter().flatten().min()
    }

    /// Returns the event that says that the round has outlasted its last answer, once it has.
    pub(crate) fn take_waited(&mut self, now: Moment) -> Option<Event> {
        self.waited.take_if(|(at, _)| *at <= now).map(|(_, event)| event)
    }

    /// Returns the deadline's event once the deadline has passed.
    pub(crate) fn take_deadline(&mut self, now: Moment) -> Option<Event> {
        self.deadline.take_if(|(at, _)| *at <= now).map(|(_, event)| event)
    }

    /// Returns the event that begins the next round once the pause is over.
    pub(crate) fn take_rest(&mut self, now: Moment) -> Option<Event> {
        let is_over = self.rest_ends().is_some_and(|at| at <= now);
        self.rest.take_if(|_| is_over).map(|_| Event::Begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_pause_lasts_as_long_as_it_is_held() {
        let now = Moment::START;
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut timers = Timers::new(now);
        timers.rest(now, Duration::from_secs(1));
        timers.hold(Some(at(5)));
        assert_eq!((timers.next_due(), timers.take_rest(at(2)).is_none()), (Some(at(5)), true));
        timers.hold(None);
        assert_eq!(timers.next_due(), Some(at(1)));
        assert!(matches!(timers.take_rest(at(2)), Some(Event::Begin)));
        timers.hold(Some(at(5)));
        assert_eq!(timers.next_due(), None);
    }

    #[test]
    fn quorum_brings_the_deadline_of_its_own_round_forward() {
        let began = Moment::START;
        let mut timers = Timers::new(began);
        timers.begin(began, 60 * SECOND, 4, 2);
        timers.answered(began + 10 * SECOND);
        timers.quorum(3, 2, true);
        assert_eq!(timers.deadline(), Some(began + 60 * SECOND));
        timers.quorum(4, 2, true);
        assert_eq!(timers.deadline(), Some(began + 20 * SECOND));
        assert!(timers.take_deadline(began + 10 * SECOND).is_none());
        let event = timers.take_deadline(began + 20 * SECOND);
        assert!(matches!(event, Some(Event::Deadline { round: 4, policy: 2 })), "{event:?}");
        assert_eq!(timers.deadline(), None);
    }

    #[test]
    fn next_round_begins_after_the_pause() {
        let now = Moment::START;
        let mut timers = Timers::new(now);
        timers.rest(now, SECOND);
        assert!(timers.take_rest(now).is_none() && timers.deadline().is_none());
        assert!(matches!(timers.take_rest(now + SECOND), Some(Event::Begin)));
        assert!(timers.take_rest(now + SECOND).is_none());
    }
    #[test]
    fn a_round_waits_once_nobody_has_answered_for_a_second() {
        let began = Moment::START;
        let mut timers = Timers::new(began);
        timers.begin(began, 60 * SECOND, 4, 2);
        assert!(timers.take_waited(began + SECOND / 2).is_none());
        timers.answered(began + SECOND / 2);
        assert_eq!(timers.next_due(), Some(began + SECOND / 2 + SECOND));
        assert!(timers.take_waited(began + SECOND).is_none(), "somebody has just answered");
        let event = timers.take_waited(began + 2 * SECOND);
        assert!(matches!(event, Some(Event::Waited { round: 4, policy: 2 })), "{event:?}");
        assert!(timers.take_waited(began + 3 * SECOND).is_none(), "it is said once");
        timers.answered(began + 3 * SECOND);
        assert!(timers.take_waited(began + 4 * SECOND).is_some(), "and again after an answer");
        timers.answered(began + 5 * SECOND);
        timers.end();
        assert_eq!(timers.next_due(), None);
    }
}
