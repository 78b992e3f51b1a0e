//! The words of the lesson: what each scene says to the class, and what its notes say to the teacher. Plain enough for a
//! twelve-year-old; the field's own words are the expert view's.

use unmask_core::Scene;

use super::lesson::Level;

/// What a scene says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// For the presenter's bar, in a word or two.
    pub title: &'static str,
    /// Its one message, in at most eight words.
    pub headline: &'static str,
    /// One line for each step.
    pub lines: &'static [&'static str],
    /// What the teacher may say.
    pub say: &'static str,
    /// What the teacher may ask.
    pub ask: &'static str,
    /// The question that the class votes on; empty where there is none.
    pub question: &'static str,
    /// The step at which it is asked; the next one closes it.
    pub asks_at: Option<u8>,
}

const LOBBY: Words = Words {
    title: "Join",
    headline: "Join with your phone",
    lines: &["Scan the code, or type the address and the PIN."],
    say: "Today your phones teach a computer together, and no picture leaves a phone.",
    ask: "Who has a picture that only friends may see?",
    question: "",
    asks_at: None,
};

const PROMISE: Words = Words {
    title: "Promise",
    headline: "Your picture stays. Numbers leave.",
    lines: &[
        "Each phone learns from its own picture.",
        "Now the phones send what they learnt: numbers.",
        "The picture itself never leaves the phone.",
    ],
    say: "This is federated learning: the phones send numbers, the server adds them up, and the pictures stay where they are.",
    ask: "Is your picture safe if only numbers leave?",
    question: "",
    asks_at: None,
};

const GUESS: Words = Words {
    title: "Guess",
    headline: "Whose picture is this?",
    lines: &["The server made this from numbers alone. Vote!", "These are your votes.", "The numbers gave it away."],
    say: "Nobody sent this picture: the server computed it from the numbers of one phone.",
    ask: "How can numbers become a picture again?",
    question: "Whose picture did the server make from numbers?",
    asks_at: Some(0),
};

const APRIL: Words = Words {
    title: "APRIL",
    headline: "The numbers were the picture",
    lines: &[
        "An attack called APRIL solves one equation.",
        "The mask is on: half of the numbers stay home.",
        "A network of the usual kind leaks as well.",
    ],
    say: "The numbers that a phone sends are an equation with one solution, and that is the picture.",
    ask: "What happens if the phone keeps half of the numbers?",
    question: "",
    asks_at: None,
};

const MASK: Words = Words {
    title: "Mask",
    headline: "Half the numbers stay home",
    lines: &["R is the part that stays home. Move it!", "Is the picture safe now? Vote!", "These are your votes."],
    say: "Each phone draws lots for every number, and what loses stays at home; this attacker takes the gaps for zeros.",
    ask: "Which R would be enough for you?",
    question: "Is the picture safe now?",
    asks_at: Some(1),
};

const ATTACKERS: Words = Words {
    title: "Attackers",
    headline: "The mask is no secret",
    lines: &[
        "This attacker takes the gaps for zeros.",
        "This one knows the gaps, and fills them in.",
        "Without positions the puzzle has lost its order.",
        "Keep more numbers home where the picture is.",
    ],
    say: "The server must know which numbers are missing to add them up, so a better attacker knows it too.",
    ask: "A defence holds against one attacker: what does that say of the next?",
    question: "",
    asks_at: None,
};

const PATIENCE: Words = Words {
    title: "Patience",
    headline: "Guess, compare, guess again",
    lines: &[
        "How many seconds until we see who it is? Vote!",
        "The computer guesses until the numbers fit.",
        "This is how far patience came.",
    ],
    say: "With half of the numbers the computer still tries thousands of pictures and keeps what fits better.",
    ask: "What would it cost to make guessing take a year?",
    question: "After how many seconds do we see who it is?",
    asks_at: Some(0),
};

const TRADE_OFF: Words = Words {
    title: "Trade-off",
    headline: "How much do you keep home?",
    lines: &[
        "Left is safer, up is cleverer. Vote for R!",
        "These are your votes.",
        "Now the class runs the vote in the middle.",
    ],
    say: "Each grey dot is a class like this one: further left less leaks, further up the computer learns more.",
    ask: "Where on this curve should a hospital be?",
    question: "Which R do you choose?",
    asks_at: Some(0),
};

const MEMBERSHIP: Words = Words {
    title: "Was it you?",
    headline: "Was this photograph in it?",
    lines: &["Whoever has your photograph can ask the numbers."],
    say: "Here nobody computes a picture: somebody who has a photograph already asks whether it was used.",
    ask: "When would it hurt if people knew that your picture was in it?",
    question: "",
    asks_at: None,
};

const DEBRIEF: Words = Words {
    title: "Take home",
    headline: "What do you take home?",
    lines: &[
        "Once more, with the mask: whose picture is this?",
        "These are your votes.",
        "Three sentences to take home.",
    ],
    say: "Numbers can be a picture, a mask helps against some, and it matters who looks.",
    ask: "Would you take part with a picture of your own?",
    question: "Whose picture is behind the mask?",
    asks_at: Some(0),
};

