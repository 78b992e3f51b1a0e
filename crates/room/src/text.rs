//! Cleans text from untrusted sources.

use std::ops::RangeInclusive;

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        CanonicalCombiningClass, DefaultIgnorableCodePoint, EmojiModifier, ExtendedPictographic, JoiningType,
        UnifiedIdeograph,
    },
};
use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

/// An emoji of several, such as a family; some letters of Sinhala.
const JOINER: char = '\u{200d}';
/// Parts of a word in Persian.
const NON_JOINER: char = '\u{200c}';
/// A sign as an emoji.
const EMOJI_STYLE: char = '\u{fe0f}';
/// Makes a digit a key, after [`EMOJI_STYLE`].
const KEYCAP: char = '\u{20e3}';
/// Each chooses a form of the ideograph before it, as Japanese names have them.
const FORMS: RangeInclusive<char> = '\u{e0100}'..='\u{e01ef}';
/// The neighbours that a joiner is judged by, so that a hostile text costs no more than another.
const NEAR: usize = 16;

/// Returns the text as one trimmed line of at most `max` characters, without control, bidirectional and invisible
/// characters. Of the latter, those stay that join emoji or letters, or choose the form
/// of an ideograph.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let words: Vec<String> = text.split(is_space).map(shown).filter(|word| !word.is_empty()).collect();
    let cut: String = words.join(" ").chars().take(max).collect();
    // What joined the last character to the next one joins nothing now.
    shown(&cut).trim_end().to_owned()
}

fn shown(text: &str) -> String {
    let mut kept = Vec::new();
    let mut rest = text.chars().filter(|c| !is_hidden(*c) || is_joiner(*c));
    while let Some(c) = rest.next() {
        if !is_joiner(c) || joins(&kept, c, rest.clone().take(NEAR).filter(|c| !is_joiner(*c))) {
            kept.push(c);
        }
    }
    kept.into_iter().collect()
}

fn is_joiner(c: char) -> bool {
    matches!(c, JOINER | NON_JOINER | EMOJI_STYLE) || FORMS.contains(&c)
}

/// Whether the joiner makes a difference to how its neighbours look: the rules of emoji sequences (UTS 51) and of domain
/// names (RFC 5892, A.1 and A.2).
fn joins(before: &[char], joiner: char, mut after: impl Iterator<Item = char>) -> bool {
    let is_picture = |c: &char| CodePointSetData::new::<ExtendedPictographic>().contains(*c);
    let is_virama =
        |c: &char| CodePointMapData::<CanonicalCombiningClass>::new().get(*c) == CanonicalCombiningClass::Virama;
    let joining = |c: &char| CodePointMapData::<JoiningType>::new().get(*c);
    let last = before.last();
    match joiner {
        _ if FORMS.contains(&joiner) => last.is_some_and(|c| CodePointSetData::new::<UnifiedIdeograph>().contains(*c)),
        EMOJI_STYLE if last.is_some_and(is_picture) => true,
        EMOJI_STYLE => last.is_some_and(|c| matches!(c, '0'..='9' | '#' | '*')) && after.next() == Some(KEYCAP),
        _ if last.is_some_and(is_virama) => true,
        JOINER => {
            let is_style = |c: &&char| **c == EMOJI_STYLE || CodePointSetData::new::<EmojiModifier>().contains(**c);
            let picture = before.iter().rev().take(NEAR).find(|c| !is_style(c));
            picture.is_some_and(is_picture) && after.next().is_some_and(|c| is_picture(&c))
        }
        _ => {
            let letter = |c: &JoiningType| *c != JoiningType::Transparent;
            let left = before.iter().rev().take(NEAR).map(joining).find(letter);
            let right = after.map(|c| joining(&c)).find(letter);
            matches!(left, Some(JoiningType::LeftJoining | JoiningType::DualJoining))
                && matches!(right, Some(JoiningType::RightJoining | JoiningType::DualJoining))
        }
    }
}

/// Returns a clean name in NFKC form, so that the same letters give the same name.
pub(crate) fn clean_name(text: &str, max: usize) -> String {
    // Clean twice: hidden characters can prevent composition, and composition can produce spaces.
    clean(&clean(text, usize::MAX).nfkc().collect::<String>(), max)
}

