//! The server's step under FedSGD.

use std::{fmt, str::FromStr};

/// The step and its learning rate eta per round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptimiserKind {
    /// w' = w - eta g, as in the papers.
    Sgd { rate: f32 },
    /// Server-side Adam on the averaged gradient (FedOpt, Reddi et al. 2021), which learns visibly within minutes.
    Adam { rate: f32 },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an optimiser; write sgd:RATE or adam:RATE with a rate above 0, such as sgd:0.1 or adam:0.001")]
pub struct ParseOptimiserError(String);

impl OptimiserKind {
    /// SGD's default.
    pub const SGD: Self = Self::Sgd { rate: 0.1 };

    /// Adam's default.
    pub const ADAM: Self = Self::Adam { rate: 0.001 };

    pub fn rate(self) -> f32 {
        match self {
            Self::Sgd { rate } | Self::Adam { rate } => rate,
        }
    }

    #[must_use]
    pub fn with_rate(self, rate: f32) -> Self {
        match self {
            Self::Sgd { .. } => Self::Sgd { rate },
            Self::Adam { .. } => Self::Adam { rate },
        }
    }

    pub fn is_adam(self) -> bool {
        matches!(self, Self::Adam { .. })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Sgd { .. } => "sgd",
            Self::Adam { .. } => "adam",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Sgd { .. } => "SGD",
            Self::Adam { .. } => "Adam",
        }
    }
}

/// Adam, because it learns visibly within a lesson.
impl Default for OptimiserKind {
    fn default() -> Self {
        Self::ADAM
    }
}

impl fmt::Display for OptimiserKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.rate())
    }
}

impl FromStr for OptimiserKind {
    type Err = ParseOptimiserError;

    fn from_str(text: &str) -> Result<Self, ParseOptimiserError> {
        let error = || ParseOptimiserError(text.to_owned());
        let (name, rate) = text.split_once(':').ok_or_else(error)?;
        let kind = [Self::SGD, Self::ADAM].into_iter().find(|kind| kind.name() == name).ok_or_else(error)?;
        let rate = rate.trim().parse().ok().filter(|rate: &f32| rate.is_finite() && *rate > 0.0);
        rate.map(|rate| kind.with_rate(rate)).ok_or_else(error)
    }
}

crate::text::serde_as_text!(OptimiserKind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_form_round_trips() {
        for text in ["sgd:0.1", "adam:0.001"] {
            assert_eq!(text.parse::<OptimiserKind>().unwrap().to_string(), text);
        }
        for kind in [OptimiserKind::SGD, OptimiserKind::ADAM, OptimiserKind::Sgd { rate: 1e-6 }] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for bad in ["sgd", "adam", "sgd:-1", "sgd:nan", "adam:0", "adam:nan", "lion:1", "rmsprop:0.1", "Adam, 0.001"] {
            assert!(bad.parse::<OptimiserKind>().unwrap_err().to_string().contains(bad));
        }
    }
}
