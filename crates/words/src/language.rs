//! The language of the page. English is compiled in. A page loads a translation only for somebody who reads it; native
//! programs contain them all.

use std::{cell::Cell, fmt::Display, sync::OnceLock};

use crate::{catalogue, say};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    #[default]
    English,
    German,
    Japanese,
}

thread_local! {
    /// A page has one thread, and so does each test.
    static NOW: Cell<Language> = const { Cell::new(Language::English) };
}

/// The messages of a translation, in the order of their names.
type Translation = Vec<&'static str>;

static GERMAN: OnceLock<Translation> = OnceLock::new();
static JAPANESE: OnceLock<Translation> = OnceLock::new();

/// The message of this number in the current language, or else in English. Each call brings its English text, so that a
/// page contains only its own.
pub(crate) fn message(number: usize, english: &'static str) -> &'static str {
    Language::now().translation().and_then(|messages| messages.get(number).copied()).unwrap_or(english)
}

/// The message with the values of its variables, in the order in which the English text names them.
pub(crate) fn filled(number: usize, english: &'static str, values: &[&dyn Display]) -> String {
    catalogue::fill(message(number, english), &catalogue::variables(english), values)
}

impl Language {
    pub const ALL: [Self; 3] = [Self::English, Self::German, Self::Japanese];

    pub fn now() -> Self {
        NOW.get()
    }

    /// Whether this program has the language's texts.
    pub fn is_known(self) -> bool {
        self == Self::English || self.translation().is_some()
    }

    /// Takes the texts from the language's catalogue, the file at its [`address`](Self::address).
    ///
    /// # Errors
    /// If the catalogue has other messages than this program, or messages with other variables.
    pub fn learn(self, catalogue: &str) -> Result<(), &'static str> {
        let messages = catalogue::read(catalogue);
        if catalogue::identity(&messages) != say::IDENTITY {
            return Err("the translation is of another version: reload the page");
        }
        if let Some(place) = self.place() {
            // A page reads at most two catalogues and keeps them.
            place.get_or_init(|| messages.into_values().map(|text| &*text.leak()).collect());
        }
        Ok(())
    }

    /// The address of the translation's file beside a page. Another build has another address, so that no cache mixes
    /// them.
    pub fn address(self) -> String {
        format!("translations/{}.ftl?{:x}", self.tag(), say::IDENTITY)
    }

    fn place(self) -> Option<&'static OnceLock<Translation>> {
        match self {
            Self::English => None,
            Self::German => Some(&GERMAN),
            Self::Japanese => Some(&JAPANESE),
        }
    }

    fn translation(self) -> Option<&'static Translation> {
        #[cfg(not(target_family = "wasm"))]
        if self.place().is_some_and(|place| place.get().is_none()) {
            let texts = ["", include_str!("../translations/de.ftl"), include_str!("../translations/ja.ftl")];
            // The build has compared them.
            let _ = self.learn(self.choose(texts));
        }
        self.place()?.get()
    }

    /// Makes this the current language.
    pub fn speak(self) {
        NOW.set(self);
    }

    /// Runs `say` in this language.
    pub fn speaking<T>(self, say: impl FnOnce() -> T) -> T {
        let before = NOW.replace(self);
        let said = say();
        NOW.set(before);
        said
    }

    /// The BCP 47 tag, for `lang` attributes.
    pub fn tag(self) -> &'static str {
        self.choose(["en", "de", "ja"])
    }

    /// The language's own name for itself.
    pub fn own_name(self) -> &'static str {
        self.choose(["English", "Deutsch", "日本語"])
    }

    /// The short form of [`own_name`](Self::own_name).
    pub fn short_name(self) -> &'static str {
        self.choose(["EN", "DE", "日"])
    }

    /// Reads a tag, ignoring script and region.
    pub fn read(tag: &str) -> Option<Self> {
        let primary = tag.split(['-', '_']).next()?;
        Self::ALL.into_iter().find(|language| language.tag().eq_ignore_ascii_case(primary))
    }

    /// The first supported language of `tags`, which a browser lists in its user's order; English if there is none.
    pub fn preferred<'a>(tags: impl IntoIterator<Item = &'a str>) -> Self {
        tags.into_iter().find_map(Self::read).unwrap_or_default()
    }

    /// The next language, cyclically.
    pub fn next(self) -> Self {
        self.choose([Self::German, Self::Japanese, Self::English])
    }

    /// Writes a number that has a decimal point the way this language does.
    pub fn decimal(self, number: String) -> String {
        match self {
            Self::German => number.replace('.', ","),
            Self::English | Self::Japanese => number,
        }
    }

    /// Picks the value for this language from values in the order of [`ALL`](Self::ALL).
    pub fn choose<T>(self, [english, german, japanese]: [T; 3]) -> T {
        match self {
            Self::English => english,
            Self::German => german,
            Self::Japanese => japanese,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::Path};

    use super::*;

    #[test]
    fn a_catalogue_of_another_version_is_refused() {
        let text = include_str!("../translations/de.ftl");
        assert!(Language::German.learn(&text.replace("page-close", "page-shut")).unwrap_err().contains("reload"));
        assert_eq!(Language::German.learn(text), Ok(()));
        assert!(Language::ALL.into_iter().all(Language::is_known));
    }

    #[test]
    fn the_browsers_first_language_that_there_is_counts() {
        assert_eq!(Language::preferred(["fr-CH", "de-CH", "en"]), Language::German);
        assert_eq!(Language::preferred(["ja"]), Language::Japanese);
        assert_eq!(Language::preferred(["EN_GB", "de"]), Language::English);
        assert_eq!(Language::preferred(["dent", "x-de", ""]), Language::English);
        assert_eq!(Language::preferred([]), Language::English);
    }

    #[test]
    fn every_language_comes_round() {
        for (place, language) in Language::ALL.into_iter().enumerate() {
            assert_eq!(language.next(), Language::ALL[(place + 1) % Language::ALL.len()]);
            assert_eq!(Language::read(language.tag()), Some(language));
        }
    }

    #[test]
    fn what_is_said_in_passing_changes_nothing() {
        Language::German.speak();
        assert_eq!(Language::Japanese.speaking(say::bar::next), "次へ");
        assert_eq!(say::bar::next(), "Weiter");
        assert_eq!(say::vote::count(1), "1 Stimme");
        assert_eq!(say::vote::count(0), "0 Stimmen");
        assert_eq!(Language::now().decimal("0.5".to_owned()), "0,5");
        Language::English.speak();
        assert_eq!((say::vote::count(1).as_str(), say::vote::count(3).as_str()), ("1 vote", "3 votes"));
    }

    /// The messages of a catalogue by name, each joined into one line, and the catalogue's whole text.
    fn catalogue(language: Language) -> (BTreeMap<String, String>, String) {
        let folder = if language == Language::English { "" } else { "translations/" };
        let path = format!("{}/{folder}{}.ftl", env!("CARGO_MANIFEST_DIR"), language.tag());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut messages = BTreeMap::new();
        let mut name = String::new();
        for line in text.lines() {
            match line.split_once(" = ").filter(|_| line.starts_with(|first: char| first.is_ascii_lowercase())) {
                Some((next, said)) => {
                    name = next.to_owned();
                    messages.insert(name.clone(), said.to_owned());
                }
                None if line.starts_with([' ', '}']) => {
                    let said = messages.get_mut(&name).expect("a message begins with its name");
                    said.push(' ');
                    said.push_str(line.trim());
                }
                None => {}
            }
        }
        (messages, text)
    }

    /// A text that equals the English one may contain no words, or only words that both languages share. (The build
    /// rejects a catalogue that lacks a message.)
    #[test]
    fn nothing_is_left_in_english() {
        const UNITS_AND_NAMES: [&str; 6] = ["unmask", "PIN", "APRIL", "ms", "min", "s"];
        let (english, _) = catalogue(Language::English);
        assert!(english.len() > 300, "{} messages", english.len());
        let is_wordless = |said: &str, alike: &[&str]| {
            let words = said.split_whitespace().filter(|word| !word.starts_with(['{', '}', '$', '[', '*']));
            words
                .filter(|word| word.chars().any(char::is_alphabetic))
                .all(|word| UNITS_AND_NAMES.contains(&word) || alike.contains(&word))
        };
        for (language, alike) in [(Language::German, ["optional", "Pause"].as_slice()), (Language::Japanese, &[])] {
            let (said, _) = catalogue(language);
            let left: Vec<_> = said
                .iter()
                .filter(|(name, said)| english.get(*name) == Some(said) && !is_wordless(said, alike))
                .collect();
            assert!(left.is_empty(), "{}: {left:?}", language.own_name());
        }
        assert!(is_wordless("{ $minutes } min { $seconds } s", &[]));
        for said in ["{ $name }: no answer", "{ $count -> [1] one vote *[other] { $count } votes }"] {
            assert!(!is_wordless(said, &[]), "{said}");
        }
    }

    fn sources(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).expect("a source");
                // Texts used only in tests do not count.
                text.push_str(source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
            }
        }
    }

    #[test]
    fn every_message_is_said_somewhere() {
        let mut text = String::new();
        for name in ["words", "tab"] {
            sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut text);
        }
        let is_said = |function: &str| {
            text.match_indices(&format!("say::{function}")).any(|(at, found)| {
                let next = text[at + found.len()..].chars().next();
                !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
            })
        };
        let unused: Vec<&&str> = say::FUNCTIONS.iter().filter(|function| !is_said(function)).collect();
        assert!(unused.is_empty(), "nobody says {unused:?}");
    }

    #[test]
    fn every_language_quotes_in_its_own_way() {
        for (language, foreign) in [
            (Language::English, ['„', '「', '"']),
            (Language::German, ['”', '「', '"']),
            (Language::Japanese, ['„', '“', '"']),
        ] {
            let (_, text) = catalogue(language);
            assert!(!text.contains(foreign), "{}", language.own_name());
        }
    }
}
