//! Makes a robot take part in a lesson: it shows its pictures and answers questions at random.

use unmask_lesson::Answers;
use unmask_wire::LessonState;

use crate::{Client, ClientEvent, ShowError};

/// The behaviour of a client without a person.
#[derive(Debug)]
pub(super) struct Volunteer {
    /// Whether it shows the class its last training picture.
    shows: bool,
    /// Seed of its answers; without it, the client gives none.
    seed: Option<u64>,
    /// The picture that the room has.
    shown: Option<Vec<f32>>,
    /// The last answered question.
    answered: Option<u32>,
}

impl Volunteer {
    pub(super) fn new(shows: bool, seed: Option<u64>) -> Self {
        Self { shows, seed, shown: None, answered: None }
    }

    /// Returns the frames that answer an event.
    ///
    /// # Errors
    /// Those of encoding, caused by what the relay sent.
    pub(super) fn hears(&mut self, event: &ClientEvent, client: &Client) -> Result<Vec<Vec<u8>>, ShowError> {
        match event {
            // On a new socket, the room has forgotten what the last one showed.
            ClientEvent::Welcome { .. } => {
                (self.shown, self.answered) = (None, None);
                self.show(client)
            }
            ClientEvent::Original { is_shown: false, waits: false } => {
                self.shown = None;
                self.show(client)
            }
            ClientEvent::Lesson(lesson) => self.answer(lesson, client),
            _ => Ok(Vec::new()),
        }
    }

    /// Shows the picture of the last update, unless the room already has it.
    ///
    /// # Errors
    /// Those of encoding.
    pub(super) fn show(&mut self, client: &Client) -> Result<Vec<Vec<u8>>, ShowError> {
        let original = client.original().filter(|original| self.shows && self.shown.as_ref() != Some(original));
        let Some(original) = original else { return Ok(Vec::new()) };
        let frames = client.show_original(&original)?;
        self.shown = Some(original);
        Ok(frames)
    }

    fn answer(&mut self, lesson: &LessonState, client: &Client) -> Result<Vec<Vec<u8>>, ShowError> {
        let open = lesson.poll.as_ref().filter(|poll| poll.is_open && self.answered != Some(poll.number));
        let Some((poll, seed)) = open.zip(self.seed) else { return Ok(Vec::new()) };
        self.answered = Some(poll.number);
        match any_answer(poll.poll.answers(), seed, poll.number) {
            Some(answer) => Ok(client.vote(poll.number, answer)?),
            None => Ok(Vec::new()),
        }
    }
}

/// An answer, each as likely as any other over all seeds; `None` if there is none.
fn any_answer(answers: Answers, seed: u64, number: u32) -> Option<u16> {
    let drawn = mixed(seed.wrapping_add(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let offset = drawn.checked_rem(answers.count().into())?;
    answers.least().checked_add(u16::try_from(offset).ok()?)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
fn mixed(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use unmask_data::Picture;
    use unmask_lesson::{Poll, Question, Scene};
    use unmask_wire::{Assembler, ClientMessage, PollState};

    use super::*;
    use crate::PrivatePicture;

    fn client() -> Client {
        let picture = Picture::new(2, 2, vec![90; 12]).unwrap();
        Client::new("robot", "CPU").with_pictures(vec![PrivatePicture::new(picture, 0)]).with_consent(true, true)
    }

    fn asked(number: u32, is_open: bool) -> ClientEvent {
        let poll = Poll { question: Question::Safe, suspects: Vec::new(), correct: None };
        let poll = Some(PollState { number, poll, is_open, counts: Vec::new() });
        ClientEvent::Lesson(LessonState { scene: Scene::Mask, beat: 1, poll, is_careful: false, is_doctored: false })
    }

    fn said(frames: &[Vec<u8>]) -> Vec<ClientMessage> {
        let read = |frame: &Vec<u8>| Assembler::new(20_000).push::<ClientMessage>(frame).unwrap().unwrap().0;
        frames.iter().map(read).collect()
    }

    #[test]
    fn a_question_is_answered_once() {
        let (client, mut robot) = (client(), Volunteer::new(false, Some(3)));
        let first = said(&robot.hears(&asked(1, true), &client).unwrap());
        assert!(matches!(first.as_slice(), [ClientMessage::Vote { poll: 1, answer: 0..2 }]), "{first:?}");
        for event in [asked(1, true), asked(2, false)] {
            assert!(robot.hears(&event, &client).unwrap().is_empty());
        }
        assert_eq!(robot.hears(&asked(2, true), &client).unwrap().len(), 1);
        let mut silent = Volunteer::new(true, None);
        assert!(silent.hears(&asked(1, true), &client).unwrap().is_empty());
    }

    #[test]
    fn the_picture_is_shown_again_where_the_room_has_lost_it() {
        let (client, mut robot) = (client(), Volunteer::new(true, None));
        let shows = vec![ClientMessage::Original { side: 32 }];
        assert_eq!(said(&robot.show(&client).unwrap()), shows);
        assert!(robot.show(&client).unwrap().is_empty());
        let told = |is_shown, waits| ClientEvent::Original { is_shown, waits };
        assert!(robot.hears(&told(true, false), &client).unwrap().is_empty());
        assert!(robot.hears(&told(false, true), &client).unwrap().is_empty());
        assert_eq!(said(&robot.hears(&told(false, false), &client).unwrap()), shows);
        assert!(Volunteer::new(false, None).show(&client).unwrap().is_empty());
    }

    #[test]
    fn every_answer_is_given_by_some_robot() {
        let number = Answers::Number { least: 10, most: 14, bin: 1 };
        let mut given: Vec<u16> = (0..200).filter_map(|seed| any_answer(number, seed, 1)).collect();
        assert_eq!(given.len(), 200);
        given.sort_unstable();
        given.dedup();
        assert_eq!(given, [10, 11, 12, 13, 14]);
        assert_eq!(any_answer(Answers::Choice { count: 0 }, 1, 1), None);
        let whole = Answers::Number { least: 0, most: u16::MAX, bin: 1000 };
        assert!(any_answer(whole, 7, 7).is_some());
    }
}
