//! The class's questions and their answers.

use unmask_lesson::{NO, Place, Poll, Question, Suspect};

use crate::{say, shown_nickname};

pub fn question(question: Question) -> &'static str {
    match question {
        Question::Numbers => say::promise::question(),
        Question::Whose => say::guess::question(),
        Question::Half => say::april::question(),
        Question::Gaps => say::attackers::question(),
        Question::WhoseUpdate => say::attackers::whose(),
        Question::OwnRate => say::mask::own_question(),
        Question::Used => say::member::question(),
        Question::Safe => say::mask::question(),
        Question::Seconds => say::patience::question(),
        Question::Rate => say::trade::question(),
        Question::WhoseMasked => say::debrief::question(),
    }
}

/// A suspect with the letter of its picture, such as `B · lucky otter`; the letter alone where the name is gone.
pub fn suspect(place: usize, Suspect { nickname, .. }: &Suspect) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    if nickname.is_empty() { letter.to_string() } else { format!("{letter} · {}", shown_nickname(nickname)) }
}

/// An answer as a student reads it. Empty if the question offers answers to choose from and not this one.
pub fn answer(poll: &Poll, vote: u16) -> String {
    match poll.question {
        Question::Whose | Question::WhoseUpdate | Question::WhoseMasked => {
            let place = usize::from(vote);
            poll.suspects.get(place).map(|one| suspect(place, one)).unwrap_or_default()
        }
        Question::Numbers | Question::Half | Question::Safe | Question::Gaps | Question::Used => {
            [say::mask::yes(), say::mask::no()].get(usize::from(vote)).copied().unwrap_or_default().into()
        }
        Question::Seconds => say::patience::seconds(vote.into()),
        Question::OwnRate | Question::Rate => format!("{vote} {}", say::trade::unit()),
    }
}

/// The answers from `first` to `last`, which are counted together: a name, or a range of numbers with its unit.
pub fn answers(poll: &Poll, first: u16, last: u16) -> String {
    match poll.question {
        _ if first == last => answer(poll, first),
        Question::Seconds => say::bins::range(first, last, say::patience::unit()),
        Question::OwnRate | Question::Rate => say::bins::range(first, last, say::trade::unit()),
        _ => answer(poll, first),
    }
}

/// The right answer in a sentence, or why there is none; `None` while the lesson does not tell it.
pub fn told(poll: &Poll, place: Place) -> Option<String> {
    if poll.question == Question::Numbers {
        return Some(say::promise::later().to_owned());
    }
    if !place.tells(poll.question) {
        return None;
    }
    Some(match (poll.question, poll.correct) {
        // Each phone has another answer, which it learns on its own.
        (Question::WhoseUpdate, _) => return None,
        (Question::Rate, None) => return None,
        (Question::OwnRate, None) => say::mask::own_nobody().to_owned(),
        (Question::Safe, None) => say::mask::unproved().to_owned(),
        // That attacker need not be the one on the wall.
        (Question::Safe, Some(NO)) => say::mask::one_sees().to_owned(),
        (_, None) => say::vote::unmeasured().to_owned(),
        (Question::Seconds, Some(right)) => say::patience::took(right.into()),
        (Question::OwnRate, Some(right)) => say::mask::own_median(answer(poll, right)),
        (Question::Rate, Some(right)) => say::trade::runs(answer(poll, right)),
        (Question::Whose | Question::WhoseMasked, Some(right)) => say::vote::was(answer(poll, right)),
        (_, Some(right)) => say::vote::missed(answer(poll, right)),
    })
}

