//! Questions to the class, their answers, and how votes are counted.

use serde::{Deserialize, Serialize};
use unmask_core::ClientId;

use crate::{Beat, Scene};

/// Fewest pictures among which a class can guess.
const MIN_SUSPECTS: usize = 2;
/// Most pictures among which a class guesses.
pub const MAX_SUSPECTS: usize = 4;

/// A question to the class. Pages word it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Is a picture safe if only numbers leave? Yes or no.
    Numbers,
    /// Whose picture does the reconstruction show?
    Whose,
    /// Will the picture still show if half of the numbers stay home? Yes or no.
    Half,
    /// At which rate does a student's own picture disappear, in percent? The wall shows the answers as they change.
    OwnRate,
    /// Is the picture safe now? Yes or no.
    Safe,
    /// Will an attacker that knows the gaps see the picture? Yes or no.
    Gaps,
    /// Whose masked update does this phone attack? Each phone has another one.
    WhoseUpdate,
    /// After how many seconds does the search show who it is?
    Seconds,
    /// Which rate does the class choose, in percent?
    Rate,
    /// Did the attacked client use this photograph? Yes or no.
    Used,
    /// Whose picture is behind the mask?
    WhoseMasked,
}

/// The votes for a question that is answered with yes or no.
pub const YES: u16 = 0;
pub const NO: u16 = 1;

/// A picture to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    pub client: ClientId,
    pub nickname: String,
}

/// A question with what its answers need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    pub question: Question,
    /// The pictures to choose from: two to [`MAX_SUSPECTS`] where the question asks whose picture it is, else none.
    pub suspects: Vec<Suspect>,
    /// The right answer, once it is known, as a vote for it would be; for a rate, the one that the class runs.
    pub correct: Option<u16>,
}

/// What can be answered. A vote is a number: the position of the chosen answer, from 0, or the number itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// One of this many.
    Choice { count: u16 },
    /// A number from `least` to `most`, both included. Pages count `bin` numbers together.
    Number { least: u16, most: u16, bin: u16 },
}

/// A question or vote that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PollError {
    #[error("the number of pictures to choose from is {found}; give {MIN_SUSPECTS} to {MAX_SUSPECTS}")]
    Suspects { found: usize },
    #[error("this question asks for no picture, but has {found}; leave them out")]
    NeedsNoSuspects { found: usize },
    #[error("client {client} is among the pictures twice; give it once")]
    Twice { client: ClientId },
    #[error("{answer} is not an answer; {remedy}")]
    NoAnswer { answer: u16, remedy: String },
}

impl Question {
    /// The questions that a scene asks, in their order.
    pub const fn of(scene: Scene) -> &'static [Self] {
        match scene {
            Scene::Lobby => &[],
            Scene::Promise => &[Self::Numbers],
            Scene::Guess => &[Self::Whose],
            Scene::April => &[Self::Half],
            Scene::Mask => &[Self::OwnRate, Self::Safe],
            Scene::Attackers => &[Self::Gaps, Self::WhoseUpdate],
            Scene::Patience => &[Self::Seconds],
            Scene::TradeOff => &[Self::Rate],
            Scene::Membership => &[Self::Used],
            Scene::SecureSum | Scene::Sum | Scene::Dishonest | Scene::Checks => &[],
            Scene::Debrief => &[Self::WhoseMasked],
        }
    }

    /// The beat that asks it. The next beat closes it.
    pub fn asked_at(self) -> Beat {
        match self {
            Self::Numbers => Beat::Learn,
            Self::Whose => Beat::VoteWhose,
            Self::Half => Beat::SolveApril,
            Self::OwnRate => Beat::MoveOwnMask,
            Self::Safe => Beat::VoteSafe,
            Self::Gaps => Beat::IgnoresMask,
            Self::WhoseUpdate => Beat::AttackOthers,
            Self::Seconds => Beat::VoteSeconds,
            Self::Rate => Beat::VoteRate,
            Self::Used => Beat::AskUsed,
            Self::WhoseMasked => Beat::VoteMasked,
        }
    }

    /// The beat from which wall and phones tell the answer; `None` if only later scenes answer it.
    pub fn told_at(self) -> Option<Beat> {
        match self {
            Self::Numbers => None,
            Self::Whose => Some(Beat::TellWhose),
            Self::Half => Some(Beat::MaskApril),
            Self::OwnRate => Some(Beat::MoveMask),
            Self::Safe => Some(Beat::ShowSafeVotes),
            Self::Gaps => Some(Beat::KnowsMask),
            Self::WhoseUpdate => Some(Beat::ShowScores),
            Self::Seconds => Some(Beat::ShowSearch),
            Self::Rate => Some(Beat::RunRate),
            Self::Used => Some(Beat::TellUsed),
            Self::WhoseMasked => Some(Beat::TellMasked),
        }
    }

    /// Whether its answers are pictures.
    pub fn asks_whose(self) -> bool {
        matches!(self, Self::Whose | Self::WhoseUpdate | Self::WhoseMasked)
    }

    /// Whether the wall shows the answers while they change.
    pub fn is_live(self) -> bool {
        self == Self::OwnRate
    }
}

