//! The words of the lesson: what each scene says to the class, and the teacher's notes. They should be plain enough for
//! a twelve-year-old; technical terms belong in the expert view.

use unmask_core::Scene;
use unmask_data::metrics::Level;
use unmask_wire::view::Answers;

use super::{language::Language, say};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// One or two words for the presenter's bar.
    pub title: &'static str,
    /// Its one message, at most eight words.
    pub headline: &'static str,
    /// What the teacher can say.
    pub say: &'static str,
    /// What the teacher can ask.
    pub ask: &'static str,
}

pub fn words(scene: Scene) -> Words {
    let [title, headline, say, ask] = match scene {
        Scene::Lobby => [say::lobby::title(), say::lobby::headline(), say::lobby::say(), say::lobby::ask()],
        Scene::Promise => [say::promise::title(), say::promise::headline(), say::promise::say(), say::promise::ask()],
        Scene::Guess => [say::guess::title(), say::guess::headline(), say::guess::say(), say::guess::ask()],
        Scene::April => [say::april::title(), say::april::headline(), say::april::say(), say::april::ask()],
        Scene::Mask => [say::mask::title(), say::mask::headline(), say::mask::say(), say::mask::ask()],
        Scene::Attackers => {
            [say::attackers::title(), say::attackers::headline(), say::attackers::say(), say::attackers::ask()]
        }
        Scene::Patience => {
            [say::patience::title(), say::patience::headline(), say::patience::say(), say::patience::ask()]
        }
        Scene::TradeOff => [say::trade::title(), say::trade::headline(), say::trade::say(), say::trade::ask()],
        Scene::Membership => [say::member::title(), say::member::headline(), say::member::say(), say::member::ask()],
        Scene::Debrief => [say::debrief::title(), say::debrief::headline(), say::debrief::say(), say::debrief::ask()],
    };
    Words { title, headline, say, ask }
}

/// The lines of a scene, one for each step.
pub const fn lines(scene: Scene) -> &'static [fn() -> &'static str] {
    match scene {
        Scene::Lobby => &[say::lobby::line],
        Scene::Promise => &[say::promise::line_learn, say::promise::line_send, say::promise::line_stay],
        Scene::Guess => &[say::guess::line_vote, say::guess::line_votes, say::guess::line_told],
        Scene::April => &[say::april::line_solve, say::april::line_mask, say::april::line_usual],
        Scene::Mask => &[say::mask::line_move, say::mask::line_vote, say::mask::line_votes],
        Scene::Attackers => &[
            say::attackers::line_zeros,
            say::attackers::line_knows,
            say::attackers::line_puzzle,
            say::attackers::line_groups,
        ],
        Scene::Patience => &[say::patience::line_vote, say::patience::line_guess, say::patience::line_came],
        Scene::TradeOff => &[say::trade::line_vote, say::trade::line_votes, say::trade::line_run],
        Scene::Membership => &[say::member::line],
        Scene::Debrief => &[say::debrief::line_vote, say::debrief::line_votes, say::debrief::line_home],
    }
}

/// The line of a step; past the end, the last line.
pub fn line(scene: Scene, beat: u8) -> &'static str {
    let lines = lines(scene);
    lines.get(usize::from(beat)).or(lines.last()).map(|line| line()).unwrap_or_default()
}

/// The question that the class votes on and the step that asks it. The next step closes it.
pub fn question(scene: Scene) -> Option<(&'static str, u8)> {
    Some(match scene {
        Scene::Guess => (say::guess::question(), 0),
        Scene::Mask => (say::mask::question(), 1),
        Scene::Patience => (say::patience::question(), 0),
        Scene::TradeOff => (say::trade::question(), 0),
        Scene::Debrief => (say::debrief::question(), 0),
        Scene::Lobby | Scene::Promise | Scene::April | Scene::Attackers | Scene::Membership => return None,
    })
}

/// The two answers to a yes-or-no question.
pub fn yes_or_no() -> [String; 2] {
    [say::mask::yes().to_owned(), say::mask::no().to_owned()]
}

/// Translates a scene's question and its answers, since the teacher's page asks them in its own language. Any other
/// question stays as it was sent.
pub fn worded(scene: Scene, asked: &str, answers: &Answers) -> (String, Answers) {
    let is_its = |language: &Language| language.speaking(|| question(scene)).is_some_and(|(own, _)| own == asked);
    let (Some(language), Some((own, _))) = (Language::ALL.into_iter().find(is_its), question(scene)) else {
        return (asked.to_owned(), answers.clone());
    };
    let answers = match answers {
        Answers::Choice(names) if *names == language.speaking(yes_or_no) => Answers::Choice(yes_or_no().to_vec()),
        Answers::Choice(names) => Answers::Choice(names.iter().map(|name| shown_answer(name)).collect()),
        Answers::Number { least, most, unit } => {
            let is_seconds = unit == language.speaking(say::patience::unit);
            let unit = if is_seconds { say::patience::unit().to_owned() } else { unit.clone() };
            Answers::Number { least: *least, most: *most, unit }
        }
    };
    (own.to_owned(), answers)
}

