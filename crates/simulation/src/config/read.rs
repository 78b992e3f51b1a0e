//! Reads a config file and the overrides from the command line.

use std::fmt;

use serde::Deserialize;
use toml::{Table, Value, de::DeTable};
use unmask_core::Defence;

use super::{
    Config, ConfigError,
    values::{Kind, refusal},
};

pub const KEYS: [&str; 27] = [
    "model",
    "april-block",
    "start",
    "fresh-head",
    "data",
    "data-dir",
    "train-slice",
    "clients",
    "partition",
    "rule",
    "optimiser",
    "schedule",
    "defence",
    "masks",
    "min-kept",
    "secure-sum",
    "passphrase",
    "batch",
    "rounds",
    "epochs",
    "augment",
    "seed",
    "device",
    "threads",
    "evaluate-every",
    "test-pictures",
    "checkpoint-every",
];

/// Where a key was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This line of the file, counted from 1.
    Line(usize),
    /// On the command line.
    Override,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Override => f.write_str("--set"),
        }
    }
}

impl Config {
    /// Reads TOML, then applies the `overrides`, each `KEY=VALUE`. A value that is not TOML is taken as a string. Keys
    /// that neither mentions keep their [`Config::default`]. If an override chooses a defence that does not encrypt,
    /// the file's passphrase is dropped.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, its line and the remedy. [`validate`](Self::validate) checks whether the values
    /// fit together.
    pub fn read(text: &str, overrides: &[String]) -> Result<Self, ConfigError> {
        let syntax = |error: toml::de::Error| ConfigError::Syntax {
            line: line(text, error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        };
        let places = DeTable::parse(text).map_err(syntax)?;
        let mut table: Table = text.parse().map_err(syntax)?;
        for key in places.get_ref().keys() {
            let origin = Origin::Line(line(text, key.span().start));
            let name: &str = key.get_ref();
            known(name, origin)?;
            if let Some(value) = table.get(name) {
                fitting(name, value, origin)?;
            }
        }
        let (passphrase, mut keeps_defence) = (table.remove("passphrase"), true);
        for text in overrides {
            let (key, value) = overriding(text)?;
            table.insert(key.to_owned(), value);
            match key {
                // A run has one length, so an override replaces the file's other key.
                "rounds" => drop(table.remove("epochs")),
                "epochs" => drop(table.remove("rounds")),
                "defence" => keeps_defence = false,
                _ => {}
            }
        }
        if let Some(passphrase) = passphrase.filter(|_| keeps_defence || is_encrypted(&table)) {
            table.entry("passphrase").or_insert(passphrase);
        }
        // Each key was checked on its own before, so a remaining error has no line.
        Self::deserialize(table).map_err(|error| ConfigError::Syntax { line: 1, reason: error.message().to_owned() })
    }
}

/// Whether the defence of `table` needs a passphrase.
fn is_encrypted(table: &Table) -> bool {
    let defence = table.get("defence").and_then(Value::as_str).and_then(|text| text.parse::<Defence>().ok());
    defence.is_some_and(|defence| defence.is_encrypted())
}

fn overriding(text: &str) -> Result<(&str, Value), ConfigError> {
    let (key, given) = text.split_once('=').ok_or_else(|| ConfigError::Override(text.to_owned()))?;
    let (key, given) = (key.trim(), given.trim());
    known(key, Origin::Override)?;
    let parsed = format!("value = {given}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = match parsed {
        // A passphrase may look like a number.
        Some(value) if value.is_str() || Kind::of(key) != Kind::Text => value,
        _ => Value::String(given.to_owned()),
    };
    fitting(key, &value, Origin::Override)?;
    Ok((key, value))
}

fn known(key: &str, origin: Origin) -> Result<(), ConfigError> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    let nearest = KEYS.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, key)).unwrap_or(KEYS[0]);
    Err(ConfigError::UnknownKey { origin, key: key.to_owned(), nearest })
}

