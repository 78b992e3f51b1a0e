//! The attacks on an update.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use unmask_attack::{AttackError, Needs};
use unmask_core::{Architecture, AttackMethod};

/// What an attacker infers from an update: the pictures, their labels, or whether a picture was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InferenceAttack {
    Reconstruction(AttackMethod),
    /// Reads the labels off the head's gradient.
    Labels,
    /// Decides whether a given picture was in the update.
    Membership,
}

impl InferenceAttack {
    /// Returns all attacks, reconstructions first.
    pub fn all() -> Vec<Self> {
        AttackMethod::ALL.into_iter().map(Self::Reconstruction).chain([Self::Labels, Self::Membership]).collect()
    }

    /// Returns the name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reconstruction(method) => method.name(),
            Self::Labels => "label",
            Self::Membership => "membership",
        }
    }

    /// Returns the display name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Reconstruction(method) => method.title(),
            Self::Labels => "Label",
            Self::Membership => "Membership",
        }
    }

    pub fn method(self) -> Option<AttackMethod> {
        match self {
            Self::Reconstruction(method) => Some(method),
            Self::Labels | Self::Membership => None,
        }
    }

    /// Returns the required tensors of an update of `architecture`.
    ///
    /// # Errors
    /// The attack does not work on such a network.
    pub fn needs(self, architecture: Architecture) -> Result<Needs, AttackError> {
        match self {
            Self::Reconstruction(method) => Needs::of(method, architecture),
            Self::Labels => Ok(Needs::of_labels(architecture)),
            Self::Membership => Needs::of_membership(architecture),
        }
    }
}

impl fmt::Display for InferenceAttack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<InferenceAttack> for String {
    fn from(attack: InferenceAttack) -> Self {
        attack.name().to_owned()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown attack \"{name}\"; the attacks are {}", InferenceAttack::all().into_iter().map(InferenceAttack::name).collect::<Vec<_>>().join(", "))]
pub struct UnknownAttack {
    pub name: String,
}

impl FromStr for InferenceAttack {
    type Err = UnknownAttack;

    fn from_str(name: &str) -> Result<Self, UnknownAttack> {
        let name = name.trim();
        let found = Self::all().into_iter().find(|attack| attack.name() == name);
        found.ok_or_else(|| UnknownAttack { name: name.to_owned() })
    }
}

impl TryFrom<String> for InferenceAttack {
    type Error = UnknownAttack;

    fn try_from(name: String) -> Result<Self, UnknownAttack> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for attack in InferenceAttack::all() {
            assert_eq!(attack.to_string().parse(), Ok(attack));
        }
        let error = "magic".parse::<InferenceAttack>().unwrap_err().to_string();
        assert!(error.starts_with("unknown attack \"magic\"; the attacks are embedding, embedding-aware"), "{error}");
        assert!(error.ends_with("label, membership"), "{error}");
    }
}