/// Whether two names look alike, even with different letters (Unicode's confusables, UTS 39).
pub(crate) fn look_alike(one: &str, other: &str) -> bool {
    skeleton(one).eq(skeleton(other))
}

/// Whether this is white space or the Braille pattern without dots.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

/// Whether the character is invisible. Bidirectional controls, zero-width characters, fillers and tags are all
/// default-ignorable.
fn is_hidden(c: char) -> bool {
    c.is_control() || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_go() {
        for (text, shown) in [
            ("Ada", "Ada"),
            ("\u{202e}adA\u{202c}", "adA"),
            ("A\u{200b}d\u{ad}a\u{feff}", "Ada"),
            ("Ada\u{2066}\u{e0041}\u{3164}", "Ada"),
            (" Ada \u{2003}\u{2028} Lovelace\n", "Ada Lovelace"),
            ("\u{2800}\u{115f}", ""),
            ("a\u{1b}[31mb", "a[31mb"),
        ] {
            assert_eq!(clean(text, 100), shown, "{text:?}");
        }
        assert_eq!(clean("abc def", 4), "abc");
    }

    #[test]
    fn what_joins_letters_and_emoji_stays() {
        for text in [
            "👨‍👩‍👧",
            "👩🏽‍🚀",
            "❤️‍🔥 Ada",
            "1️⃣",
            "辻\u{e0100}",
            // Persian, Sinhala, Malayalam.
            "علی\u{200c}رضا",
            "ශ්\u{200d}රී",
            "പാര്\u{200d}വതി",
        ] {
            assert_eq!(clean_name(text, 24), text, "{text:?}");
            // Nobody else can have a name that looks like it.
            assert!(look_alike(text, &text.replace(is_joiner, "")), "{text:?}");
        }
        for (text, left) in [
            ("A\u{200d}d\u{200c}a\u{fe0f}", "Ada"),
            ("👨\u{200d}Ada", "👨Ada"),
            ("\u{200d}👨\u{200d}", "👨"),
            ("👨\u{200d}\u{200d}👩", "👨\u{200d}👩"),
            ("1\u{fe0f}", "1"),
            ("A\u{e0100}辻\u{e0100}\u{e0101}", "A辻\u{e0100}"),
            // The letter before does not join to the left anyway.
            ("ر\u{200c}ی", "ری"),
        ] {
            assert_eq!(clean_name(text, 24), left, "{text:?}");
        }
        // As long as a message may be.
        let joiners = "\u{200c}".repeat(1_000_000);
        assert_eq!(clean(&format!("ی{joiners}خ"), 4), "ی\u{200c}خ");
        assert_eq!(clean("👨\u{200d}👩\u{200d}👧", 4), "👨\u{200d}👩");
        assert_eq!(clean("علی\u{200c}رضا", 4), "علی");
    }

    #[test]
    fn names_of_the_same_letters_are_the_same() {
        for (text, name) in [
            ("A\u{308}da", "Äda"),
            ("A\u{200b}\u{308}da", "Äda"),
            ("\u{ff21}\u{ff44}\u{ff41}", "Ada"),
            ("\u{1d400}da", "Ada"),
            ("\u{ffa0}", ""),
        ] {
            assert_eq!(clean_name(text, 24), name, "{text:?}");
        }
    }

    #[test]
    fn look_alikes() {
        // A Cyrillic a, and a digit in place of a letter.
        for (one, other) in [("Ada", "Ad\u{430}"), ("Bill", "Bi1l"), ("Ada", "Ada")] {
            assert!(look_alike(one, other), "{one} {other}");
        }
        for (one, other) in [("Ada", "ada"), ("Ada", "Bob"), ("Ada", "Ada 2")] {
            assert!(!look_alike(one, other), "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn names_are_clean_whatever_is_asked(text in any::<String>(), max in 1..30usize) {
            let name = clean_name(&text, max);
            prop_assert!(name.chars().count() <= max);
            prop_assert!(!name.chars().any(|c| is_hidden(c) && !is_joiner(c)));
            prop_assert_eq!(name.trim(), &name);
            prop_assert_eq!(&clean(&name, max), &name);
        }
    }
}
