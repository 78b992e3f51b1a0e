//! Puts the class's votes into words.

use unmask_lesson::Poll;
use unmask_wire::{PollState, view::PollView};
use unmask_words::{answer, answers, say};

/// One bar of the votes on the projector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteBar {
    /// The answer, or the range of numbers counted together.
    pub name: String,
    pub people: u32,
    pub robots: u32,
}

/// The votes for each answer.
pub fn vote_bars(PollView { poll, votes, robots, .. }: &PollView) -> Vec<VoteBar> {
    let answers = poll.answers();
    let counts = answers.counts(votes).into_iter().zip(answers.counts(robots));
    let bar =
        |((first, last), (people, robots))| VoteBar { name: unmask_words::answers(poll, first, last), people, robots };
    answers.bins().into_iter().zip(counts).map(bar).collect()
}

/// Of the numbers guessed, the one closest to the right answer.
pub fn closest_guess(poll: &PollView) -> Option<u16> {
    let right = poll.poll.correct?;
    poll.counted().iter().copied().min_by_key(|guess| guess.abs_diff(right))
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

/// The class's answers in order, counted together as on the projector.
pub fn tallies(PollState { poll, counts, .. }: &PollState, own: Option<u16>) -> Vec<Tally> {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let tally = |((first, last), &votes): ((u16, u16), &u32)| {
        let is_in = |answer: Option<u16>| answer.is_some_and(|answer| (first..=last).contains(&answer));
        let name = answers(poll, first, last);
        let share = f64::from(votes) / f64::from(most);
        Tally { name, votes, share, is_own: is_in(own), is_right: is_in(poll.correct) }
    };
    poll.answers().bins().into_iter().zip(counts).map(tally).collect()
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
        PollView {
            number: 1,
            poll,
            is_open: false,
            votes: votes.to_vec(),
            robots: Vec::new(),
            voters: votes.len() as u32,
        }
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
    fn phone_and_wall_count_numbers_in_the_same_bins() {
        let poll = plain(Question::Seconds, Some(18));
        let view = PollView { robots: vec![60], ..view(poll.clone(), &[1, 15, 17, 60]) };
        let bars = vote_bars(&view);
        let tallies = tallies(&closed(poll, &[1, 2, 0, 0, 0, 1]), Some(17));
        let names = |bars: &[VoteBar]| bars.iter().map(|bar| bar.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&bars), tallies.iter().map(|tally| tally.name.clone()).collect::<Vec<_>>());
        assert_eq!(bars.iter().map(|bar| (bar.people, bar.robots)).collect::<Vec<_>>()[4..], [(0, 0), (1, 1)]);
        assert!(tallies[1].is_right && tallies[1].is_own && tallies[1].share == 1.0);
        assert_eq!(closest_guess(&view), Some(17));
        let alone = PollView { votes: Vec::new(), ..view };
        assert_eq!(closest_guess(&alone), Some(60), "a robot's, where no person voted");
    }
}
