//! The room itself: what is kept of it.

use unmask_wire::view::JournalView;

use super::sentence;

/// How far the room is on disk.
pub fn journal(journal: &JournalView) -> String {
    match (&journal.failure, journal.round) {
        (None, 0) => "Saved; no round has closed yet".to_owned(),
        (None, round) => format!("Saved through round {round}"),
        (Some(failure), 0) => format!("Not saved: {}", sentence(failure)),
        (Some(failure), round) => format!("Not saved since round {round}: {}", sentence(failure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_says_how_far_it_is_or_why_it_is_not() {
        let said = |round, failure: Option<&str>| journal(&JournalView { round, failure: failure.map(str::to_owned) });
        assert_eq!(said(0, None), "Saved; no round has closed yet");
        assert_eq!(said(12, None), "Saved through round 12");
        let full = "the disk is full; free some space";
        assert_eq!(said(12, Some(full)), "Not saved since round 12: The disk is full; free some space.");
        assert_eq!(said(0, Some(full)), "Not saved: The disk is full; free some space.");
    }
}
