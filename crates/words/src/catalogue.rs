//! Reads the part of Fluent that the catalogues use: text, variables, and choices by a number. The build compares every
//! message with what Fluent's own parser makes of it, so this reader may be small: each page loads it.

use std::{collections::BTreeMap, fmt::Display};

/// The messages of a catalogue by name, as they are written.
pub fn read(text: &str) -> BTreeMap<&str, String> {
    let mut messages = BTreeMap::new();
    let mut last: Option<&mut String> = None;
    for line in text.lines() {
        if line.starts_with(|first: char| first.is_ascii_lowercase()) {
            let Some((name, said)) = line.split_once(" = ") else { continue };
            last = Some(messages.entry(name).insert_entry(said.to_owned()).into_mut());
        } else if line.starts_with([' ', '}'])
            && let Some(said) = &mut last
        {
            said.push('\n');
            said.push_str(line.trim());
        }
    }
    messages
}

/// A hash of the messages' names and variables. It tells whether a translation belongs to this program.
pub fn identity(messages: &BTreeMap<&str, String>) -> u64 {
    let words = messages.iter().flat_map(|(name, message)| {
        let mut words = variables(message);
        words.sort_unstable();
        words.push(name);
        words
    });
    // FNV-1a
    let bytes = words.flat_map(|word| word.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The variables of a message in order of appearance.
pub fn variables(message: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for after in message.split('$').skip(1) {
        let name = after.split([' ', '}']).next().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A message with the values of its variables, in the order of `names`.
pub fn fill(message: &str, names: &[&str], values: &[&dyn Display]) -> String {
    let value = |variable: &str| {
        let name = variable.trim().trim_start_matches('$');
        let value = names.iter().zip(values).find(|(known, _)| **known == name).map(|(_, value)| value.to_string());
        value.unwrap_or_default()
    };
    let mut filled = String::new();
    let mut rest = message;
    while let Some((text, after)) = rest.split_once('{') {
        filled += text;
        let (inside, after) = after.split_at(end(after));
        filled += &match inside.split_once("->") {
            None => value(inside),
            Some((variable, variants)) => fill(choose(variants, &value(variable)), names, values),
        };
        rest = after.get(1..).unwrap_or_default();
    }
    filled + rest
}

/// Where the brace closes that opened before `text`.
fn end(text: &str) -> usize {
    let mut open = 1;
    let closes = |c| {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        open == 0
    };
    text.find(closes).unwrap_or(text.len())
}

/// The variant for this number, or else the default, which comes last.
fn choose<'a>(variants: &'a str, number: &str) -> &'a str {
    let variants = variants.trim().lines().filter_map(|line| {
        let (key, said) = line.trim_start_matches(['*', '[']).split_once(']')?;
        Some((key, said.trim_start()))
    });
    let mut chosen = "";
    for (key, said) in variants {
        chosen = said;
        if key == number {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Words\n\nroom-name = The room\nroom-full = { $count ->\n    [1] { $name } is\n   *[other] { $name } and { $more-names } are\n} in.\n";

    #[test]
    fn messages_are_read_and_filled() {
        let messages = read(TEXT);
        assert_eq!(messages.keys().copied().collect::<Vec<_>>(), ["room-full", "room-name"]);
        assert_eq!(fill(&messages["room-name"], &[], &[]), "The room");
        let names = variables(&messages["room-full"]);
        assert_eq!(names, ["count", "name", "more-names"]);
        let full = |count: u32| fill(&messages["room-full"], &names, &[&count, &"Ada", &3]);
        assert_eq!(full(1), "Ada is in.");
        assert_eq!(full(2), "Ada and 3 are in.");
        assert_eq!(full(11), "Ada and 3 are in.");
    }

    #[test]
    fn values_are_not_read_as_messages() {
        assert_eq!(fill("{ $name }!", &["name"], &[&"{ $name }"]), "{ $name }!");
    }

    #[test]
    fn translations_of_other_names_or_variables_are_told_apart() {
        let of = |text: &str| identity(&read(text));
        assert_eq!(of("a-b = One { $n } and { $m }\n"), of("a-b = { $m } und { $n }\n"));
        for other in ["a-c = { $n }{ $m }\n", "a-b = { $n }\n", "a-b = { $n }{ $k }\n", "a-b = { $n }{ $m }\nb-c = x\n"]
        {
            assert_ne!(of("a-b = { $n }{ $m }\n"), of(other), "{other}");
        }
    }
}