pub fn take_home() -> [&'static str; 3] {
    [say::debrief::numbers(), say::debrief::defence(), say::debrief::who()]
}

/// An answer that names somebody, with the letter shown under the picture.
pub fn answer(place: usize, nickname: &str) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    format!("{letter} · {nickname}")
}

pub fn answered_nickname(answer: &str) -> &str {
    answer.split_once(" · ").map_or(answer, |(_, nickname)| nickname)
}

/// Such an answer for display, with robots' names translated.
pub fn shown_answer(answer: &str) -> String {
    match answer.split_once(" · ") {
        Some((letter, nickname)) => format!("{letter} · {}", super::names::shown_nickname(nickname)),
        None => answer.to_owned(),
    }
}

/// How much is recognisable, in a word or two.
pub fn level(level: Level) -> &'static str {
    match level {
        Level::Hidden => say::level::hidden(),
        Level::Outlines => say::level::outlines(),
        Level::Recognisable => say::level::recognisable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The width of a line in columns; a Japanese character takes two.
    fn columns(text: &str) -> usize {
        text.chars().map(|character| if character.is_ascii() || character < '\u{2e80}' { 1 } else { 2 }).sum()
    }

    #[test]
    fn every_scene_has_one_short_message_and_a_line_for_each_step() {
        for language in Language::ALL {
            language.speak();
            for scene in Scene::ALL {
                let Words { title, headline, say, ask } = words(scene);
                assert!((1..=8).contains(&headline.split_whitespace().count()), "{scene}: {headline}");
                assert!(columns(title) <= 12, "{scene}: {title}");
                assert!((1..=36).contains(&columns(headline)), "{scene}: {headline}");
                let lines = lines(scene);
                assert!(!lines.is_empty() && lines.len() < 100, "{scene}");
                for line in lines {
                    assert!((1..=60).contains(&columns(line())), "{scene}: {}", line());
                }
                assert!(say.ends_with(['.', '。']) && ask.ends_with(['?', '。']), "{scene}: {say} {ask}");
                // One step must remain to close the question.
                assert!(question(scene).is_none_or(|(_, beat)| usize::from(beat) + 1 < lines.len()), "{scene}");
            }
        }
    }

    #[test]
    fn an_answer_leads_back_to_the_one_it_names() {
        assert_eq!(answer(1, "lucky otter"), "B · lucky otter");
        for nickname in ["lucky otter", "a · b", ""] {
            assert_eq!(answered_nickname(&answer(3, nickname)), nickname);
        }
        assert_eq!(line(Scene::Guess, 200), "The numbers gave it away.");
    }

    #[test]
    fn a_question_of_ours_is_asked_in_the_pages_language() {
        let seconds = |unit: &str| Answers::Number { least: 0, most: 9, unit: unit.to_owned() };
        let choice = |names: [&str; 2]| Answers::Choice(names.map(str::to_owned).to_vec());
        let asked = Language::German.speaking(|| question(Scene::Mask)).expect("a question").0;
        let worded = |scene, asked: &str, answers: Answers| worded(scene, asked, &answers);
        assert_eq!(
            worded(Scene::Mask, asked, choice(["Ja", "Nein"])),
            ("Is the picture safe now?".to_owned(), choice(["Yes", "No"]))
        );
        Language::Japanese.speak();
        let own = "何秒後に、だれか分かりますか。".to_owned();
        let english = "After how many seconds do we see who it is?";
        assert_eq!(worded(Scene::Patience, english, seconds("seconds")), (own, seconds("秒")));
        let (_, robots) = worded(
            Scene::Guess,
            "Whose picture did the server make from numbers?",
            choice(["A · robot 1", "B · robot"]),
        );
        assert_eq!(robots, choice(["A · ロボット1", "B · robot"]));
    }

    #[test]
    fn any_other_question_is_shown_as_it_was_sent() {
        Language::German.speak();
        let answers = Answers::Choice(["Yes", "No", "A · robot 1"].map(str::to_owned).to_vec());
        for (scene, asked) in [
            (Scene::Mask, "Is the picture safe now? "),
            (Scene::Guess, "Is the picture safe now?"),
            (Scene::Lobby, ""),
            (Scene::Mask, "What is your password?"),
        ] {
            assert_eq!(worded(scene, asked, &answers), (asked.to_owned(), answers.clone()));
        }
        // Unknown answers stay, even to a known question.
        let (_, kept) = worded(Scene::Mask, "Is the picture safe now?", &Answers::Choice(vec!["yes".to_owned()]));
        assert_eq!(kept, Answers::Choice(vec!["yes".to_owned()]));
    }
}
