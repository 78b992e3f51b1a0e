//! Where a lesson is.

use crate::{Beat, Question, Scene};

/// A place in the lesson: a scene and the number of a beat in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub scene: Scene,
    /// From 0. A number past the scene's last beat means the last one.
    pub beat: u8,
}

impl Place {
    /// The first beat of a scene.
    pub fn start(scene: Scene) -> Self {
        Self { scene, beat: 0 }
    }

    /// The beat with this number, or the scene's last one.
    pub fn beat(self) -> Beat {
        let beats = self.scene.beats();
        beats.get(usize::from(self.beat)).or(beats.last()).copied().unwrap_or(Beat::Join)
    }

    /// The question that was asked last on the way through the scene to this place, if any was.
    pub fn question(self) -> Option<Question> {
        let at = |beat| self.scene.beats().iter().position(|other| *other == beat);
        let now = at(self.beat());
        Question::of(self.scene).iter().rev().copied().find(|question| at(question.asked_at()) <= now)
    }

    /// Whether the class is told the answer to this question here.
    pub fn tells(self, question: Question) -> bool {
        let told_at = |told| self.scene.beats().iter().position(|beat| *beat == told);
        let now = self.scene.beats().iter().position(|beat| *beat == self.beat());
        question.told_at().and_then(told_at).is_some_and(|told_at| now >= Some(told_at))
    }

    /// Whether this place is about a question: from the beat that asks it to the beat that tells the answer, or that
    /// shows the votes if later scenes answer it.
    pub fn is_about(self, question: Question) -> bool {
        let at = |beat| self.scene.beats().iter().position(|other| *other == beat);
        let Some((asked, now)) = at(question.asked_at()).zip(at(self.beat())) else { return false };
        let last = question.told_at().and_then(at).unwrap_or(asked + 1);
        (asked..=last).contains(&now)
    }

    /// Every place of the lesson, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        Scene::ALL.into_iter().flat_map(|scene| (0..).zip(scene.beats()).map(move |(beat, _)| Self { scene, beat }))
    }

    /// The next beat, in this scene or the next; `None` at the end of the lesson.
    pub fn next(self) -> Option<Self> {
        let next = Self { beat: self.beat.saturating_add(1), ..self };
        if usize::from(next.beat) < self.scene.beats().len() { Some(next) } else { self.next_scene() }
    }

    pub fn next_scene(self) -> Option<Self> {
        Scene::from_number(self.scene.number() + 1).map(Self::start)
    }

    /// The start of this scene, or the scene before where this one is at its start.
    pub fn previous_scene(self) -> Option<Self> {
        if self.beat > 0 {
            return Some(Self::start(self.scene));
        }
        self.scene.number().checked_sub(1).and_then(Scene::from_number).map(Self::start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_visits_every_beat_once() {
        let visited: Vec<Place> = std::iter::successors(Some(Place::default()), |place| place.next()).collect();
        assert_eq!(visited, Place::all().collect::<Vec<_>>());
        assert_eq!(visited.last().map(|place| place.beat()), Some(Beat::TakeHome));
    }

    #[test]
    fn an_answer_is_told_after_its_question_was_closed_and_to_the_end_of_the_scene() {
        for place in Place::all() {
            for question in Question::of(place.scene).iter().copied() {
                let asked = Place::all().find(|place| place.beat() == question.asked_at()).expect("a beat that asks");
                assert!(!place.tells(question) || place.beat > asked.beat, "{place:?}");
                let last = place.scene.beats().len() - 1;
                assert_eq!(Place { beat: last as u8, ..place }.tells(question), question.told_at().is_some());
            }
        }
        assert!(!Place::start(Scene::Mask).tells(Question::Whose));
    }

    #[test]
    fn a_place_is_about_a_question_until_its_answer() {
        let about = |scene| {
            let question = *Question::of(scene).last().expect("a question");
            Place::all().filter(|place| place.scene == scene && place.is_about(question)).map(|it| it.beat).collect()
        };
        let beats: [Vec<u8>; 4] = [Scene::Promise, Scene::April, Scene::Mask, Scene::Debrief].map(about);
        assert_eq!(beats, [vec![0, 1], vec![0, 1], vec![2, 3], vec![0, 1, 2]]);
        assert!(!Place::start(Scene::Lobby).is_about(Question::Numbers));
    }

    #[test]
    fn scenes_are_left_and_entered_at_their_first_beat() {
        let inside = Place { scene: Scene::Mask, beat: 1 };
        assert_eq!(inside.previous_scene(), Some(Place::start(Scene::Mask)));
        assert_eq!(Place::start(Scene::Mask).previous_scene(), Some(Place::start(Scene::April)));
        assert_eq!(inside.next_scene(), Some(Place::start(Scene::Attackers)));
        assert_eq!((Place::default().previous_scene(), Place::start(Scene::Debrief).next_scene()), (None, None));
        assert_eq!(Place { scene: Scene::Guess, beat: 200 }.beat(), Beat::ShowEverybody);
    }
}
