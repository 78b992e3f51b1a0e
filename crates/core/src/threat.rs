//! What the relay does with the weights before it sends them.

use crate::text::{named, words};

/// Which weights the relay sends. Every model but the honest one is named by the attack that needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ThreatModel {
    /// The model that the round trains, the same for everybody.
    #[default]
    Honest,
    /// A head under which only one class has a gradient before the head (Wen et al., ICML 2022).
    Fishing,
    /// The same head, and a gate in the last block that silences all pictures of the class above a cut of a feature.
    FeatureFishing,
    /// Honest weights for the victim, and a head of zeros for everybody else (Pasquini et al., CCS 2022).
    InconsistentModels,
}

/// Who gets which weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SentWeights {
    Honest,
    /// The same wrong weights for everybody.
    Doctored,
    /// Different weights for different clients.
    Inconsistent,
}

impl ThreatModel {
    pub fn title(self) -> &'static str {
        match self {
            Self::Honest => "An honest relay",
            Self::Fishing => "Fishing for a class",
            Self::FeatureFishing => "Fishing for a class and a feature",
            Self::InconsistentModels => "Inconsistent models",
        }
    }

    pub fn sends(self) -> SentWeights {
        match self {
            Self::Honest => SentWeights::Honest,
            Self::Fishing | Self::FeatureFishing => SentWeights::Doctored,
            Self::InconsistentModels => SentWeights::Inconsistent,
        }
    }

    pub fn is_honest(&self) -> bool {
        *self == Self::Honest
    }
}

words!(ThreatModel {
    Honest = "honest",
    Fishing = "fishing",
    FeatureFishing = "feature-fishing",
    InconsistentModels = "inconsistent-models",
}, UnknownThreat, "unknown threat model {name:?}; the threat models are {words}", ", ");

named!(SentWeights {
    Honest = "honest weights",
    Doctored = "doctored weights",
    Inconsistent = "inconsistent weights",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for threat in ThreatModel::ALL {
            assert_eq!(threat.to_string().parse(), Ok(threat));
            assert_eq!(threat.is_honest(), threat.sends() == SentWeights::Honest, "{threat}");
        }
        let error = "evil".parse::<ThreatModel>().unwrap_err().to_string();
        assert!(error.starts_with("unknown threat model \"evil\"; the threat models are honest, fishing"), "{error}");
    }
}