impl Poll {
    /// Checks that the class can be asked this.
    ///
    /// # Errors
    /// [`PollError`] names what is missing, too many or not an answer.
    pub fn check(&self) -> Result<(), PollError> {
        let found = self.suspects.len();
        if !self.question.asks_whose() && found > 0 {
            return Err(PollError::NeedsNoSuspects { found });
        }
        if self.question.asks_whose() && !(MIN_SUSPECTS..=MAX_SUSPECTS).contains(&found) {
            return Err(PollError::Suspects { found });
        }
        for (place, Suspect { client, .. }) in self.suspects.iter().enumerate() {
            if self.suspects[..place].iter().any(|other| other.client == *client) {
                return Err(PollError::Twice { client: *client });
            }
        }
        self.correct.map_or(Ok(()), |correct| self.answers().check(correct))
    }

    pub fn answers(&self) -> Answers {
        match self.question {
            Question::Whose | Question::WhoseUpdate | Question::WhoseMasked => {
                Answers::Choice { count: u16::try_from(self.suspects.len()).unwrap_or(u16::MAX) }
            }
            Question::Numbers | Question::Half | Question::Safe | Question::Gaps | Question::Used => {
                Answers::Choice { count: 2 }
            }
            Question::Seconds => Answers::Number { least: 1, most: 60, bin: 10 },
            Question::OwnRate | Question::Rate => Answers::Number { least: 0, most: 95, bin: 20 },
        }
    }
}

impl Answers {
    /// Checks that a vote is for one of them.
    ///
    /// # Errors
    /// [`PollError::NoAnswer`] says which votes are.
    pub fn check(self, answer: u16) -> Result<(), PollError> {
        if (self.least()..=self.most()).contains(&answer) && self.count() > 0 {
            return Ok(());
        }
        let (least, most) = (self.least(), self.most());
        let remedy = match self {
            Self::Choice { .. } => format!("send its position among them, from {least} to {most}"),
            Self::Number { .. } => format!("send a number from {least} to {most}"),
        };
        Err(PollError::NoAnswer { answer, remedy })
    }

    /// The smallest vote.
    pub fn least(self) -> u16 {
        match self {
            Self::Choice { .. } => 0,
            Self::Number { least, .. } => least,
        }
    }

    /// The largest vote.
    pub fn most(self) -> u16 {
        match self {
            Self::Choice { count } => count.saturating_sub(1),
            Self::Number { most, .. } => most,
        }
    }

    /// How many different votes there are.
    pub fn count(self) -> u32 {
        match self {
            Self::Choice { count } => count.into(),
            Self::Number { least, most, .. } => u32::from(most.saturating_sub(least)) + 1,
        }
    }

