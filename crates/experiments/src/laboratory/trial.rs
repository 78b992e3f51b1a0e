//! What can be tried on an update.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use unmask_attack::{Method, Needs};
use unmask_core::ParamLayout;

/// An attack that makes a picture, or a question that is answered without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Trial {
    /// Recovering the picture.
    Picture(Method),
    /// Reading the labels off the head's gradient.
    Label,
    /// Telling whether a given picture was in the update.
    Membership,
}

impl Trial {
    /// All of them, those that make pictures first.
    pub fn all() -> Vec<Self> {
        Method::ALL.into_iter().map(Self::Picture).chain([Self::Label, Self::Membership]).collect()
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Picture(method) => method.name(),
            Self::Label => "label",
            Self::Membership => "membership",
        }
    }

    /// The name a person reads.
    pub fn title(self) -> &'static str {
        match self {
            Self::Picture(method) => method.title(),
            Self::Label => "Label",
            Self::Membership => "Membership",
        }
    }

    /// The attack that makes a picture, if this is one.
    pub fn method(self) -> Option<Method> {
        match self {
            Self::Picture(method) => Some(method),
            Self::Label | Self::Membership => None,
        }
    }

    /// What it reads of a model of `layout`.
    pub fn needs(self, layout: &ParamLayout) -> Needs {
        match self {
            Self::Picture(method) => Needs::of(method, layout),
            Self::Label => Needs::of_labels(),
            Self::Membership => Needs::of_membership(layout),
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Trial> for String {
    fn from(trial: Trial) -> Self {
        trial.name().to_owned()
    }
}

/// A name that is none of [`Trial::all`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown attack \"{name}\"; the attacks are {}", Trial::all().into_iter().map(Trial::name).collect::<Vec<_>>().join(", "))]
pub struct UnknownTrial {
    /// What was given.
    pub name: String,
}

impl FromStr for Trial {
    type Err = UnknownTrial;

    fn from_str(name: &str) -> Result<Self, UnknownTrial> {
        let name = name.trim();
        let found = Self::all().into_iter().find(|trial| trial.name() == name);
        found.ok_or_else(|| UnknownTrial { name: name.to_owned() })
    }
}

impl TryFrom<String> for Trial {
    type Error = UnknownTrial;

    fn try_from(name: String) -> Result<Self, UnknownTrial> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for trial in Trial::all() {
            assert_eq!(trial.to_string().parse(), Ok(trial));
        }
        let error = "magic".parse::<Trial>().unwrap_err().to_string();
        assert!(error.starts_with("unknown attack \"magic\"; the attacks are embedding, embedding-aware"), "{error}");
        assert!(error.ends_with("label, membership"), "{error}");
    }
}
