//! Every attack: its names on the command line and on pages, and its explanation.

mod explanation;
mod outlook;
mod verdict;

pub use self::{
    explanation::Explanation,
    outlook::{Outlook, UnknownOutlook},
    verdict::Verdict,
};
use crate::text::words;

/// An attack. Its name is the same on the command line, in files, on the socket and in the room's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AttackMethod {
    /// Embedding inversion that takes dropped entries for zeros.
    #[default]
    Embedding,
    /// Embedding inversion that treats dropped entries as unknowns.
    EmbeddingAware,
    /// APRIL that takes dropped entries for zeros.
    April,
    /// APRIL that first fills in dropped entries.
    AprilAware,
    /// Embedding inversion after low-rank completion of the dropped entries.
    Completion,
    /// Embedding inversion of the entries that several rounds kept.
    Rounds,
    /// Takes a batch of pictures apart, or a sum of updates, by the tokens of the first block.
    Batch,
    /// Token matching that takes dropped entries for zeros.
    Matching,
    /// Token matching on the entries that arrived.
    MatchingAware,
    /// Inverting Gradients that takes dropped entries for zeros.
    Gradients,
    /// Inverting Gradients on the entries that arrived.
    GradientsAware,
    /// Token matching without the position embedding's gradient.
    Jigsaw,
    /// Embedding inversion of an encrypted update by a relay that knows the plain initial model.
    KnownStart,
    /// Embedding inversion of an encrypted update with a key that a client gave away.
    Colluder,
}

/// Attacks that solve the same problem; pages show them side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AttackFamily {
    #[default]
    Embedding,
    April,
    Completion,
    Rounds,
    Batch,
    Matching,
    Gradients,
    Jigsaw,
    Key,
}

/// How the attacker treats entries that a mask dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knowledge {
    /// Takes their zeros for values, like the attackers in the papers' experiments.
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
            Self::Batch => "The whole batch at once",
            Self::Matching => "Token matching",
            Self::Gradients => "Inverting Gradients",
            Self::Jigsaw => "Jigsaw",
            Self::Key => "Ways to the key",
        }
    }
}

impl AttackMethod {
    /// The family that pages show it in.
    pub fn family(self) -> AttackFamily {
        match self {
            Self::Embedding | Self::EmbeddingAware => AttackFamily::Embedding,
            Self::April | Self::AprilAware => AttackFamily::April,
            Self::Completion => AttackFamily::Completion,
            Self::Rounds => AttackFamily::Rounds,
            Self::Batch => AttackFamily::Batch,
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
            | Self::Batch
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

    /// The attacker in a few words, for the heading of its half of a card.
    pub fn attacker(self) -> &'static str {
        match self {
            Self::Embedding | Self::April | Self::Matching | Self::Gradients => "What the papers tested",
            Self::EmbeddingAware | Self::AprilAware | Self::MatchingAware | Self::GradientsAware => {
                "What a better attacker sees"
            }
            Self::Completion => "What rank gives away",
            Self::Rounds => "What patience sees",
            Self::Batch => "What a batch gives away",
            Self::Jigsaw => "What remains without positions",
            Self::KnownStart => "Knows the plain model",
            Self::Colluder => "Was given the key",
        }
    }

    /// Whether it knows which entries a mask dropped. Masks are not secret: the relay needs them to average.
    pub fn knowledge(self) -> Knowledge {
        match self {
            Self::Embedding | Self::April | Self::Matching | Self::Gradients => Knowledge::Naive,
            _ => Knowledge::Aware,
        }
    }

    /// Whether it optimises a picture step by step through the model.
    pub fn is_search(self) -> bool {
        matches!(self, Self::Matching | Self::MatchingAware | Self::Gradients | Self::GradientsAware | Self::Jigsaw)
    }

    /// Whether it finds patches without their positions; such a reconstruction is scored in its best order of patches.
    pub fn is_unordered(self) -> bool {
        self == Self::Jigsaw
    }
}

// Each naive attack comes before its mask-aware twin.
words!(AttackMethod {
    Embedding = "embedding",
    EmbeddingAware = "embedding-aware",
    April = "april",
    AprilAware = "april-aware",
    Completion = "completion",
    Rounds = "rounds",
    Batch = "batch",
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
    Batch = "batch",
    Matching = "matching",
    Gradients = "inverting-gradients",
    Jigsaw = "jigsaw",
    Key = "key",
}, UnknownFamily, "unknown attack family {name:?}; the families are {words}", ", ");

/// Whether a picture belongs to an update's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipVerdict {
    /// The picture was in the batch.
    Member,
    /// The picture was not in the batch.
    Stranger,
    /// Too far from the update's pictures for a member but too near for a stranger, or not all of these
    /// pictures can be seen.
    Undecided,
}

words!(MembershipVerdict {
    Member = "member",
    Stranger = "stranger",
    Undecided = "undecided",
}, UnknownVerdict, "{name:?} is not a membership verdict; write {words}", " or ");

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
