//! The class's questions and their answers.

use unmask_lesson::{Poll, Question, Suspect};

use crate::{say, shown_nickname};

pub fn question(question: Question) -> &'static str {
    match question {
        Question::Whose => say::guess::question(),
        Question::Safe => say::mask::question(),
        Question::Seconds => say::patience::question(),
        Question::Rate => say::trade::question(),
        Question::WhoseMasked => say::debrief::question(),
    }
}

/// A suspect with the letter of its picture, such as `B · lucky otter`.
pub fn suspect(place: usize, Suspect { nickname, .. }: &Suspect) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    format!("{letter} · {}", shown_nickname(nickname))
}

/// An answer as a student reads it. Empty if the question offers answers to choose from and not this one.
pub fn answer(poll: &Poll, vote: u16) -> String {
    match poll.question {
        Question::Whose | Question::WhoseMasked => {
            let place = usize::from(vote);
            poll.suspects.get(place).map(|one| suspect(place, one)).unwrap_or_default()
        }
        Question::Safe => {
            [say::mask::yes(), say::mask::no()].get(usize::from(vote)).copied().unwrap_or_default().into()
        }
        Question::Seconds => say::patience::seconds(vote.into()),
        Question::Rate => format!("{vote} {}", say::trade::unit()),
    }
}

/// The answers from `first` to `last`, which are counted together: a name, or a range of numbers with its unit.
pub fn answers(poll: &Poll, first: u16, last: u16) -> String {
    match poll.question {
        _ if first == last => answer(poll, first),
        Question::Whose | Question::WhoseMasked | Question::Safe => answer(poll, first),
        Question::Seconds => say::bins::range(first, last, say::patience::unit()),
        Question::Rate => say::bins::range(first, last, say::trade::unit()),
    }
}

#[cfg(test)]
mod tests {
    use unmask_lesson::Poll;

    use super::*;
    use crate::Language;

    fn plain(question: Question) -> Poll {
        Poll { question, suspects: Vec::new(), correct: None }
    }

    #[test]
    fn answers_are_in_the_pages_language() {
        let robot = Suspect { client: Default::default(), nickname: "robot 3".to_owned() };
        let whose = Poll { suspects: vec![robot.clone(), robot], ..plain(Question::Whose) };
        assert_eq!(answer(&whose, 1), "B · robot 3");
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
