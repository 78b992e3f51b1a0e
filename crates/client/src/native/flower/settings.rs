//! The training parameters: this client's own, overridden by the server's settings.

use unmask_core::Rule;
use unmask_flower::{ConfigValue, Records};

/// Most local epochs that a server may ask for in one round.
const MOST_EPOCHS: i64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowerTraining {
    /// Local epochs, at least 1.
    pub epochs: u16,
    /// Learning rate of SGD, above 0.
    pub rate: f32,
    /// Batch size, at least 1.
    pub batch: u16,
}

impl FlowerTraining {
    /// Converts a room's rule.
    ///
    /// # Errors
    /// In words, if the rule sends no weights: Flower averages only weights.
    pub fn new(rule: Rule, batch: u16) -> Result<Self, String> {
        match rule {
            Rule::FedAvg { epochs, rate } => Ok(Self { epochs, rate, batch }),
            Rule::FedSgd => Err(format!("--rule {rule}: Flower's strategies average weights; give {}", Rule::FED_AVG)),
        }
    }
}

/// Returns `training` overridden by the message's settings `lr`, `local-epochs` and `batch-size`.
///
/// # Errors
/// In words, if one of them is invalid.
pub(super) fn of_message(training: FlowerTraining, records: &Records) -> Result<FlowerTraining, String> {
    let mut training = training;
    if let Some(value) = records.setting("lr") {
        training.rate = match value {
            ConfigValue::Float(rate) => Some(*rate as f32),
            ConfigValue::Integer(rate) => Some(*rate as f32),
            _ => None,
        }
        .filter(|rate| *rate > 0.0 && rate.is_finite())
        .ok_or_else(|| format!("the setting lr is {}; a learning rate is a number above 0", shown(value)))?;
    }
    if let Some(epochs) = whole(records, "local-epochs", MOST_EPOCHS)? {
        training.epochs = epochs;
    }
    if let Some(batch) = whole(records, "batch-size", u16::MAX.into())? {
        training.batch = batch;
    }
    Ok(training)
}

fn whole(records: &Records, name: &str, most: i64) -> Result<Option<u16>, String> {
    let Some(value) = records.setting(name) else { return Ok(None) };
    let number = match value {
        ConfigValue::Integer(number) if (1..=most).contains(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let wrong = || format!("the setting {name} is {}; this node takes a whole number from 1 to {most}", shown(value));
    number.map(Some).ok_or_else(wrong)
}

fn shown(value: &ConfigValue) -> String {
    match value {
        ConfigValue::Float(value) => value.to_string(),
        ConfigValue::Integer(value) => value.to_string(),
        ConfigValue::Bool(value) => value.to_string(),
        ConfigValue::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        ConfigValue::Bytes(bytes) => format!("{} bytes", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: FlowerTraining = FlowerTraining { epochs: 2, rate: 0.1, batch: 4 };

    fn said(settings: &[(&str, ConfigValue)]) -> Result<FlowerTraining, String> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        of_message(TOLD, &Records { config: vec![("config".to_owned(), settings)], ..Records::default() })
    }

    #[test]
    fn the_server_has_the_last_word() {
        assert_eq!(said(&[]).unwrap(), TOLD);
        let all = [
            ("lr", ConfigValue::Float(0.5)),
            ("local-epochs", ConfigValue::Integer(3)),
            ("batch-size", ConfigValue::Integer(16)),
            ("server-round", ConfigValue::Integer(1)),
        ];
        assert_eq!(said(&all).unwrap(), FlowerTraining { epochs: 3, rate: 0.5, batch: 16 });
        assert_eq!(said(&[("lr", ConfigValue::Integer(1))]).unwrap().rate, 1.0);
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        for (name, value, reason) in [
            ("lr", ConfigValue::Float(f64::NAN), "the setting lr is NaN"),
            ("lr", ConfigValue::Float(-1.0), "the setting lr is -1"),
            ("lr", ConfigValue::Text("fast".to_owned()), "the setting lr is \"fast\""),
            (
                "local-epochs",
                ConfigValue::Integer(0),
                "the setting local-epochs is 0; this node takes a whole number from 1",
            ),
            ("local-epochs", ConfigValue::Integer(i64::MAX), "local-epochs is 9223372036854775807"),
            ("batch-size", ConfigValue::Float(2.0), "the setting batch-size is 2"),
        ] {
            let refused = said(&[(name, value)]).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn gradients_are_nothing_that_flower_averages() {
        assert_eq!(FlowerTraining::new("fedavg:epochs=2,rate=0.1".parse().unwrap(), 4), Ok(TOLD));
        assert!(FlowerTraining::new(Rule::FedSgd, 1).unwrap_err().contains("give fedavg:epochs=1,rate=0.1"));
    }
}
