//! The verdict on a single attack.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether one attack revealed private data.
///
/// A verdict never says that something is safe: another attack, a longer search or another start may reveal more.
///
/// In JSON `{"verdict": "recognisable"}`, `{"verdict": "not-recognisable-by-this-attack"}` or `{"verdict":
/// "cannot-tell", "because": "..."}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "because", rename_all = "kebab-case")]
pub enum Verdict {
    /// The attacker has the picture, or the right answer.
    Recognisable,
    /// The attack finished, and its result is not the private data.
    NotRecognisableByThisAttack,
    /// Unknown, for this reason: a clause without a full stop.
    CannotTell(String),
}

impl Verdict {
    /// The verdict as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recognisable => "recognisable",
            Self::NotRecognisableByThisAttack => "not-recognisable-by-this-attack",
            Self::CannotTell(_) => "cannot-tell",
        }
    }

    /// The reason why the verdict is unknown.
    pub fn because(&self) -> Option<&str> {
        match self {
            Self::CannotTell(because) => Some(because),
            Self::Recognisable | Self::NotRecognisableByThisAttack => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recognisable => f.write_str("recognisable"),
            Self::NotRecognisableByThisAttack => f.write_str("not recognisable by this attack"),
            Self::CannotTell(because) => write!(f, "cannot tell, because {because}"),
        }
    }
}
