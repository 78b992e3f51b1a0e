//! Every attack by name: what the command line, the room and its cards call it, and how it works.

mod how;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use self::how::{How, Symbol};
use crate::{Attack, AttackKind, Knowledge};

/// An attack as it is named at every border.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Method {
    /// Embedding inversion, dropped entries taken for zeros.
    Embedding,
    /// Embedding inversion, dropped entries taken for unknowns.
    EmbeddingAware,
    /// APRIL, dropped entries taken for zeros.
    April,
    /// APRIL, dropped entries filled in first.
    AprilAware,
    /// Embedding inversion over what several rounds kept.
    Rounds,
    /// Token matching, dropped entries taken for zeros.
    Matching,
    /// Token matching of the entries that arrived.
    MatchingAware,
    /// Inverting Gradients, dropped entries taken for zeros.
    Gradients,
    /// Inverting Gradients of the entries that arrived.
    GradientsAware,
    /// Token matching without the position embedding's gradient.
    Jigsaw,
    /// Embedding inversion of an encrypted update by a relay that made the model it was encrypted from.
    KnownStart,
    /// Embedding inversion of an encrypted update with the key that a client gave away.
    Colluder,
}

/// Attacks that solve the same problem, shown side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Embedding inversion.
    Embedding,
    /// APRIL.
    April,
    /// Several rounds together.
    Rounds,
    /// Token matching.
    Matching,
    /// Inverting Gradients.
    Gradients,
    /// Without the position embedding.
    Jigsaw,
    /// Ways to the key of an encrypted room.
    Key,
}

impl Family {
    /// The name in the room's JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::April => "april",
            Self::Rounds => "rounds",
            Self::Matching => "matching",
            Self::Gradients => "inverting-gradients",
            Self::Jigsaw => "jigsaw",
            Self::Key => "key",
        }
    }

    /// The name a person reads.
    pub fn title(self) -> &'static str {
        match self {
            Self::Embedding => "Embedding inversion",
            Self::April => "APRIL",
            Self::Rounds => "Several rounds together",
            Self::Matching => "Token matching",
            Self::Gradients => "Inverting Gradients",
            Self::Jigsaw => "Jigsaw",
            Self::Key => "Ways to the key",
        }
    }
}

impl Method {
    /// All of them, each naive one before its mask-aware twin.
    pub const ALL: [Self; 12] = [
        Self::Embedding,
        Self::EmbeddingAware,
        Self::April,
        Self::AprilAware,
        Self::Rounds,
        Self::Matching,
        Self::MatchingAware,
        Self::Gradients,
        Self::GradientsAware,
        Self::Jigsaw,
        Self::KnownStart,
        Self::Colluder,
    ];

