//! The state of the lesson, and questions to the class.

use serde::{Deserialize, Serialize};
use unmask_core::Scene;

/// Most characters in a question.
pub const MAX_QUESTION: usize = 200;
/// Fewest and most answers to choose from.
pub const ANSWERS: [usize; 2] = [2, 6];
/// Most characters in an answer.
pub const MAX_ANSWER: usize = 80;
/// Most characters in the unit of a number.
pub const MAX_UNIT: usize = 20;
/// Most bins for counting numeric votes.
const BINS: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonView {
    pub scene: Scene,
    /// Step in the scene, from 0.
    pub beat: u8,
    /// The last question, open or closed, until the scene changes.
    pub poll: Option<PollView>,
}

/// A question to the class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// At most [`MAX_QUESTION`] characters.
    pub question: String,
    pub answers: Answers,
    /// The right answer, if any, encoded as a vote.
    pub correct: Option<u16>,
}

/// Possible answers. A vote is the answer's index, from 0, or the number itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// Two to six answers of at most [`MAX_ANSWER`] characters each.
    Choice(Vec<String>),
    /// A number from `least` to `most`, inclusive.
    Number {
        least: u16,
        most: u16,
        /// Such as `seconds`; at most [`MAX_UNIT`] characters.
        unit: String,
    },
}

