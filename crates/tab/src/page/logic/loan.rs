//! What the student's page knows of another student's masked numbers, which it attacks.

use unmask_lesson::Poll;
use unmask_words::say;

use super::sentence;
use crate::protocol::{LoanAttack, LoanResult, Rgba};

/// What this page knows of a loan.
#[derive(Debug, Clone, PartialEq)]
pub struct Borrowed {
    /// The question that it is for.
    pub poll: u32,
    /// What the attack shows that reads gaps as zeros.
    blind: Option<LoanAttack>,
    /// What the attack shows that knows the gaps. The student sees it on request.
    aware: Option<LoanAttack>,
    /// Whether the student asked for it.
    pub knows_gaps: bool,
    /// Whether there is no update for this student.
    is_ended: bool,
    /// Whose it was, as a position among the suspects, and the points.
    pub score: Option<(u16, u8)>,
}

impl Borrowed {
    fn new(poll: u32) -> Self {
        Self { poll, blind: None, aware: None, knows_gaps: false, is_ended: false, score: None }
    }

    /// Whether this result is of other numbers. The first result of a loan is that of the attack without the gaps.
    pub fn is_replaced_by(&self, result: &LoanResult) -> bool {
        self.poll != result.poll || !result.knows_gaps
    }

    pub fn with(before: Option<Self>, result: LoanResult) -> Self {
        match before.filter(|before| !before.is_replaced_by(&result)) {
            Some(before) => Self { aware: Some(result.attack), ..before },
            None => Self { blind: Some(result.attack), ..Self::new(result.poll) },
        }
    }

    /// Drops the pictures.
    pub fn ended(before: Option<Self>, poll: u32) -> Self {
        let score = before.filter(|before| before.poll == poll).and_then(|before| before.score);
        Self { is_ended: true, score, ..Self::new(poll) }
    }

    pub fn scored(before: Option<Self>, poll: u32, owner: u16, points: u8) -> Self {
        let before = before.filter(|before| before.poll == poll).unwrap_or_else(|| Self::new(poll));
        Self { score: Some((owner, points)), ..before }
    }

    /// The picture of the attack that reads gaps as zeros.
    pub fn blind(&self) -> Option<&Rgba> {
        picture(&self.blind)
    }

    /// The picture of the attack that knows the gaps, once the student may see it.
    pub fn aware(&self) -> Option<&Rgba> {
        picture(&self.aware).filter(|_| self.knows_gaps || self.score.is_some())
    }

    /// Whether the student may ask for the gaps.
    pub fn may_ask(&self) -> bool {
        !self.knows_gaps && self.score.is_none() && self.blind().is_some()
    }

    /// Whether the student has something to guess from.
    pub fn can_guess(&self) -> bool {
        self.blind.is_some()
    }

    /// What to say if there are no pictures.
    pub fn note(&self) -> String {
        let is_over = self.is_ended && self.score.is_none();
        match &self.blind {
            None if is_over => say::contest::nothing_lent().to_owned(),
            None => String::new(),
            Some(LoanAttack::NoWeights) => say::contest::no_weights().to_owned(),
            Some(LoanAttack::Failed(reason)) => sentence(reason),
            Some(LoanAttack::Picture(_)) => match &self.aware {
                Some(LoanAttack::Failed(reason)) if self.knows_gaps => sentence(reason),
                None if self.knows_gaps && self.score.is_none() => say::contest::computing().to_owned(),
                _ => String::new(),
            },
        }
    }
}

fn picture(attack: &Option<LoanAttack>) -> Option<&Rgba> {
    match attack {
        Some(LoanAttack::Picture(picture)) => Some(picture),
        _ => None,
    }
}

/// The result in a sentence.
pub fn verdict(poll: &Poll, own: Option<u16>, (owner, points): (u16, u8)) -> String {
    let right = unmask_words::answer(poll, owner);
    match own {
        Some(own) if own == owner => say::contest::right(points.into(), right),
        Some(own) => say::vote::wrong_picture(unmask_words::answer(poll, own), right),
        None => say::vote::was(right),
    }
}

#[cfg(test)]
mod tests {
    use unmask_lesson::{Question, Suspect};

    use super::*;

    fn result(poll: u32, knows_gaps: bool) -> LoanResult {
        let picture = Rgba::new(1, 1, vec![u8::from(knows_gaps); 4]).expect("a pixel");
        LoanResult { poll, knows_gaps, attack: LoanAttack::Picture(picture) }
    }

    fn both() -> Borrowed {
        Borrowed::with(Some(Borrowed::with(None, result(3, false))), result(3, true))
    }

    #[test]
    fn the_gaps_are_shown_on_request_or_with_the_score() {
        let asked = both();
        assert!(asked.can_guess() && asked.may_ask() && asked.blind().is_some() && asked.aware().is_none());
        let knows = Borrowed { knows_gaps: true, ..asked.clone() };
        assert!(knows.aware().is_some() && !knows.may_ask());
        let scored = Borrowed::scored(Some(asked), 3, 1, 2);
        assert!(scored.aware().is_some() && !scored.may_ask());
    }

    #[test]
    fn other_numbers_replace_the_ones_before_and_a_withdrawal_drops_them() {
        let knows = Borrowed { knows_gaps: true, ..both() };
        let (again, other) = (result(3, true), result(3, false));
        assert!(
            !knows.is_replaced_by(&again) && knows.is_replaced_by(&other) && knows.is_replaced_by(&result(4, true))
        );
        let replaced = Borrowed::with(Some(knows.clone()), other);
        assert!(!replaced.knows_gaps && replaced.aware.is_none());
        let ended = Borrowed::ended(Some(knows.clone()), 3);
        assert!(ended.blind().is_none() && ended.aware().is_none() && !ended.can_guess());
        assert_eq!(ended.note(), "There are no numbers for you to attack now.");
        let scored = Borrowed::ended(Some(Borrowed::scored(Some(knows), 3, 0, 1)), 3);
        assert_eq!((scored.score, scored.note()), (Some((0, 1)), String::new()));
    }

    #[test]
    fn a_page_without_a_picture_says_why() {
        let no_weights = LoanResult { attack: LoanAttack::NoWeights, ..result(3, false) };
        let without = Borrowed::with(None, no_weights);
        assert!(without.can_guess() && !without.may_ask());
        assert!(without.note().starts_with("This phone did not take part"));
        let knows = Borrowed { knows_gaps: true, ..Borrowed::with(None, result(3, false)) };
        assert_eq!(knows.note(), "The attack computes…");
    }

    #[test]
    fn the_verdict_names_the_owner_and_the_points() {
        let suspect = |nickname: &str| Suspect { client: Default::default(), nickname: nickname.to_owned() };
        let suspects = vec![suspect("Ada"), suspect("Bob")];
        let poll = Poll { question: Question::WhoseUpdate, suspects, correct: None };
        assert_eq!(verdict(&poll, Some(1), (1, 2)), "✓ You were right: B · Bob. 2 points.");
        assert_eq!(verdict(&poll, Some(1), (1, 1)), "✓ You were right: B · Bob. 1 point.");
        assert_eq!(verdict(&poll, Some(0), (1, 0)), "✕ You said A · Ada. It was B · Bob.");
        assert_eq!(verdict(&poll, None, (1, 0)), "It was B · Bob.");
    }
}