    /// The name used at every border: command line, wire, files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::EmbeddingAware => "embedding-aware",
            Self::April => "april",
            Self::AprilAware => "april-aware",
            Self::Rounds => "rounds",
            Self::Matching => "matching",
            Self::MatchingAware => "matching-aware",
            Self::Gradients => "inverting-gradients",
            Self::GradientsAware => "inverting-gradients-aware",
            Self::Jigsaw => "jigsaw",
            Self::KnownStart => "known-start",
            Self::Colluder => "colluder",
        }
    }

    /// What it is shown beside.
    pub fn family(self) -> Family {
        match self {
            Self::Embedding | Self::EmbeddingAware => Family::Embedding,
            Self::April | Self::AprilAware => Family::April,
            Self::Rounds => Family::Rounds,
            Self::Matching | Self::MatchingAware => Family::Matching,
            Self::Gradients | Self::GradientsAware => Family::Gradients,
            Self::Jigsaw => Family::Jigsaw,
            Self::KnownStart | Self::Colluder => Family::Key,
        }
    }

    /// The name a person reads.
    pub fn title(self) -> &'static str {
        match self {
            Self::Embedding | Self::April | Self::Rounds | Self::Matching | Self::Gradients | Self::Jigsaw => {
                self.family().title()
            }
            Self::EmbeddingAware => "Embedding inversion that knows the mask",
            Self::AprilAware => "APRIL that knows the mask",
            Self::MatchingAware => "Token matching that knows the mask",
            Self::GradientsAware => "Inverting Gradients that knows the mask",
            Self::KnownStart => "A relay that knew the plain model",
            Self::Colluder => "A client that gives the key away",
        }
    }

    /// Which attacker it is, for the head of its half of a card.
    pub fn attacker(self) -> &'static str {
        match self {
            Self::Embedding | Self::April | Self::Matching | Self::Gradients => "What the papers tested",
            Self::EmbeddingAware | Self::AprilAware | Self::MatchingAware | Self::GradientsAware => {
                "What a better attacker sees"
            }
            Self::Rounds => "What patience sees",
            Self::Jigsaw => "What is left without positions",
            Self::KnownStart => "Knows the plain model",
            Self::Colluder => "Was given the key",
        }
    }

    /// Whether it knows which entries a mask dropped, which is no secret: the relay needs the masks to average.
    pub fn knowledge(self) -> Knowledge {
        match self {
            Self::Embedding | Self::April | Self::Matching | Self::Gradients => Knowledge::Naive,
            _ => Knowledge::Aware,
        }
    }

    /// The closed form that solves it from one update, if there is one.
    pub fn closed_form(self) -> Option<Attack> {
        match self {
            Self::Embedding => Some(Attack::naive(AttackKind::Embedding)),
            Self::EmbeddingAware => Some(Attack::aware(AttackKind::Embedding)),
            Self::April => Some(Attack::naive(AttackKind::April)),
            Self::AprilAware => Some(Attack::aware(AttackKind::April)),
            _ => None,
        }
    }

    /// Whether it searches through the model, step by step.
    pub fn is_search(self) -> bool {
        matches!(self, Self::Matching | Self::MatchingAware | Self::Gradients | Self::GradientsAware | Self::Jigsaw)
    }
}

impl From<Attack> for Method {
    fn from(Attack { kind, knowledge }: Attack) -> Self {
        match (kind, knowledge) {
            (AttackKind::Embedding, Knowledge::Naive) => Self::Embedding,
            (AttackKind::Embedding, Knowledge::Aware) => Self::EmbeddingAware,
            (AttackKind::April, Knowledge::Naive) => Self::April,
            (AttackKind::April, Knowledge::Aware) => Self::AprilAware,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.name().to_owned()
    }
}

/// A name that is none of [`Method::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown attack \"{name}\"; the attacks are {}", Method::ALL.map(Method::name).join(", "))]
pub struct UnknownMethod {
    /// What was given.
    pub name: String,
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| UnknownMethod { name: name.to_owned() })
    }
}

impl TryFrom<String> for Method {
    type Error = UnknownMethod;

    fn try_from(name: String) -> Result<Self, UnknownMethod> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{ModelSpec, Preset};

    use super::*;

    #[test]
    fn names_round_trip() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        for attack in Attack::ALL {
            assert_eq!(Method::from(attack).closed_form(), Some(attack));
        }
        let error = "magic".parse::<Method>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown attack \"magic\"; the attacks are embedding, embedding-aware, april"),
            "{error}"
        );
    }

    #[test]
    fn shapes_are_those_of_the_model() {
        let config = ModelSpec::new(Preset::VitLabPatch4_32).config();
        for method in Method::ALL {
            let how = method.how(&config);
            assert!(!how.equation.is_empty() && !how.symbols.is_empty(), "{method}");
        }
        let how = Method::Embedding.how(&config);
        let size = |name: &str| how.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.size.clone());
        assert_eq!(size("X").as_deref(), Some("64 × 48"));
        assert_eq!(size("G_E").as_deref(), Some("192 × 48"));
    }
}