/// A question with its votes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollView {
    /// Increases with each question, so a late vote is not counted for the next one.
    pub number: u32,
    pub poll: Poll,
    pub is_open: bool,
    /// One vote per voter, sorted, so that nobody can tell who voted for what; empty while the poll is open.
    pub votes: Vec<u16>,
    /// Number of voters.
    pub voters: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PollError {
    #[error("the {what} has {found} characters; give 1 to {most}")]
    Text { what: &'static str, found: usize, most: usize },
    #[error("a question with {found} answers cannot be asked; give {} to {}", ANSWERS[0], ANSWERS[1])]
    Answers { found: usize },
    #[error("\"{answer}\" is given twice; give each answer once")]
    Twice { answer: String },
    #[error("the range from {least} to {most} is empty; the least number must be below the most")]
    Range { least: u16, most: u16 },
    #[error("{answer} is not a valid answer; {remedy}")]
    NoAnswer { answer: u16, remedy: String },
}

impl Poll {
    /// Checks the question.
    ///
    /// # Errors
    /// [`PollError`] names the text that is too long or too short, or the invalid answer.
    pub fn check(&self) -> Result<(), PollError> {
        check_text("question", &self.question, 1, MAX_QUESTION)?;
        match &self.answers {
            Answers::Choice(answers) => {
                let found = answers.len();
                if !(ANSWERS[0]..=ANSWERS[1]).contains(&found) {
                    return Err(PollError::Answers { found });
                }
                for (place, answer) in answers.iter().enumerate() {
                    check_text("answer", answer, 1, MAX_ANSWER)?;
                    if answers[..place].contains(answer) {
                        return Err(PollError::Twice { answer: answer.clone() });
                    }
                }
            }
            Answers::Number { least, most, unit } => {
                check_text("unit", unit, 0, MAX_UNIT)?;
                if least >= most {
                    return Err(PollError::Range { least: *least, most: *most });
                }
            }
        }
        self.correct.map_or(Ok(()), |correct| self.answers.check(correct))
    }
}

impl Answers {
    /// Checks that a vote is for one of the answers.
    ///
    /// # Errors
    /// [`PollError::NoAnswer`] lists the valid votes.
    pub fn check(&self, answer: u16) -> Result<(), PollError> {
        let (is_one, remedy) = match self {
            Self::Choice(answers) => {
                let last = answers.len().saturating_sub(1);
                (usize::from(answer) <= last, format!("send its index, from 0 to {last}"))
            }
            Self::Number { least, most, .. } => {
                ((*least..=*most).contains(&answer), format!("send a number from {least} to {most}"))
            }
        };
        if is_one { Ok(()) } else { Err(PollError::NoAnswer { answer, remedy }) }
    }

    /// Votes per answer of a choice. Numbers are counted in at most 20 bins of equal width, starting at `least`.
    /// Invalid votes are ignored.
    pub fn counts(&self, votes: &[u16]) -> Vec<u32> {
        let (first, width, bins) = match self {
            Self::Choice(answers) => (0, 1, answers.len()),
            Self::Number { least, .. } => (*least, self.bin_width(), self.bins()),
        };
        let mut counts = vec![0; bins];
        for vote in votes.iter().filter(|vote| self.check(**vote).is_ok()) {
            let bin = u32::from(vote.saturating_sub(first)) / width;
            if let Some(count) = counts.get_mut(bin as usize) {
                *count += 1;
            }
        }
        counts
    }

    /// Numbers per bin of [`counts`](Self::counts); 1 for a choice.
    pub fn bin_width(&self) -> u32 {
        self.numbers().map_or(1, |numbers| numbers.div_ceil(BINS).max(1))
    }

    fn bins(&self) -> usize {
        self.numbers().map_or(0, |numbers| numbers.div_ceil(self.bin_width()) as usize)
    }

    /// How many numbers there are to choose from.
    fn numbers(&self) -> Option<u32> {
        match self {
            Self::Choice(_) => None,
            Self::Number { least, most, .. } => Some(u32::from(most.saturating_sub(*least)) + 1),
        }
    }
}

fn check_text(what: &'static str, text: &str, least: usize, most: usize) -> Result<(), PollError> {
    let found = text.chars().count();
    let is_fit = (least..=most).contains(&found) && (least == 0 || !text.trim().is_empty());
    if is_fit { Ok(()) } else { Err(PollError::Text { what, found, most }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choice(answers: &[&str]) -> Poll {
        let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
        Poll { question: "Who is this?".into(), answers: Answers::Choice(answers), correct: None }
    }

    fn number(least: u16, most: u16) -> Answers {
        Answers::Number { least, most, unit: "seconds".into() }
    }

    #[test]
    fn polls_that_cannot_be_asked_name_the_reason() {
        assert_eq!(choice(&["Ada", "Bob"]).check(), Ok(()));
        let refused = [
            (choice(&["Ada"]), "with 1 answers"),
            (choice(&["a", "b", "c", "d", "e", "f", "g"]), "give 2 to 6"),
            (choice(&["Ada", "Ada"]), "\"Ada\" is given twice"),
            (choice(&["Ada", " "]), "the answer has 1 characters"),
            (Poll { question: "?".repeat(201), ..choice(&["Ada", "Bob"]) }, "the question has 201 characters"),
            (Poll { correct: Some(2), ..choice(&["Ada", "Bob"]) }, "2 is not a valid answer"),
            (Poll { answers: number(5, 5), ..choice(&[]) }, "from 5 to 5 is empty"),
            (Poll { answers: number(5, 9), correct: Some(4), ..choice(&[]) }, "send a number from 5 to 9"),
        ];
        for (poll, reason) in refused {
            let error = poll.check().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn votes_are_counted_by_answer_and_numbers_in_bins() {
        assert_eq!(choice(&["Ada", "Bob", "Cleo"]).answers.counts(&[0, 2, 2, 7]), [1, 0, 2]);
        assert_eq!(number(10, 12).counts(&[9, 10, 12, 12, 13]), [1, 0, 2]);
        let seconds = number(0, 99);
        assert_eq!((seconds.bin_width(), seconds.counts(&[0, 4, 5, 99]).len()), (5, 20));
        assert_eq!(seconds.counts(&[0, 4, 5, 99])[..2], [2, 1]);
    }

    proptest! {
        #[test]
        fn every_answer_is_counted_once(least in any::<u16>(), most in any::<u16>(), vote in any::<u16>()) {
            let answers = number(least, most);
            let counts = answers.counts(&[vote]);
            prop_assert!(counts.len() <= BINS as usize);
            prop_assert_eq!(counts.iter().sum::<u32>(), u32::from(answers.check(vote).is_ok()));
        }
    }
}
