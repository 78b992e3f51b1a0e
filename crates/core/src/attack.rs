//! Every attack by name: what the command line, the room and its pages call it, and how it works.

mod explanation;
mod verdict;

pub use self::{explanation::Explanation, verdict::Verdict};
use crate::text::words;

/// An attack by the name it has on the command line, in files, on the socket and in the room's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AttackMethod {
    /// Embedding inversion, dropped entries taken for zeros.
    #[default]
    Embedding,
    /// Embedding inversion, dropped entries taken for unknowns.
    EmbeddingAware,
    /// APRIL, dropped entries taken for zeros.
    April,
    /// APRIL, dropped entries filled in first.
    AprilAware,
    /// Embedding inversion of dropped entries completed by the rank of what they belong to.
    Completion,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AttackFamily {
    #[default]
    Embedding,
    April,
    Completion,
    Rounds,
    Matching,
    Gradients,
    Jigsaw,
    Key,
}

/// What the attacker makes of the entries that a mask dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knowledge {
    /// Takes their zeros for values, as the attackers do that the papers tested.
    Naive,
    /// Knows which entries were dropped, as the papers' threat model allows, and treats them as unknowns.
    Aware,
}

impl AttackFamily {
    pub fn title(self) -> &'static str {
        match self {
            Self::Embedding => "Embedding inversion",
            Self::April => "APRIL",
            Self::Completion => "Low-rank completion",
            Self::Rounds => "Several rounds together",
            Self::Matching => "Token matching",
            Self::Gradients => "Inverting Gradients",
            Self::Jigsaw => "Jigsaw",
            Self::Key => "Ways to the key",
        }
    }
}

impl AttackMethod {
    /// What it is shown beside.
    pub fn family(self) -> AttackFamily {
        match self {
            Self::Embedding | Self::EmbeddingAware => AttackFamily::Embedding,
            Self::April | Self::AprilAware => AttackFamily::April,
            Self::Completion => AttackFamily::Completion,
            Self::Rounds => AttackFamily::Rounds,
            Self::Matching | Self::MatchingAware => AttackFamily::Matching,
            Self::Gradients | Self::GradientsAware => AttackFamily::Gradients,
            Self::Jigsaw => AttackFamily::Jigsaw,
            Self::KnownStart | Self::Colluder => AttackFamily::Key,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Embedding
            | Self::April
            | Self::Completion
            | Self::Rounds
            | Self::Matching
            | Self::Gradients
            | Self::Jigsaw => self.family().title(),
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
            Self::Completion => "What rank gives away",
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

    /// Whether it searches through the model, step by step.
    pub fn is_search(self) -> bool {
        matches!(self, Self::Matching | Self::MatchingAware | Self::Gradients | Self::GradientsAware | Self::Jigsaw)
    }

    /// Whether it finds patches without their places, so that they are compared in the best order they can have.
    pub fn is_unordered(self) -> bool {
        self == Self::Jigsaw
    }
}

// Each naive attack before its mask-aware twin.
words!(AttackMethod {
    Embedding = "embedding",
    EmbeddingAware = "embedding-aware",
    April = "april",
    AprilAware = "april-aware",
    Completion = "completion",
    Rounds = "rounds",
    Matching = "matching",
    MatchingAware = "matching-aware",
    Gradients = "inverting-gradients",
    GradientsAware = "inverting-gradients-aware",
    Jigsaw = "jigsaw",
    KnownStart = "known-start",
    Colluder = "colluder",
}, UnknownMethod, "unknown attack {name:?}; the attacks are {words}", ", ");

words!(AttackFamily {
    Embedding = "embedding",
    April = "april",
    Completion = "completion",
    Rounds = "rounds",
    Matching = "matching",
    Gradients = "inverting-gradients",
    Jigsaw = "jigsaw",
    Key = "key",
}, UnknownFamily, "there is no family of attacks {name:?}; there are {words}", ", ");

/// Whether a picture was among those behind an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipVerdict {
    /// The picture was in the batch.
    Member,
    /// It was not.
    Stranger,
    /// Too far from the pictures of the update for one of them, too near for a stranger, or not all of them show.
    Undecided,
}

words!(MembershipVerdict {
    Member = "member",
    Stranger = "stranger",
    Undecided = "undecided",
}, UnknownVerdict, "{name:?} is no verdict on membership; it is {words}", " or ");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VitConfig, VitPreset};

    #[test]
    fn names_round_trip() {
        for method in AttackMethod::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        for family in AttackFamily::ALL {
            assert_eq!(family.to_string().parse(), Ok(family));
            assert!(AttackMethod::ALL.iter().any(|method| method.family() == family));
        }
        for verdict in MembershipVerdict::ALL {
            assert_eq!(verdict.to_string().parse(), Ok(verdict));
        }
        let error = "magic".parse::<AttackMethod>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown attack \"magic\"; the attacks are embedding, embedding-aware, april"),
            "{error}"
        );
    }

    #[test]
    fn shapes_are_those_of_the_model() {
        let config = VitConfig::from(VitPreset::Lab);
        for method in AttackMethod::ALL {
            let explanation = method.explanation(Some(&config));
            assert!(!explanation.equation.is_empty() && !explanation.symbols.is_empty(), "{method}");
        }
        let symbols = AttackMethod::Embedding.explanation(Some(&config)).symbols;
        let size = |name: &str| symbols.iter().find(|symbol| symbol[0] == name).map(|symbol| symbol[2].as_str());
        assert_eq!((size("X"), size("G_E")), (Some("64 × 48"), Some("192 × 48")));
    }
}
