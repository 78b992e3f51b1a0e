//! Puts the class's votes into words.

use unmask_lesson::{Answers, Poll};
use unmask_wire::{PollState, view::PollView};
use unmask_words::{answer, say};

/// Most bars that fit beside a picture.
const BARS: usize = 6;

/// Names and lengths of the bars that show the votes on the projector. Bins of numbers share a bar if there are too many.
pub fn vote_bars(PollView { poll, votes, .. }: &PollView) -> Vec<(String, u32)> {
    let answers = poll.answers();
    let bins: Vec<_> = answers.bins().into_iter().zip(answers.counts(votes)).collect();
    let together = if matches!(answers, Answers::Choice { .. }) { 1 } else { bins.len().div_ceil(BARS).max(1) };
    let bar = |bins: &[((u16, u16), u32)]| {
        let (first, last) = (bins.first().map_or(0, |bin| bin.0.0), bins.last().map_or(0, |bin| bin.0.1));
        (unmask_words::answers(poll, first, last), bins.iter().map(|(_, count)| count).sum())
    };
    bins.chunks(together).map(bar).collect()
}

/// How a student's answer compares with the correct one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    /// The question has no correct answer.
    Open,
    /// This page knows no answer of the student's.
    Missed,
}

impl Verdict {
    fn of(own: Option<u16>, correct: Option<u16>) -> Self {
        match (own, correct) {
            (None, _) => Self::Missed,
            (Some(_), None) => Self::Open,
            (Some(own), Some(correct)) if own == correct => Self::Right,
            (Some(_), Some(_)) => Self::Wrong,
        }
    }
}

/// Compares a student's vote with the correct answer, if there is one.
pub fn verdict(poll: &Poll, own: Option<u16>) -> String {
    let said = own.map(|own| answer(poll, own)).unwrap_or_default();
    let right = poll.correct.map(|correct| answer(poll, correct));
    match (Verdict::of(own, poll.correct), right) {
        (Verdict::Right, Some(right)) => say::vote::right(right),
        (Verdict::Wrong, Some(right)) => say::vote::wrong(said, right),
        // A student who reloaded the page may have answered, but this page does not know it.
        (Verdict::Missed, Some(right)) => say::vote::missed(right),
        (Verdict::Missed, None) => say::vote::answered().to_owned(),
        (_, _) => say::vote::said(said),
    }
}

/// Confirms a student's vote while the question is open.
pub fn voted(poll: &Poll, vote: u16) -> String {
    say::vote::given(answer(poll, vote))
}

/// One answer to a closed question and its votes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// The answer, or the range of numbers counted together.
    pub name: String,
    pub votes: u32,
    /// Relative to the answer with the most votes, 0 to 1.
    pub share: f64,
    pub is_own: bool,
    pub is_right: bool,
}

/// The class's answers in order. Numbers without votes are left out, unless the student's own or the correct answer is
/// among them.
pub fn tallies(PollState { poll, counts, .. }: &PollState, own: Option<u16>) -> Vec<Tally> {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let is_choice = matches!(poll.answers(), Answers::Choice { .. });
    let tally = |((first, last), &votes): ((u16, u16), &u32)| {
        let is_in = |answer: Option<u16>| answer.is_some_and(|answer| (first..=last).contains(&answer));
        let name = match is_choice {
            true => answer(poll, first),
            false if first == last => first.to_string(),
            false => format!("{first}–{last}"),
        };
        let share = f64::from(votes) / f64::from(most);
        Tally { name, votes, share, is_own: is_in(own), is_right: is_in(poll.correct) }
    };
    let tallies = poll.answers().bins().into_iter().zip(counts).map(tally);
    tallies.filter(|tally| is_choice || tally.votes > 0 || tally.is_own || tally.is_right).collect()
}

#[cfg(test)]
mod tests {
    use unmask_core::ClientId;
    use unmask_lesson::{Question, Suspect};

    use super::*;

    fn whose(correct: Option<u16>) -> Poll {
        let suspect = |(id, nickname): (u32, &str)| Suspect { client: ClientId(id), nickname: nickname.to_owned() };
        let suspects = (1..).zip(["Ada", "Bob", "robot 3"]).map(suspect).collect();
        Poll { question: Question::Whose, suspects, correct }
    }

    fn plain(question: Question, correct: Option<u16>) -> Poll {
        Poll { question, suspects: Vec::new(), correct }
    }

    fn closed(poll: Poll, counts: &[u32]) -> PollState {
        PollState { number: 3, poll, is_open: false, counts: counts.to_vec() }
    }

    fn view(poll: Poll, votes: &[u16]) -> PollView {
        PollView { number: 1, poll, is_open: false, votes: votes.to_vec(), voters: votes.len() as u32 }
    }

    #[test]
    fn a_vote_is_compared_with_the_right_answer() {
        assert_eq!(verdict(&whose(Some(1)), Some(1)), "✓ You were right: B · Bob.");
        assert_eq!(verdict(&whose(Some(1)), Some(0)), "✕ You said A · Ada. It was B · Bob.");
        assert_eq!(verdict(&whose(None), Some(0)), "You said A · Ada.");
        assert_eq!(verdict(&whose(Some(0)), None), "It was A · Ada.");
    }

    #[test]
    fn every_answer_of_a_choice_is_shown() {
        let tallies = tallies(&closed(whose(Some(1)), &[2, 1, 0]), Some(0));
        let shown = |tally: &Tally| (tally.name.clone(), tally.votes, tally.share, tally.is_own, tally.is_right);
        let row = |name: &str, votes, share, is_own, is_right| (name.to_owned(), votes, share, is_own, is_right);
        assert_eq!(
            tallies.iter().map(shown).collect::<Vec<_>>(),
            [
                row("A · Ada", 2, 1.0, true, false),
                row("B · Bob", 1, 0.5, false, true),
                row("C · robot 3", 0, 0.0, false, false)
            ]
        );
    }

    #[test]
    fn numbers_are_shown_in_bins_and_empty_bins_left_out() {
        // 301 numbers make bins of 16; the last one is cut short.
        let mut counts = vec![0; 19];
        (counts[0], counts[18]) = (3, 1);
        let poll = closed(plain(Question::Seconds, Some(30)), &counts);
        let tallies = tallies(&poll, Some(299));
        let names: Vec<_> = tallies.iter().map(|tally| tally.name.as_str()).collect();
        assert_eq!(names, ["0–15", "16–31", "288–300"]);
        assert!(tallies[1].is_right && tallies[2].is_own && !tallies[0].is_own);
        assert_eq!(super::tallies(&closed(plain(Question::Seconds, None), &[]), None), []);
    }

    #[test]
    fn every_vote_is_in_one_bar() {
        let bars = vote_bars(&view(plain(Question::Seconds, None), &[0, 31, 31, 300]));
        assert!(bars.len() <= BARS, "{bars:?}");
        assert_eq!(bars.iter().map(|(_, count)| count).sum::<u32>(), 4);
        assert!(bars[0].0.starts_with("0 to ") && bars.last().expect("bars").0.ends_with("300 seconds"), "{bars:?}");
        let bars = vote_bars(&view(plain(Question::Safe, None), &[1, 1]));
        assert_eq!(bars, [("Yes".to_owned(), 0), ("No".to_owned(), 2)]);
    }
}
