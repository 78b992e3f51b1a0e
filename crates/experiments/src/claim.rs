//! Claims of the papers and our own expectations, and whether the numbers confirm them.
//!
//! Each claim is data in `claims/*.toml`: its place in the paper, its statement in our words, and the formulas and the
//! study that decide it, or the reason why no study does. A study provides its numbers as [`Measurements`]. Only
//! [`judge`] turns numbers into verdicts.

mod condition;
mod judge;
mod list;

use serde::{Deserialize, Serialize};

pub use self::list::ClaimListError;
pub(crate) use self::{
    condition::{Condition, Right, Term},
    judge::{Ground, Measured, Measurements, judged, reaches_over_margin},
    list::{Decided, ListedClaim, check_cases, conditions, listed},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Rbw,
    Flrsp,
    EncryptedVit,
    /// Our own expectation.
    Ours,
}

impl Source {
    pub const ALL: [Self; 4] = [Self::Rbw, Self::Flrsp, Self::EncryptedVit, Self::Ours];

    /// The name in the list and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rbw => "rbw",
            Self::Flrsp => "flrsp",
            Self::EncryptedVit => "encrypted-vit",
            Self::Ours => "ours",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Rbw => "RBW",
            Self::Flrsp => "FLRSP",
            Self::EncryptedVit => "Encrypted ViT",
            Self::Ours => "our own",
        }
    }

    pub fn is_paper(self) -> bool {
        self != Self::Ours
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// The whole 95 % interval is where it was expected.
    Agrees,
    /// The whole interval is elsewhere.
    Differs,
    /// The numbers do not decide it, or there are no numbers.
    Open,
}

impl Finding {
    pub const ALL: [Self; 3] = [Self::Agrees, Self::Differs, Self::Open];

    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "confirmed",
            Self::Differs => "refuted",
            Self::Open => "undecided",
        }
    }
}

/// How the number of comparisons affects each verdict.
pub(crate) const MANY: &str = "Nothing is corrected for the number of comparisons: each formula with an interval is decided by one end of \
                               one at 95 %, so that of forty true statements at the very edge of their margins one comes out wrong. A claim \
                               of several formulas is confirmed only if all of them hold, which makes a wrong confirmation rarer, and \
                               refuted if one does not, which makes a wrong refutation likelier, up to 2.5 % for each. Where seeds are \
                               added, it is because the first ones left an interval wide: one that came out too narrow by chance stays, so \
                               that such intervals cover somewhat less than 95 %, and these shares are somewhat larger.";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub id: String,
    pub source: Source,
    /// Section or figure.
    pub place: String,
    pub expected: String,
    /// The formulas that decided it, as they were when it was measured.
    pub criterion: String,
    /// The measured values of the formulas that decided: all of a confirmed claim, otherwise those that do not hold.
    pub found: String,
    pub finding: Finding,
    pub because: Option<String>,
}

/// All claims in one text: which are confirmed, which are refuted and by which numbers, which are undecided and why.
pub fn verdict(claims: &[Claim]) -> String {
    let mut text = tally(claims);
    for finding in Finding::ALL {
        let said: Vec<String> = claims.iter().filter(|claim| claim.finding == finding).map(said).collect();
        if !said.is_empty() {
            let (first, rest) = finding.name().split_at(1);
            text += &format!(". {}{rest}: {}", first.to_uppercase(), said.join("; "));
        }
    }
    text + "."
}

fn said(claim: &Claim) -> String {
    let expected = claim.expected.trim_end_matches('.');
    match (claim.finding, &claim.because) {
        (Finding::Agrees, _) => expected.to_owned(),
        (Finding::Open, Some(because)) => format!("{expected} ({because})"),
        (Finding::Differs | Finding::Open, _) => format!("{expected} ({})", claim.found),
    }
}

/// The counts, separately for the papers' claims and our own.
pub fn tally(claims: &[Claim]) -> String {
    let (papers, ours): (Vec<&Claim>, Vec<&Claim>) = claims.iter().partition(|claim| claim.source.is_paper());
    let count = |who: &str, claims: &[&Claim]| {
        let [agrees, differs, open] =
            Finding::ALL.map(|finding| claims.iter().filter(|claim| claim.finding == finding).count());
        (!claims.is_empty())
            .then(|| format!("{who}: {agrees} of {} confirmed, {differs} refuted, {open} undecided", claims.len()))
    };
    let counts = [count("the papers' claims", &papers), count("our own", &ours)];
    counts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(source: Source, expected: &str, finding: Finding, because: Option<&str>) -> Claim {
        Claim {
            id: format!("{}-{expected}", source.name()),
            source,
            place: "Fig. 4".to_owned(),
            expected: format!("{expected}."),
            criterion: "accuracy(r0.2) = accuracy(none) within 2".to_owned(),
            found: format!("numbers of {expected}"),
            finding,
            because: because.map(str::to_owned),
        }
    }

    #[test]
    fn the_verdict_says_each_side_and_counts_ours_apart() {
        let claims = [
            claim(Source::Rbw, "Masks hold", Finding::Agrees, None),
            claim(Source::Flrsp, "Noise costs much", Finding::Differs, None),
            claim(Source::Flrsp, "Noise protects", Finding::Open, Some("the baseline did not learn")),
            claim(Source::Ours, "Frozen masks cost more", Finding::Open, Some("the interval reaches over the margin")),
        ];
        let tallied = "the papers' claims: 1 of 3 confirmed, 1 refuted, 1 undecided; our own: 0 of 1 confirmed, 0 refuted, 1 undecided";
        assert_eq!(tally(&claims), tallied);
        assert_eq!(
            verdict(&claims),
            format!(
                "{tallied}. Confirmed: Masks hold. Refuted: Noise costs much (numbers of Noise costs much). Undecided: Noise \
                 protects (the baseline did not learn); Frozen masks cost more (the interval reaches over the margin)."
            )
        );
        assert_eq!(tally(&claims[3..]), "our own: 0 of 1 confirmed, 0 refuted, 1 undecided");
    }

    #[test]
    fn sources_are_named_as_in_files() {
        for source in Source::ALL {
            assert_eq!(serde_json::to_string(&source).unwrap(), format!("\"{}\"", source.name()));
        }
    }
}
