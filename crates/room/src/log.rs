//! The room's log, in words for people.

use serde::{Deserialize, Serialize};
use unmask_core::ClientId;
use unmask_wire::view::LogLine;

use super::recent::Recent;

/// Upper limit of lines kept, for the download of the whole lesson.
pub(super) const KEPT: usize = 10_000;
/// Number of lines shown, the newest.
const LINES: usize = 100;
/// Upper limit of texts remembered as said: two for each of 200 clients, and as many for their reasons.
const REMEMBERED: usize = 1024;

#[derive(Debug)]
pub(crate) struct Log {
    lines: Recent<TimedLine>,
    number: u64,
    /// Lines about the coming encryption that were logged, and their clients.
    said: Recent<(ClientId, String)>,
    /// The time of day, in seconds since 1970.
    unix: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedLine {
    /// Seconds since 1970.
    pub time: u64,
    pub line: LogLine,
    /// The clients that the line names.
    about: Vec<ClientId>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct LogRecord {
    lines: Vec<TimedLine>,
    number: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self { lines: Recent::new(KEPT), number: 0, said: Recent::new(REMEMBERED), unix: 0 }
    }
}

impl Log {
    /// Sets the time of day of the coming lines, in seconds since 1970.
    pub(crate) fn set_time(&mut self, unix: u64) {
        self.unix = unix;
    }

    /// Number of lines kept.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn say(&mut self, round: u32, text: String) {
        self.say_of(Vec::new(), round, text);
    }

    pub(crate) fn say_of(&mut self, about: Vec<ClientId>, round: u32, text: String) {
        self.number += 1;
        let line = LogLine { number: self.number, round, text };
        self.lines.push(TimedLine { time: self.unix, line, about });
    }

    /// Deletes the lines that name a client.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.lines.retain(|line| !line.about.contains(&client));
        self.said.retain(|(about, _)| *about != client);
    }

    /// Logs a line that a client can trigger at will, unless the same text is still on show. Returns whether it was
    /// logged.
    pub(crate) fn say_if_new(&mut self, about: ClientId, round: u32, text: String) -> bool {
        let is_new = self.lines().all(|line| line.text != text);
        if is_new {
            self.say_of(vec![about], round, text);
        }
        is_new
    }

    /// Logs a line that anybody can trigger at will, unless the same text is still on show.
    pub(crate) fn say_if_shown_nowhere(&mut self, round: u32, text: String) {
        if self.lines().all(|line| line.text != text) {
            self.say(round, text);
        }
    }

    /// Logs a line about a coming encryption, unless it was logged before: clients are asked in turn, again and again,
    /// until one can encrypt.
    pub(crate) fn say_once(&mut self, about: ClientId, round: u32, text: String) {
        if self.said.iter().all(|(_, said)| *said != text) {
            self.said.push((about, text.clone()));
            self.say_of(vec![about], round, text);
        }
    }

    /// Allows all lines again, because the encryption is done or no longer needed.
    pub(crate) fn forget_said(&mut self) {
        self.said.clear();
    }

    /// The newest lines, oldest first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &LogLine> {
        self.lines.iter().skip(self.lines.len().saturating_sub(LINES)).map(|timed| &timed.line)
    }

    pub(crate) fn record(&self) -> LogRecord {
        LogRecord { lines: self.whole(), number: self.number }
    }

    /// Restores a log; numbering continues.
    pub(crate) fn restore(LogRecord { lines, number }: LogRecord) -> Self {
        let log = Self::default();
        Self { lines: log.lines.refilled(lines), number, ..log }
    }

    pub(crate) fn whole(&self) -> Vec<TimedLine> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ClientId = ClientId(1);

    fn texts(log: &Log) -> Vec<&str> {
        log.lines().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn newest_lines_stay_with_their_numbers() {
        let mut log = Log::default();
        (0..=LINES).for_each(|i| log.say(3, i.to_string()));
        let numbers: Vec<u64> = log.lines().map(|line| line.number).collect();
        assert_eq!((numbers.len(), numbers[0], texts(&log)[0]), (LINES, 2, "1"));
        assert!(log.lines().all(|line| line.round == 3));
    }

    #[test]
    fn a_restored_log_goes_on_counting() {
        let mut log = Log::default();
        (0..LINES + 5).for_each(|i| log.say(1, i.to_string()));
        let mut again = Log::restore(log.record());
        again.say(2, "more".to_owned());
        assert_eq!(again.whole()[..LINES + 5], log.whole());
        let last = again.lines().last().unwrap();
        assert_eq!((last.number, again.lines().count()), (LINES as u64 + 6, LINES));
    }

    #[test]
    fn what_was_said_once_is_said_again_after_it_is_forgotten() {
        let mut log = Log::default();
        for text in ["Ada cannot.", "Bob cannot.", "Ada cannot."] {
            log.say_once(ADA, 0, text.to_owned());
        }
        assert_eq!(texts(&log), ["Ada cannot.", "Bob cannot."]);
        log.forget_said();
        log.say_once(ADA, 0, "Ada cannot.".to_owned());
        assert_eq!(texts(&log), ["Ada cannot.", "Bob cannot.", "Ada cannot."]);
    }

    #[test]
    fn what_can_still_be_read_is_not_said_again() {
        let mut log = Log::default();
        let said =
            ["Eve: refused.", "Ada joined.", "Eve: refused."].map(|text| log.say_if_new(ADA, 1, text.to_owned()));
        assert_eq!(said, [true, true, false]);
        (0..LINES).for_each(|i| log.say(2, i.to_string()));
        assert!(log.say_if_new(ADA, 3, "Eve: refused.".to_owned()));
    }

    #[test]
    fn what_names_a_forgotten_client_is_gone() {
        let (mut log, bob) = (Log::default(), ClientId(2));
        log.say(1, "The teacher paused.".to_owned());
        log.say_of(vec![ADA], 1, "Ada joined.".to_owned());
        log.say_of(vec![bob, ADA], 1, "Round 1 closed without Bob, Ada.".to_owned());
        log.say_of(vec![bob], 1, "Bob joined.".to_owned());
        log.say_once(ADA, 1, "Ada cannot.".to_owned());
        log.forget(ADA);
        assert_eq!(texts(&log), ["The teacher paused.", "Bob joined."]);
        assert_eq!(log.said.iter().count(), 0);
        assert_eq!(texts(&Log::restore(log.record())), texts(&log));
    }

    /// The reasons come from clients, so the memory for them must be bounded.
    #[test]
    fn memory_for_what_was_said_is_bounded() {
        let mut log = Log::default();
        (0..3 * REMEMBERED).for_each(|i| log.say_once(ADA, 0, i.to_string()));
        assert_eq!(log.said.iter().count(), REMEMBERED);
        log.say_once(ADA, 0, (3 * REMEMBERED - 1).to_string());
        assert_eq!(log.number, 3 * REMEMBERED as u64);
    }
}
