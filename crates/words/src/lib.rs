//! The texts of the pages: a function for each message, in the current language, and the words of the lesson's
//! identifiers.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod catalogue;
mod language;
mod questions;
mod scenes;

pub use language::Language;
pub use questions::{answer, answers, question, suspect, told, verdict};
pub use scenes::{SceneWords, line, scene, take_home};

/// One function for each message in `en.ftl`: `join-no-picture` is `say::join::no_picture`.
pub mod say {
    include!(concat!(env!("OUT_DIR"), "/say.rs"));
}

/// A nickname as a page shows it. The names of the relay's own robots are translated. One that is read from right to left
/// is isolated, so that numbers beside it stay on their side.
pub fn shown_nickname(nickname: &str) -> String {
    let number = nickname.strip_prefix("robot ").and_then(|number| number.parse::<u16>().ok());
    match number {
        Some(number) => say::robot::name(number),
        None if nickname.contains(is_right_to_left) => format!("\u{2068}{nickname}\u{2069}"),
        None => nickname.to_owned(),
    }
}

/// Whether the character is in a block of scripts that are written from right to left: Hebrew, Arabic and others.
fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x590..=0x8ff | 0xfb1d..=0xfdff | 0xfe70..=0xfeff | 0x1_0800..=0x1_0fff | 0x1_e800..=0x1_efff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_are_named_in_the_pages_language() {
        Language::German.speak();
        assert_eq!((shown_nickname("robot 12").as_str(), shown_nickname("robot").as_str()), ("Roboter 12", "robot"));
    }

    #[test]
    fn names_from_right_to_left_are_isolated() {
        for (name, shown) in
            [("Zoë 2", "Zoë 2"), ("花子", "花子"), ("שרה 2", "\u{2068}שרה 2\u{2069}"), ("علی", "\u{2068}علی\u{2069}")]
        {
            assert_eq!(shown_nickname(name), shown);
        }
    }
}
