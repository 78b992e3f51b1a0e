//! The texts of the pages: a function for each message of the catalogues, in the language now in force, and the words
//! of the lesson's identifiers.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod language;
mod questions;
mod scenes;

pub use language::Language;
pub use questions::{answer, answers, question, suspect, told, verdict};
pub use scenes::{SceneWords, line, scene, take_home};

/// One function for each message in the catalogues: `join-no-picture` is `say::join::no_picture`.
pub mod say {
    include!(concat!(env!("OUT_DIR"), "/say.rs"));
}

/// A nickname as a page shows it. The names of the relay's own robots are translated.
pub fn shown_nickname(nickname: &str) -> String {
    let number = nickname.strip_prefix("robot ").and_then(|number| number.parse::<u16>().ok());
    number.map_or_else(|| nickname.to_owned(), say::robot::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_are_named_in_the_pages_language() {
        Language::German.speak();
        assert_eq!((shown_nickname("robot 12").as_str(), shown_nickname("robot").as_str()), ("Roboter 12", "robot"));
    }
}