/// Compares a student's answer with the right one; without a right answer it repeats what is [`told`].
pub fn verdict(poll: &Poll, place: Place, own: Option<u16>) -> String {
    let said = own.map(|own| answer(poll, own));
    let right = poll.correct.filter(|_| place.tells(poll.question));
    let Some(told) = told(poll, place) else {
        // A student who reloaded the page may have answered, but this page does not know it.
        return said.map_or_else(|| say::vote::answered().to_owned(), say::vote::said);
    };
    let Some(said) = said else { return told };
    match (poll.question, right) {
        (Question::OwnRate | Question::Seconds | Question::Rate, _) | (_, None) => say::vote::both(told, said),
        (_, Some(right)) if own == Some(right) => say::vote::right(said),
        (Question::Whose | Question::WhoseMasked, Some(right)) => say::vote::wrong_picture(said, answer(poll, right)),
        (_, Some(right)) => say::vote::wrong(said, answer(poll, right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Language;

    fn plain(question: Question) -> Poll {
        Poll { question, suspects: Vec::new(), correct: None }
    }

    /// The last beat of the scene that asks a question.
    fn end(question: Question) -> Place {
        let place = Place::all().filter(|place| Question::of(place.scene).contains(&question)).last();
        place.expect("a scene that asks it")
    }

    #[test]
    fn an_answer_is_told_when_the_lesson_tells_it_and_compared_with_the_students() {
        let suspect = |nickname: &str| Suspect { client: Default::default(), nickname: nickname.to_owned() };
        let whose = Poll { suspects: vec![suspect("Ada"), suspect("Bob")], correct: Some(1), ..plain(Question::Whose) };
        let (asked, told_at) = (Place::start(end(Question::Whose).scene), end(Question::Whose));
        assert_eq!(told(&whose, asked), None);
        assert_eq!(verdict(&whose, asked, Some(1)), "You said B · Bob.");
        assert_eq!(verdict(&whose, asked, None), "The class has answered.");
        assert_eq!(verdict(&whose, told_at, Some(1)), "✓ You were right: B · Bob.");
        assert_eq!(verdict(&whose, told_at, Some(0)), "✕ You said A · Ada. It was B · Bob.");
        assert_eq!(verdict(&whose, told_at, None), "It was B · Bob.");
        let of = |question, correct, own| verdict(&Poll { correct, ..plain(question) }, end(question), own);
        assert_eq!(of(Question::Seconds, Some(18), Some(30)), "It took 18 seconds. You said 30 seconds.");
        assert_eq!(of(Question::Rate, Some(70), Some(70)), "The class runs R = 70 %. You said 70 %.");
        assert_eq!(of(Question::Gaps, Some(0), Some(1)), "✕ You said No. The answer is Yes.");
        assert!(of(Question::Safe, None, Some(0)).contains("does not prove it safe"));
        assert_eq!(of(Question::OwnRate, None, None), "Nobody moved the slider.");
        assert_eq!(of(Question::Rate, None, Some(70)), "You said 70 %.");
        assert!(of(Question::Numbers, None, None).contains("next scenes"));
    }

    #[test]
    fn answers_are_in_the_pages_language() {
        let robot = Suspect { client: Default::default(), nickname: "robot 3".to_owned() };
        let whose = Poll { suspects: vec![robot.clone(), robot], ..plain(Question::Whose) };
        assert_eq!(answer(&whose, 1), "B · robot 3");
        let nobody = Suspect { client: Default::default(), nickname: String::new() };
        let nameless = Poll { suspects: vec![nobody; 2], ..plain(Question::Whose) };
        assert_eq!(answer(&nameless, 1), "B");
        assert_eq!(answer(&plain(Question::Seconds), 5), "5 seconds");
        assert_eq!(answer(&plain(Question::Seconds), 1), "1 second");
        assert_eq!(answer(&plain(Question::Rate), 50), "50 %");
        assert_eq!(answer(&plain(Question::Safe), 2), "");
        Language::German.speak();
        assert_eq!(question(Question::Safe), "Ist das Bild jetzt sicher?");
        assert_eq!(answer(&plain(Question::Safe), 1), "Nein");
        Language::Japanese.speak();
        assert_eq!(answer(&whose, 1), "B · ロボット3");
    }
}