    /// The first and last vote of each bin in which votes are counted together: one vote a bin for a choice.
    pub fn bins(self) -> Vec<(u16, u16)> {
        let width = match self {
            Self::Choice { .. } => 1,
            Self::Number { bin, .. } => u32::from(bin.max(1)),
        };
        let first = |bin| self.least().saturating_add(u16::try_from(bin * width).unwrap_or(u16::MAX));
        let bins = self.count().div_ceil(width);
        let last = |bin| first(bin).saturating_add(u16::try_from(width - 1).unwrap_or(u16::MAX)).min(self.most());
        (0..bins).map(|bin| (first(bin), last(bin))).collect()
    }

    /// Votes in each of the [`bins`](Self::bins). Votes for anything else are left out.
    pub fn counts(self, votes: &[u16]) -> Vec<u32> {
        let in_bin = |(first, last): (u16, u16)| votes.iter().filter(|vote| (first..=last).contains(*vote)).count();
        self.bins().into_iter().map(|bin| u32::try_from(in_bin(bin)).unwrap_or(u32::MAX)).collect()
    }
}

/// The middle one of votes for a number; of an even number of votes the higher one.
pub fn median(votes: &[u16]) -> Option<u16> {
    let mut sorted = votes.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whose(clients: &[u32]) -> Poll {
        let suspect = |id: &u32| Suspect { client: ClientId(*id), nickname: format!("robot {id}") };
        Poll { question: Question::Whose, suspects: clients.iter().map(suspect).collect(), correct: None }
    }

    #[test]
    fn a_poll_that_cannot_be_asked_names_the_reason() {
        assert_eq!(whose(&[1, 2]).check(), Ok(()));
        let safe = Poll { question: Question::Safe, ..whose(&[]) };
        assert_eq!(safe.check(), Ok(()));
        let refused = [
            (whose(&[1]), "choose from is 1;"),
            (whose(&[1, 2, 3, 4, 5]), "give 2 to 4"),
            (whose(&[1, 1]), "client 1 is among the pictures twice"),
            (
                Poll { correct: Some(2), ..whose(&[1, 2]) },
                "2 is not an answer; send its position among them, from 0 to 1",
            ),
            (Poll { question: Question::Safe, ..whose(&[1, 2]) }, "asks for no picture, but has 2"),
            (
                Poll { question: Question::Rate, correct: Some(96), ..whose(&[]) },
                "96 is not an answer; send a number from 0 to 95",
            ),
        ];
        for (poll, reason) in refused {
            let error = poll.check().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn votes_are_counted_by_answer_and_numbers_in_bins() {
        assert_eq!(Answers::Choice { count: 3 }.counts(&[0, 2, 2, 7]), [1, 0, 2]);
        assert_eq!(Answers::Number { least: 10, most: 12, bin: 1 }.counts(&[9, 10, 12, 12, 13]), [1, 0, 2]);
        let seconds = Answers::Number { least: 1, most: 60, bin: 10 };
        assert_eq!(seconds.bins()[..2], [(1, 10), (11, 20)]);
        assert_eq!(seconds.counts(&[0, 4, 10, 11, 60]), [2, 1, 0, 0, 0, 1]);
        assert_eq!(Answers::Number { least: 0, most: 95, bin: 20 }.bins().last(), Some(&(80, 95)));
    }

    #[test]
    fn the_beat_after_the_question_closes_it() {
        for scene in Scene::ALL {
            for question in Question::of(scene) {
                let asked = scene.beats().iter().position(|beat| *beat == question.asked_at());
                assert!(asked.expect("a beat of the scene") + 1 < scene.beats().len(), "{scene}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_answer_is_counted_once(
            least in any::<u16>(),
            most in any::<u16>(),
            bin in 100_u16..,
            vote in any::<u16>(),
        ) {
            prop_assume!(least <= most);
            let answers = Answers::Number { least, most, bin };
            let counts = answers.counts(&[vote]);
            prop_assert_eq!(counts.iter().sum::<u32>(), u32::from(answers.check(vote).is_ok()));
        }
    }
}
