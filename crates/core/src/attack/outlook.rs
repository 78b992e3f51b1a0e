//! What counting equations says about an attack before there is an update.

use crate::text::words;

/// What counting the equations and unknowns of one attack predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outlook {
    /// The equations have one solution, and rounding leaves it: the attacker gets the private data.
    Exact,
    /// Counting decides nothing: a search, noise, rounding, or too narrow a margin.
    Unknown,
    /// The attack's equations have many solutions. Another attack may have more equations.
    CountingForbids,
    /// The attack works on another kind of model or defence.
    DoesNotApply,
}

words!(Outlook {
    Exact = "exact",
    Unknown = "unknown",
    CountingForbids = "counting-forbids",
    DoesNotApply = "does-not-apply",
}, UnknownOutlook, "{name:?} is not a prediction; write {words}", ", ");

impl Outlook {
    pub fn title(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Unknown => "unknown",
            Self::CountingForbids => "counting forbids",
            Self::DoesNotApply => "does not apply",
        }
    }
}
