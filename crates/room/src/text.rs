//! Cleans text from untrusted sources.

use icu_properties::{CodePointSetData, props::DefaultIgnorableCodePoint};
use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

/// Returns the text as one trimmed line of at most `max` characters, without control, bidirectional and invisible
/// characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let shown = |c: &char| !is_hidden(*c);
    let words: Vec<String> = text
        .split(is_space)
        .map(|word| word.chars().filter(shown).collect())
        .filter(|word: &String| !word.is_empty())
        .collect();
    words.join(" ").chars().take(max).collect::<String>().trim_end().to_owned()
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
            prop_assert!(!name.chars().any(is_hidden));
            prop_assert_eq!(name.trim(), &name);
            prop_assert_eq!(&clean(&name, max), &name);
        }
    }
}
