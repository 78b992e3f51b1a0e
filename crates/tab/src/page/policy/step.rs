//! What the server steps by.

use std::{fmt, str::FromStr};

use unmask_core::{Defence, Rule};

/// The server's step, as the room's view writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Plain SGD at this rate.
    Sgd(f32),
    /// Adam at this rate.
    Adam(f32),
}

impl Step {
    /// SGD at the rate that is proposed in Adam's place.
    pub const PROPOSED_SGD: Self = Self::Sgd(0.1);

    /// Adam at the rate that is proposed in SGD's place.
    pub const PROPOSED_ADAM: Self = Self::Adam(0.001);

    /// Its learning rate per round.
    pub fn rate(self) -> f32 {
        match self {
            Self::Sgd(rate) | Self::Adam(rate) => rate,
        }
    }

    /// Whether it is Adam.
    pub fn is_adam(self) -> bool {
        matches!(self, Self::Adam(_))
    }

    /// The same kind of step at a rate as typed.
    ///
    /// # Errors
    /// [`StepError`], which names what was typed.
    pub fn with_rate(self, rate: &str) -> Result<Self, StepError> {
        let name = if self.is_adam() { "adam" } else { "sgd" };
        format!("{name}:{rate}").parse()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sgd(rate) => write!(f, "sgd:{rate}"),
            Self::Adam(rate) => write!(f, "adam:{rate}"),
        }
    }
}

/// A string that names no step of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("“{0}” is no server step; give SGD or Adam a rate above 0, such as 0.001")]
pub struct StepError(String);

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let error = || StepError(text.to_owned());
        let (name, rate) = text.split_once(':').ok_or_else(error)?;
        let rate = rate.trim().parse().ok().filter(|rate: &f32| rate.is_finite() && *rate > 0.0).ok_or_else(error)?;
        match name {
            "sgd" => Ok(Self::Sgd(rate)),
            "adam" => Ok(Self::Adam(rate)),
            _ => Err(error()),
        }
    }
}

/// Whether plain SGD on the server would remove what the relay refused: Adam's step on encrypted gradients is not the
/// encryption of its step. `refused` is the defence or the rule that was asked for; the others are what the room has.
pub fn sgd_would_help(refused_defence: Option<&str>, refused_rule: Option<&str>, rule: &str, optimiser: &str) -> bool {
    let is_fedavg = |rule: &str| rule.parse::<Rule>().is_ok_and(Rule::is_fedavg);
    let is_adam = optimiser.parse::<Step>().is_ok_and(Step::is_adam);
    let encrypts = |form: &str| form.parse::<Defence>().is_ok_and(|defence| defence.is_encrypted());
    let asked = refused_defence.is_some_and(|form| encrypts(form) && !is_fedavg(rule))
        || refused_rule.is_some_and(|rule| !is_fedavg(rule));
    asked && is_adam
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back() {
        for step in [Step::PROPOSED_SGD, Step::PROPOSED_ADAM, Step::Sgd(1e-6)] {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
        for bad in ["sgd", "adam:0", "adam:nan", "rmsprop:0.1", "Adam, 0.001"] {
            assert!(bad.parse::<Step>().is_err(), "{bad}");
        }
        assert_eq!(Step::PROPOSED_ADAM.with_rate("0.01"), Ok(Step::Adam(0.01)));
        assert!(Step::PROPOSED_SGD.with_rate("fast").expect_err("bad").to_string().contains("fast"));
    }

    #[test]
    fn sgd_is_proposed_where_adam_is_what_stands_in_the_way() {
        let (adam, sgd) = ("adam:0.001", "sgd:0.1");
        assert!(sgd_would_help(Some("encrypted"), None, "fedsgd", adam));
        assert!(sgd_would_help(Some("encrypted:keyed"), None, "fedsgd", adam));
        assert!(sgd_would_help(None, Some("fedsgd"), "fedavg:epochs=1,rate=0.1", adam));
        assert!(!sgd_would_help(Some("encrypted"), None, "fedsgd", sgd));
        assert!(!sgd_would_help(Some("encrypted"), None, "fedavg:epochs=1,rate=0.1", adam));
        assert!(!sgd_would_help(Some("none"), None, "fedsgd", adam));
        assert!(!sgd_would_help(None, None, "fedsgd", adam));
    }
}
