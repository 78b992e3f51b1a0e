//! What the result of one attack says, and no more than that.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether one attack saw what was private.
///
/// It never says that something is safe: another attack, a longer search or another start may see more.
///
/// In JSON `{"verdict": "recognisable"}`, `{"verdict": "not-recognisable-by-this-attack"}` or
/// `{"verdict": "cannot-tell", "because": "..."}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "because", rename_all = "kebab-case")]
pub enum Verdict {
    /// The attacker has the picture, or the right answer.
    Recognisable,
    /// The attack came to its end, and what it made is not what was private.
    NotRecognisableByThisAttack,
    /// Neither is known, for this reason: a clause, without a full stop.
    CannotTell(String),
}

impl Verdict {
    /// As in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recognisable => "recognisable",
            Self::NotRecognisableByThisAttack => "not-recognisable-by-this-attack",
            Self::CannotTell(_) => "cannot-tell",
        }
    }

    /// Why neither is known.
    pub fn because(&self) -> Option<&str> {
        match self {
            Self::CannotTell(because) => Some(because),
            Self::Recognisable | Self::NotRecognisableByThisAttack => None,
        }
    }
}

/// For a person.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recognisable => f.write_str("recognisable"),
            Self::NotRecognisableByThisAttack => f.write_str("not recognisable by this attack"),
            Self::CannotTell(because) => write!(f, "cannot tell, because {because}"),
        }
    }
}
