//! What a student takes home: right answers, and the most that an attack saw of the picture.

use unmask_lesson::Answers;
use unmask_wire::LessonState;

use super::turn::place;
use crate::protocol::Reconstruction;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Remembered {
    pub right: u32,
    /// Questions that the student answered and that have a right answer.
    pub judged: u32,
    /// The number of the last of them.
    last: u32,
    /// The closest of this tab's own attacks.
    pub closest: Option<Reconstruction>,
}

impl Remembered {
    /// Counts the student's vote once the lesson tells the answer to a question with answers to choose from.
    pub fn judge(&mut self, lesson: &LessonState, vote: Option<(u32, u16)>) {
        let Some(poll) = lesson.poll.as_ref().filter(|poll| !poll.is_open && poll.number != self.last) else { return };
        let own = vote.filter(|(number, _)| *number == poll.number).map(|(_, answer)| answer);
        let told = poll.poll.correct.filter(|_| place(lesson).tells(poll.poll.question));
        let is_choice = matches!(poll.poll.answers(), Answers::Choice { .. });
        let Some((own, told)) = own.zip(told).filter(|_| is_choice) else { return };
        self.last = poll.number;
        self.judged += 1;
        self.right += u32::from(own == told);
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
        LessonState { scene: place.scene, beat: place.beat, poll: Some(poll) }
    }

    #[test]
    fn each_answer_is_judged_once() {
        let mut remembered = Remembered::default();
        for _ in 0..2 {
            remembered.judge(&told(Question::Gaps, 1, Some(0)), Some((1, 0)));
        }
        remembered.judge(&told(Question::Used, 2, Some(0)), Some((2, 1)));
        // Nobody measured it, the student did not vote, there is no right rate.
        remembered.judge(&told(Question::Half, 3, None), Some((3, 1)));
        remembered.judge(&told(Question::Half, 4, Some(1)), Some((3, 1)));
        remembered.judge(&told(Question::Rate, 5, Some(50)), Some((5, 50)));
        assert_eq!((remembered.right, remembered.judged), (1, 2));
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