fn fitting(key: &str, value: &Value, origin: Origin) -> Result<(), ConfigError> {
    let alone = Table::from_iter([(key.to_owned(), value.clone())]);
    let bad = |error: toml::de::Error| {
        let reason = refusal(key, value, origin).unwrap_or_else(|| error.message().trim().to_owned());
        ConfigError::Value { origin, key: key.to_owned(), reason }
    };
    Config::deserialize(alone).map(drop).map_err(bad)
}

/// The line number of a byte, from 1.
fn line(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, overrides: &[&str]) -> String {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Config::read(text, &overrides).unwrap_err().to_string()
    }

    /// `KEYS` are exactly the fields: a single key is refused by name only if it is unknown.
    #[test]
    fn keys_are_the_fields() {
        for key in KEYS {
            let alone = Table::from_iter([(key.to_owned(), Value::Array(Vec::new()))]);
            let error = Config::deserialize(alone).unwrap_err();
            assert!(!error.message().contains("unknown field"), "{key}: {error}");
        }
        let error = Config::deserialize(Table::from_iter([("no-key".to_owned(), Value::Integer(1))])).unwrap_err();
        assert_eq!(error.message().matches('`').count(), 2 * (KEYS.len() + 1), "{error}");
    }

    #[test]
    fn example_is_valid_and_shows_every_key() {
        let config = Config::read(super::super::EXAMPLE, &[]).unwrap();
        config.validate().unwrap();
        for key in KEYS {
            let shown = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
            assert!(super::super::EXAMPLE.lines().any(shown), "{key}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        let text = "model = \"vit_nano_patch4_32\"\n\nclinets = 5\n";
        assert_eq!(
            error(text, &[]),
            "line 3: there is no key \"clinets\"; did you mean \"clients\"? `unmask train --example` shows all keys"
        );
        assert!(error("test_pictures = 3", &[]).contains("did you mean \"test-pictures\""));
        assert!(
            error("", &["defense=none"]).starts_with("--set: there is no key \"defense\"; did you mean \"defence\"")
        );
        assert!(error("[training]\nrounds = 3", &[]).starts_with("line 1: there is no key \"training\""));
    }

    #[test]
    fn a_bad_value_is_named_with_its_key_and_line() {
        for (text, expected) in [
            ("seed = 1\nbatch = \"many\"", "line 2: batch: \"many\" will not do; give a whole number from 1 to 65535"),
            ("\ndefence = \"random-binary:2\"", "line 2: defence: random-binary: 2 is not a share of zeros"),
            ("rule = \"fedprox\"", "line 1: rule: unknown rule \"fedprox\""),
            ("partition = \"even\"", "line 1: partition: unknown partition \"even\""),
            ("optimiser = \"lion:1\"", "line 1: optimiser: \"lion:1\" is not an optimiser"),
            ("device = \"tpu\"", "line 1: device: there is no device \"tpu\"; write cpu or gpu"),
            ("train-slice = \"all\"", "line 1: train-slice: \"all\" is not a range of pictures"),
            ("seed = 1\nseed = 2", "line 2: duplicate key"),
            ("seed = 1\nclients == 2", "line 2: "),
        ] {
            assert!(error(text, &[]).starts_with(expected), "{}", error(text, &[]));
        }
        assert!(error("", &["batch=many"]).starts_with("--set: batch: \"many\" will not do; give a whole number"));
        assert_eq!(error("", &["batch"]), "\"batch\" sets nothing; write KEY=VALUE, such as clients=10");
    }

    #[test]
    fn the_command_line_has_the_last_word() {
        let overrides = ["clients = 7", "defence=random-binary:0.5", "epochs=2", "passphrase=123"].map(str::to_owned);
        let config = Config::read("clients = 3\nrounds = 10\nbatch = 4", &overrides).unwrap();
        assert_eq!((config.clients, config.batch, config.rounds, config.epochs), (7, 4, None, Some(2)));
        assert_eq!(
            (config.defence.to_string().as_str(), config.passphrase.as_deref()),
            ("random-binary:0.5", Some("123"))
        );
    }

    #[test]
    fn a_defence_without_keys_leaves_the_passphrase_of_the_file_out() {
        let text = "rounds = 3\noptimiser = \"sgd:0.1\"\ndefence = \"encrypted\"\npassphrase = \"violet otter\"";
        for (overrides, passphrase) in [
            (&[][..], Some("violet otter")),
            (&["defence=encrypted:keyed"], Some("violet otter")),
            (&["passphrase=secret otter"], Some("secret otter")),
            (&["defence=none"], None),
        ] {
            let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
            let config = Config::read(text, &overrides).unwrap();
            assert_eq!(config.passphrase.as_deref(), passphrase, "{overrides:?}");
            config.validate().unwrap();
        }
        let both = ["passphrase=secret otter", "defence=none"].map(str::to_owned);
        let error = Config::read(text, &both).unwrap().validate().unwrap_err().to_string();
        assert!(error.contains("a passphrase is given, but defence = \"none\" encrypts nothing"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_back_but_for_the_passphrase() {
        let overrides = ["rounds=3", "train-slice=1..4", "defence=encrypted", "passphrase=secret otter", "threads=2"];
        let config = Config::read("", &overrides.map(str::to_owned)).unwrap();
        let text = config.to_toml();
        assert!(!text.contains("otter"), "{text}");
        assert_eq!(Config::read(&text, &["passphrase=secret otter".to_owned()]).unwrap(), config);
    }

    #[test]
    fn values_that_contradict_each_other_are_refused_with_the_remedy() {
        for (overrides, expected) in [
            (vec![], "nothing says how long to train; give rounds = 300 or epochs = 10"),
            (vec!["rounds=0"], "rounds = 0 will not do; give at least 1"),
            (vec!["rounds=5", "clients=0"], "clients = 0 will not do; give 1 to 10000"),
            (vec!["rounds=5", "min-kept=0"], "min-kept = 0 will not do; give 1 to 5, the number of clients"),
            (vec!["rounds=5", "min-kept=6"], "min-kept = 6 will not do; give 1 to 5, the number of clients"),
            (vec!["rounds=5", "batch=0"], "a batch of 0 samples trains nothing; give at least 1"),
            (vec!["rounds=5", "threads=0"], "threads = 0 will not do"),
            (vec!["rounds=5", "model=vit_giant"], "model: unknown model \"vit_giant\""),
            (
                vec!["rounds=5", "schedule=cosine:warmup=5"],
                "schedule = cosine:warmup=5 will not do; give a warm-up shorter",
            ),
            (vec!["rounds=5", "defence=encrypted", "optimiser=sgd:0.1"], "defence = \"encrypted\" needs a passphrase"),
            (
                vec!["rounds=5", "masks=epoch", "defence=frozen-binary:0.5"],
                "masks = \"epoch\" keeps a client's mask for a pass over its pictures, but defence = \"frozen-binary:0.5\" draws none",
            ),
            (vec!["rounds=5", "passphrase=x"], "a passphrase is given, but defence = \"none\" encrypts nothing"),
            (vec!["rounds=5", "defence=encrypted", "passphrase=x"], "adam:0.001 cannot run on encrypted updates"),
            (
                vec!["rounds=5", "defence=encrypted", "passphrase=x", "model=resnet_nano", "optimiser=sgd:0.1"],
                "defence: Encrypted protects embeddings, and resnet_nano has none",
            ),
            (vec!["rounds=5", "start=pretrained", "model=resnet_nano"], "start = \"pretrained\" is available for "),
        ] {
            let overrides: Vec<String> = overrides.into_iter().map(str::to_owned).collect();
            let error = Config::read("", &overrides).unwrap().validate().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let both = Config::read("rounds = 1\nepochs = 2", &[]).unwrap().validate().unwrap_err();
        assert_eq!(both, ConfigError::TwoLengths { rounds: 1, epochs: 2 });
    }
}
