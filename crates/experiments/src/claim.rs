//! What is expected, and whether the numbers bear it out.

use serde::{Deserialize, Serialize};

use crate::accuracy::Estimate;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// The whole 95 % interval lies where it was expected.
    Agrees,
    /// The whole interval lies elsewhere.
    Differs,
    /// The interval reaches over the border: more seeds or pictures would be needed to tell.
    Open,
}

impl Finding {
    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "does not agree",
            Self::Open => "cannot be told",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is expected, with its criterion.
    pub expected: String,
    /// What the numbers say, in a sentence.
    pub found: String,
    pub finding: Finding,
    /// Whether a 95 % interval decided that.
    #[serde(skip)]
    pub has_interval: bool,
}

impl Claim {
    /// A claim whose finding is plain, without an interval around it.
    pub fn decided(expected: impl Into<String>, found: impl Into<String>, is_met: bool) -> Self {
        let finding = if is_met { Finding::Agrees } else { Finding::Differs };
        Self { expected: expected.into(), found: found.into(), finding, has_interval: false }
    }

    /// `what` lies within `margin` points of `base`.
    pub fn within(what: &str, base: &str, margin: f64, difference: Estimate) -> Self {
        let finding = if difference.low() >= -margin && difference.high() <= margin {
            Finding::Agrees
        } else if difference.low() > margin || difference.high() < -margin {
            Finding::Differs
        } else {
            Finding::Open
        };
        let expected = format!("{what} reaches the accuracy of {base} within {margin} points");
        Self { expected, found: found(what, base, difference), finding, has_interval: true }
    }

    /// `what` lies more than `margin` points below `base`.
    pub fn lower(what: &str, base: &str, margin: f64, difference: Estimate) -> Self {
        let finding = if difference.high() < -margin {
            Finding::Agrees
        } else if difference.low() > -margin {
            Finding::Differs
        } else {
            Finding::Open
        };
        let expected = match margin {
            0.0 => format!("{what} stays below {base}"),
            _ => format!("{what} stays more than {margin} points below {base}"),
        };
        Self { expected, found: found(what, base, difference), finding, has_interval: true }
    }
}

fn found(what: &str, base: &str, difference: Estimate) -> String {
    let Estimate { mean, half_width, seeds } = difference;
    let side = if mean < 0.0 { "below" } else { "above" };
    let seeds = if seeds == 1 { ", the spread over seeds not counted".to_owned() } else { format!(", {seeds} seeds") };
    format!("{what} ends {:.1} points {side} {base} (95 % interval ±{half_width:.1}{seeds})", mean.abs())
}

/// All claims together: what agrees, what does not, and what these numbers cannot tell, the last two with their numbers.
pub fn verdict(claims: &[Claim]) -> String {
    let list = |finding: Finding, say: fn(&Claim) -> &str| {
        let list: Vec<&str> = claims.iter().filter(|claim| claim.finding == finding).map(say).collect();
        list.join("; ")
    };
    let mut text = format!("{} of {} expectations are borne out", count(claims, Finding::Agrees), claims.len());
    if count(claims, Finding::Agrees) > 0 {
        text += &format!(": {}", list(Finding::Agrees, |claim| &claim.expected));
    }
    for (finding, head) in [(Finding::Differs, "Not borne out"), (Finding::Open, "These numbers cannot tell")] {
        if count(claims, finding) > 0 {
            text += &format!(". {head}: {}", list(finding, |claim| &claim.found));
        }
    }
    text + "."
}

/// The same in a few words.
pub fn tally(claims: &[Claim]) -> String {
    let [agrees, differs, open] =
        [Finding::Agrees, Finding::Differs, Finding::Open].map(|finding| count(claims, finding));
    format!("{agrees} of {} expectations are borne out, {differs} not, {open} cannot be told", claims.len())
}

fn count(claims: &[Claim], finding: Finding) -> usize {
    claims.iter().filter(|claim| claim.finding == finding).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: f64) -> Estimate {
        Estimate { mean, half_width, seeds: 3 }
    }

    #[test]
    fn within_is_decided_by_the_whole_interval() {
        let finding = |mean, half| Claim::within("R = 0.2", "none", 2.0, estimate(mean, half)).finding;
        assert_eq!(finding(-0.5, 1.0), Finding::Agrees);
        assert_eq!(finding(0.5, 1.0), Finding::Agrees);
        assert_eq!(finding(-1.5, 1.0), Finding::Open);
        assert_eq!(finding(-2.5, 1.0), Finding::Open);
        assert_eq!(finding(-3.5, 1.0), Finding::Differs);
        assert_eq!(finding(3.5, 1.0), Finding::Differs);
        assert_eq!(finding(0.0, 9.0), Finding::Open);
    }

    #[test]
    fn lower_is_decided_by_the_whole_interval() {
        let finding = |margin, mean, half| Claim::lower("noise", "none", margin, estimate(mean, half)).finding;
        assert_eq!(finding(0.0, -1.0, 0.5), Finding::Agrees);
        assert_eq!(finding(0.0, -1.0, 1.5), Finding::Open);
        assert_eq!(finding(0.0, 1.0, 0.5), Finding::Differs);
        assert_eq!(finding(10.0, -12.0, 1.0), Finding::Agrees);
        assert_eq!(finding(10.0, -8.0, 1.0), Finding::Differs);
        assert_eq!(finding(10.0, -10.5, 1.0), Finding::Open);
    }

    #[test]
    fn the_verdict_says_each_side() {
        let claims = [
            Claim::within("R = 0.2", "none", 2.0, estimate(-0.5, 0.25)),
            Claim::lower("noise", "none", 10.0, estimate(-5.0, 1.0)),
            Claim::lower("fixed position", "none", 0.0, estimate(-0.5, 1.0)),
        ];
        assert_eq!(
            verdict(&claims),
            "1 of 3 expectations are borne out: R = 0.2 reaches the accuracy of none within 2 points. \
             Not borne out: noise ends 5.0 points below none (95 % interval ±1.0, 3 seeds). \
             These numbers cannot tell: fixed position ends 0.5 points below none (95 % interval ±1.0, 3 seeds)."
        );
        assert_eq!(tally(&claims), "1 of 3 expectations are borne out, 1 not, 1 cannot be told");
        let refuted = [Claim::decided("a", "b", false)];
        assert_eq!(verdict(&refuted), "0 of 1 expectations are borne out. Not borne out: b.");
    }
}
