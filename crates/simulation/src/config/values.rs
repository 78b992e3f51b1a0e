//! The kinds of values that config keys take, for error messages.

use toml::{Table, Value};

use super::{EXAMPLE, MOST_CLIENTS, Origin};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Flag,
}

impl Kind {
    /// The kind of `key`'s value in the example.
    pub(super) fn of(key: &str) -> Self {
        match example(key).parse::<Table>().ok().and_then(|mut table| table.remove(key)) {
            Some(Value::Integer(_)) => Self::Number,
            Some(Value::Boolean(_)) => Self::Flag,
            _ => Self::Text,
        }
    }
}

/// Explains what to give `key` instead of `value`. `None` for a string, because its parser has a better message.
pub(super) fn refusal(key: &str, value: &Value, origin: Origin) -> Option<String> {
    let wanted = match Kind::of(key) {
        Kind::Text if value.is_str() => return None,
        Kind::Text => "a text in quotes".to_owned(),
        Kind::Number => whole_number(key),
        Kind::Flag => "true or false".to_owned(),
    };
    let example = match origin {
        Origin::Line(_) => example(key).to_owned(),
        Origin::Override => example(key).replacen(" = ", "=", 1),
    };
    Some(format!("{value} will not do; give {wanted}, such as {example}"))
}

/// The whole numbers that `key` takes.
fn whole_number(key: &str) -> String {
    let (least, most) = match key {
        "clients" | "min-kept" => (1, MOST_CLIENTS as u64),
        "batch" => (1, u16::MAX.into()),
        "rounds" | "epochs" => (1, u32::MAX.into()),
        "evaluate-every" | "checkpoint-every" => (0, u32::MAX.into()),
        "threads" | "test-pictures" => return "a whole number, 1 or more".to_owned(),
        _ => return "a whole number, 0 or more".to_owned(),
    };
    format!("a whole number from {least} to {most}")
}

/// The line `key = value` of the example, without its comment.
fn example(key: &str) -> &'static str {
    let mut lines = EXAMPLE.lines().map(|line| line.trim_start_matches("# "));
    let line = lines.find(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" = ")));
    line.and_then(|line| line.split('#').next()).unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use crate::{Config, KEYS};

    #[test]
    fn wrong_kinds_are_refused_in_plain_words_and_with_what_would_do() {
        for (text, expected) in [
            ("batch = \"many\"", "\"many\" will not do; give a whole number from 1 to 65535, such as batch = 16"),
            ("batch = 70000", "70000 will not do; give a whole number from 1 to 65535, such as batch = 16"),
            ("clients = 2.5", "2.5 will not do; give a whole number from 1 to 10000, such as clients = 5"),
            ("seed = -1", "-1 will not do; give a whole number, 0 or more, such as seed = 1"),
            ("augment = 3", "3 will not do; give true or false, such as augment = false"),
            ("optimiser = 0.1", "0.1 will not do; give a text in quotes, such as optimiser = \"adam:0.001\""),
        ] {
            let error = Config::read(text, &[]).unwrap_err().to_string();
            let key = text.split(' ').next().unwrap();
            assert_eq!(error, format!("line 1: {key}: {expected}"));
        }
        let error = Config::read("", &["threads=x".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "--set: threads: \"x\" will not do; give a whole number, 1 or more, such as threads=2");
        let error = Config::read("", &["optimiser=0.1".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("--set: optimiser: \"0.1\" is not an optimiser; write sgd:RATE"), "{error}");
    }

    #[test]
    fn every_key_has_an_example_that_works() {
        for key in KEYS {
            let error = Config::read(&format!("{key} = []"), &[]).unwrap_err().to_string();
            let proposed = error.split_once("such as ").unwrap_or_else(|| panic!("{error}")).1;
            assert!(proposed.starts_with(&format!("{key} = ")), "{error}");
            Config::read(proposed, &[]).unwrap();
        }
    }
}
