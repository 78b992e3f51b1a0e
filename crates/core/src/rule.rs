use std::{fmt, str::FromStr};

/// The update rule of a round: what a client computes and sends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Rule {
    /// The client sends the gradient of one batch; the server steps (FLRSP Eqs. 1 and 2).
    #[default]
    FedSgd,
    /// The client trains with SGD on its samples and sends its weights; the server averages them by number of samples
    /// (Eqs. 3 and 4).
    FedAvg {
        /// Passes over the client's samples, at least 1.
        epochs: u16,
        /// Learning rate of the local steps, above 0.
        rate: f32,
    },
}

impl Rule {
    /// FedAvg's default: one pass at a rate of 0.1.
    pub const FED_AVG: Self = Self::FedAvg { epochs: 1, rate: 0.1 };

    /// Whether clients send weights instead of gradients.
    pub fn is_fedavg(self) -> bool {
        matches!(self, Self::FedAvg { .. })
    }

    /// Number of local steps over this many samples in batches of at most `batch`; a single gradient counts as one
    /// step.
    pub fn local_steps(self, samples: u32, batch: u16) -> u64 {
        match self {
            Self::FedSgd => 1,
            Self::FedAvg { epochs, .. } => {
                u64::from(epochs) * u64::from(samples.div_ceil(u32::from(batch.max(1))).max(1))
            }
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::FedSgd => "FedSGD",
            Self::FedAvg { .. } => "FedAvg",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FedSgd => f.write_str("fedsgd"),
            Self::FedAvg { epochs, rate } => write!(f, "fedavg:epochs={epochs},rate={rate}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRuleError {
    #[error("unknown rule \"{0}\"; the rules are fedsgd and fedavg:epochs=1,rate=0.1")]
    Name(String),
    #[error("fedsgd takes no parameter, but \"{0}\" follows it")]
    Surplus(String),
    #[error("fedavg has no parameter \"{0}\"; it takes epochs=NUMBER and rate=NUMBER")]
    Parameter(String),
    #[error("fedavg: \"{0}\" is not a number of local epochs; give a whole number from 1 to 65535")]
    Epochs(String),
    #[error("fedavg: \"{0}\" is not a local learning rate; give a number above 0, such as 0.1")]
    Rate(String),
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let (name, parameters) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        match name {
            "fedsgd" if parameters.is_empty() => Ok(Self::FedSgd),
            "fedsgd" => Err(ParseRuleError::Surplus(parameters.to_owned())),
            "fedavg" => fedavg(parameters),
            _ => Err(ParseRuleError::Name(name.to_owned())),
        }
    }
}

fn fedavg(parameters: &str) -> Result<Rule, ParseRuleError> {
    let Rule::FedAvg { mut epochs, mut rate } = Rule::FED_AVG else { return Ok(Rule::FED_AVG) };
    for part in parameters.split(',').filter(|part| !part.trim().is_empty()) {
        // A number alone is that of the epochs.
        let number = || part.trim().starts_with(|first: char| first.is_ascii_digit()).then_some(("epochs", part));
        let (key, value) =
            part.split_once('=').or_else(number).ok_or_else(|| ParseRuleError::Parameter(part.to_owned()))?;
        let value = value.trim();
        match key.trim() {
            "epochs" => {
                let number = value.parse().ok().filter(|epochs| *epochs > 0);
                epochs = number.ok_or_else(|| ParseRuleError::Epochs(value.to_owned()))?;
            }
            "rate" => {
                let number = value.parse().ok().filter(|rate: &f32| rate.is_finite() && *rate > 0.0);
                rate = number.ok_or_else(|| ParseRuleError::Rate(value.to_owned()))?;
            }
            key => return Err(ParseRuleError::Parameter(key.to_owned())),
        }
    }
    Ok(Rule::FedAvg { epochs, rate })
}

crate::text::serde_as_text!(Rule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_batch_of_each_epoch_is_a_step() {
        let fed_avg = Rule::FedAvg { epochs: 3, rate: 0.1 };
        assert_eq!(
            [(8, 8), (9, 8), (0, 8), (9, 0)].map(|(samples, batch)| fed_avg.local_steps(samples, batch)),
            [3, 6, 3, 27]
        );
        assert_eq!(Rule::FedSgd.local_steps(9, 8), 1);
    }

    #[test]
    fn string_form_round_trips() {
        for rule in [Rule::FedSgd, Rule::FED_AVG, Rule::FedAvg { epochs: 7, rate: 1e-5 }] {
            assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
        }
        assert_eq!("fedavg".parse::<Rule>().unwrap(), Rule::FED_AVG);
        assert_eq!("fedavg:3".parse::<Rule>().unwrap(), Rule::FedAvg { epochs: 3, rate: 0.1 });
        assert_eq!("fedavg: rate = 0.01".parse::<Rule>().unwrap(), Rule::FedAvg { epochs: 1, rate: 0.01 });
    }

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("fedprox", "unknown rule \"fedprox\""),
            ("fedsgd:1", "\"1\" follows"),
            ("fedavg:steps=3", "\"steps\""),
            ("fedavg:epochs=0", "\"0\" is not a number of local epochs"),
            ("fedavg:rate=-1", "\"-1\" is not a local learning rate"),
            ("fedavg:rate=nan", "\"nan\""),
            ("fedavg:0", "\"0\" is not a number of local epochs"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