/// The words of a scene.
pub fn words(scene: Scene) -> &'static Words {
    match scene {
        Scene::Lobby => &LOBBY,
        Scene::Promise => &PROMISE,
        Scene::Guess => &GUESS,
        Scene::April => &APRIL,
        Scene::Mask => &MASK,
        Scene::Attackers => &ATTACKERS,
        Scene::Patience => &PATIENCE,
        Scene::TradeOff => &TRADE_OFF,
        Scene::Membership => &MEMBERSHIP,
        Scene::Debrief => &DEBRIEF,
    }
}

/// The line of a step; that of the last one beyond it.
pub fn line(scene: Scene, beat: u8) -> &'static str {
    let lines = words(scene).lines;
    lines.get(usize::from(beat)).or(lines.last()).copied().unwrap_or_default()
}

pub const YES_OR_NO: [&str; 2] = ["Yes", "No"];
pub const SECONDS: &str = "seconds";
pub const PERCENT: &str = "%";

/// What the class takes home.
pub const TAKE_HOME: [&str; 3] = [
    "Numbers that leave your phone can be your picture.",
    "A defence that stops one attacker may not stop the next.",
    "Ask who sees the numbers, and what they know.",
];

/// An answer that names somebody, with the letter under the picture.
pub fn answer(place: usize, nickname: &str) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    format!("{letter} · {nickname}")
}

/// The nickname in such an answer.
pub fn answered_nickname(answer: &str) -> &str {
    answer.split_once(" · ").map_or(answer, |(_, nickname)| nickname)
}

/// What can be made out, in a word or two.
pub fn level(level: Level) -> &'static str {
    match level {
        Level::Hidden => "hidden",
        Level::Outlines => "outlines show",
        Level::Recognisable => "recognisable",
    }
}

/// What stands at pictures, axes and drawings.
pub mod label {
    pub const RECORDED: &str = "A recorded lesson";
    pub const TOOK_PART: &str = "These took part.";
    pub const ORIGINAL: &str = "original";
    pub const FROM_NUMBERS: &str = "made from numbers";
    pub const APRIL: &str = "APRIL";
    pub const USUAL_NETWORK: &str = "from the usual network";
    pub const GAPS_AS_ZEROS: &str = "takes gaps for zeros";
    pub const KNOWS_GAPS: &str = "knows the gaps";
    pub const GUESSES: &str = "what the guesses come to";
    pub const PHOTOGRAPH: &str = "the photograph";
    pub const PHONE: &str = "phone";
    pub const SERVER: &str = "server";
    pub const NUMBERS: &str = "numbers";
    pub const WAS_IN: &str = "◀ was in it";
    pub const WAS_NOT: &str = "was not ▶";
    pub const THIS_PHOTOGRAPH: &str = "● this photograph";
    pub const ALTERED_COPIES: &str = "○ altered copies of it";
    pub const LESS_LEAKS: &str = "◀ less leaks";
    pub const MORE_LEAKS: &str = "more leaks (SSIM) ▶";
    pub const NAMED_RIGHT: &str = "▲ named right";
    pub const MEASURED_BEFORE: &str = "✚ measured before";
    pub const THIS_CLASS: &str = "● this class";
}

/// Where a picture will stand.
pub mod empty {
    pub const NOBODY: &str = "Nobody is here yet.";
    pub const NOBODY_AGREED: &str = "Nobody shows a picture: robots do.";
    pub const PAUSED: &str = "Paused: no update comes.";
    pub const WAITING: &str = "Waiting for the first update…";
    pub const NOT_SHOWN: &str = "The owner does not show it.";
    pub const NO_PICTURE: &str = "Nothing to see.";
    pub const NO_SEARCH: &str = "This relay cannot search.";
    pub const NO_CURVE: &str = "No curve has come with this relay.";
    pub const NO_CANDIDATE: &str = "No photograph has been chosen yet.";
    pub const NO_SUSPECTS: &str = "Two must show their picture before the class can vote.";
}

/// The question before rounds are lost.
pub fn loses(rounds: u32) -> String {
    let rounds = super::counted(rounds, "round");
    format!("This scene begins with a new model. The class’s model has learnt for {rounds}; they are lost.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_has_one_short_message_and_a_line_for_each_step() {
        for scene in Scene::ALL {
            let words = words(scene);
            assert!((1..=8).contains(&words.headline.split_whitespace().count()), "{scene}: {}", words.headline);
            assert!(!words.lines.is_empty() && words.lines.len() < 100, "{scene}");
            for text in words.lines.iter().chain([&words.headline]) {
                // What fits one line at the size it is shown in.
                assert!((1..=52).contains(&text.chars().count()), "{scene}: {text}");
            }
            assert!(words.say.ends_with('.') && words.ask.ends_with('?'), "{scene}");
            assert_eq!(words.question.is_empty(), words.asks_at.is_none(), "{scene}");
            // A step is left to close the question.
            assert!(words.asks_at.is_none_or(|beat| usize::from(beat) + 1 < words.lines.len()), "{scene}");
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
    fn what_is_lost_is_counted() {
        assert!(loses(1).contains("for 1 round;") && loses(63).contains("for 63 rounds;"));
    }
}
