//! What is said about an experiment, and the scales at which it runs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};

use crate::metric::Metric;

/// What a study says about itself.
#[derive(Debug)]
pub(crate) struct About {
    /// Name on the command line, and of the report's folder.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The figures of the papers.
    pub(crate) repeats: &'static str,
    pub(crate) question: &'static str,
    /// Whether the papers start from weights pretrained on ImageNet, so that `--weights` applies.
    pub(crate) takes_weights: bool,
    /// Whether it adds cases on CIFAR-10 if that is available.
    pub(crate) adds_cifar10: bool,
    pub(crate) metrics: &'static [Metric],
}

/// An experiment by name. `studies.rs` lists all of them.
#[derive(Clone, Copy)]
pub struct Experiment(&'static About);

impl Experiment {
    pub(crate) fn new(about: &'static About) -> Self {
        Self(about)
    }

    /// Name on the command line, and of the report's folder.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    pub fn title(self) -> &'static str {
        self.0.title
    }

    pub fn repeats(self) -> &'static str {
        self.0.repeats
    }

    pub fn question(self) -> &'static str {
        self.0.question
    }

    /// Whether the papers start from weights pretrained on ImageNet, so that `--weights` applies.
    pub fn takes_weights(self) -> bool {
        self.0.takes_weights
    }

    pub(crate) fn adds_cifar10(self) -> bool {
        self.0.adds_cifar10
    }

    pub(crate) fn measures(self, metric: &Metric) -> bool {
        self.0.metrics.contains(metric)
    }
}

impl PartialEq for Experiment {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Experiment {}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Experiment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A few rounds of the smallest models on generated pictures: a smoke test. Its numbers mean nothing.
    Tiny,
    /// A short version of the small scale for a lesson: all experiments in a quarter of an hour on two cores. Few of
    /// its numbers decide a claim.
    Quick,
    /// Nano models on CIFAR-10: all experiments in about two hours on two fast cores.
    Small,
    Paper,
}

impl Scale {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Quick => "quick",
            Self::Small => "small",
            Self::Paper => "paper",
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scale \"{name}\"; the scales are quick, small and paper")]
pub struct UnknownScale {
    pub name: String,
}

impl FromStr for Scale {
    type Err = UnknownScale;

    fn from_str(name: &str) -> Result<Self, UnknownScale> {
        let found =
            [Self::Tiny, Self::Quick, Self::Small, Self::Paper].into_iter().find(|scale| scale.name() == name.trim());
        found.ok_or_else(|| UnknownScale { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_read_as_they_are_written() {
        assert_eq!("paper".parse(), Ok(Scale::Paper));
        assert!("huge".parse::<Scale>().unwrap_err().to_string().contains("the scales are quick, small and paper"));
    }
}
