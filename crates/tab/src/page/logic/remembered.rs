//! What a student takes home: the answers, and the most that an attack saw of the picture.

use unmask_lesson::{Answers, Place, Poll};
use unmask_wire::LessonState;

use super::turn::place;
use crate::protocol::Reconstruction;

/// Most answers kept; a lesson asks eleven questions, some of them again.
const MOST_ANSWERS: usize = 40;

/// The student's answer to a question that is closed.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    number: u32,
    pub poll: Poll,
    /// Where the lesson was last about it, which decides what may be told.
    pub place: Place,
    pub own: u16,
}

impl Answered {
    /// Whether the answer was right; `None` if nobody knows, or if the lesson has not told it.
    fn is_right(&self) -> Option<bool> {
        let is_choice = matches!(self.poll.answers(), Answers::Choice { .. });
        let told = self.poll.correct.filter(|_| is_choice && self.place.tells(self.poll.question));
        told.map(|told| told == self.own)
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Remembered {
    /// In the order asked.
    pub answers: Vec<Answered>,
    /// The closest of this tab's own attacks.
    pub closest: Option<Reconstruction>,
}

impl Remembered {
    /// Keeps the student's vote on a question that is closed, with what the lesson tells of the answer.
    pub fn answer(&mut self, lesson: &LessonState, vote: Option<(u32, u16)>) {
        let Some(asked) = lesson.poll.as_ref().filter(|poll| !poll.is_open) else { return };
        let Some((number, own)) = vote.filter(|(number, _)| *number == asked.number) else { return };
        let mut poll = asked.poll.clone();
        // Their letters are enough, and a name may be deleted any time.
        poll.suspects.iter_mut().for_each(|suspect| suspect.nickname.clear());
        let answered = Answered { number, poll, place: place(lesson), own };
        let has_room = self.answers.len() < MOST_ANSWERS;
        match self.answers.iter_mut().find(|known| known.number == number) {
            // Going back in the lesson takes no answer back.
            Some(known) if known.place.beat > answered.place.beat => {}
            Some(known) => *known = answered,
            None if has_room => self.answers.push(answered),
            None => {}
        }
    }

    /// Right answers, and questions that the student answered and whose answer was told.
    pub fn score(&self) -> (u32, u32) {
        let judged = self.answers.iter().filter_map(Answered::is_right);
        judged.fold((0, 0), |(right, judged), is_right| (right + u32::from(is_right), judged + 1))
    }

    /// Keeps a result if it came closer to the private picture than any before.
    pub fn keep(&mut self, found: &Reconstruction) {
        let ssim = |found: &Reconstruction| {
            let comparison = found.comparison.as_ref().filter(|comparison| comparison.is_private)?;
            found.picture.is_some().then_some(comparison.ssim)
        };
        if ssim(found) > self.closest.as_ref().and_then(ssim) {
            self.closest = Some(found.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::AttackMethod;
    use unmask_lesson::{Place, Poll, Question};
    use unmask_wire::PollState;

    use super::*;
    use crate::protocol::{Comparison, Rgba};

    fn told(question: Question, number: u32, correct: Option<u16>) -> LessonState {
        let place = Place::all().find(|place| place.tells(question)).expect("a beat that tells");
        let poll = Poll { question, suspects: Vec::new(), correct };
        let poll = PollState { number, poll, is_open: false, counts: Vec::new() };
        LessonState { scene: place.scene, beat: place.beat, poll: Some(poll), is_careful: false, is_doctored: false }
    }

    #[test]
    fn each_answer_is_kept_and_judged_once() {
        let mut remembered = Remembered::default();
        for _ in 0..2 {
            remembered.answer(&told(Question::Gaps, 1, Some(0)), Some((1, 0)));
        }
        let back = LessonState { beat: 0, ..told(Question::Gaps, 1, Some(0)) };
        remembered.answer(&back, Some((1, 0)));
        remembered.answer(&told(Question::Used, 2, Some(0)), Some((2, 1)));
        // Nobody measured it, the student did not vote, there is no right rate.
        remembered.answer(&told(Question::Half, 3, None), Some((3, 1)));
        remembered.answer(&told(Question::Half, 4, Some(1)), Some((3, 1)));
        remembered.answer(&told(Question::Rate, 5, Some(50)), Some((5, 50)));
        assert_eq!(remembered.score(), (1, 2));
        let kept: Vec<(u32, u16)> = remembered.answers.iter().map(|kept| (kept.number, kept.own)).collect();
        assert_eq!(kept, [(1, 0), (2, 1), (3, 1), (5, 50)]);
    }

    #[test]
    fn the_closest_picture_is_kept() {
        let found = |round, ssim, is_private| Reconstruction {
            round,
            attack: AttackMethod::Embedding,
            picture: Rgba::new(1, 1, vec![0; 4]),
            comparison: Some(Comparison { own: None, is_private, psnr: 10.0, ssim }),
        };
        let mut remembered = Remembered::default();
        for found in [found(1, 0.5, true), found(2, 0.9, true), found(3, 0.7, true), found(4, 1.0, false)] {
            remembered.keep(&found);
        }
        assert_eq!(remembered.closest.map(|closest| closest.round), Some(2));
    }
}
