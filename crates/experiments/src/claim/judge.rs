//! The only place where a measurement becomes a verdict.

use super::{
    Claim, Finding,
    condition::{Condition, Direction, Right, Term},
    list::{ClaimListError, ListedClaim, of},
};
use crate::{accuracy::Estimate, catalogue::Experiment};

/// The least accuracy, in points, that an undefended model must gain for a comparison with it to count.
pub(crate) const LEAST_GAIN: f64 = 10.0;

/// The share of pictures, in percent, that an attack must exceed without a defence for its failures to count.
pub(crate) const LEAST_RESTORED: f64 = 50.0;

/// A number with its 95 % interval. For a count, the interval is the number itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The sample behind the number: "3 seeds".
    pub(crate) basis: String,
}

impl Measured {
    pub(crate) fn exact(value: f64, basis: impl Into<String>) -> Self {
        Self { mean: value, low: value, high: value, basis: basis.into() }
    }

    /// A mean over seeds.
    ///
    /// # Errors
    /// One seed has no spread.
    pub(crate) fn over_seeds(estimate: Estimate) -> Result<Self, String> {
        match estimate.seeds {
            0 => Err("it was not trained".to_owned()),
            1 => Err("one seed does not show how far seeds spread; --seeds 3 does".to_owned()),
            seeds => Ok(Self {
                mean: estimate.mean,
                low: estimate.low(),
                high: estimate.high(),
                basis: format!("{seeds} seeds"),
            }),
        }
    }

    pub(crate) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    fn minus(self, number: f64) -> Self {
        Self { mean: self.mean - number, low: self.low - number, high: self.high - number, ..self }
    }
}

/// What a study must show without a defence before its results under a defence count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ground {
    /// Accuracy in points that the undefended model gained.
    Learnt(f64),
    /// Percent of the pictures that the attack restores without a defence.
    Restored(f64),
    Given,
}

pub(crate) trait Measurements {
    /// Measures `left`, or `left` minus `right`, paired by seed or picture if both have it.
    ///
    /// # Errors
    /// The reason why it was not measured.
    fn measure(&self, left: &Term, right: Option<&Term>) -> Result<Measured, String>;

    /// What `condition` requires of the undefended case.
    fn ground(&self, condition: &Condition) -> Ground;
}

/// Whether a formula holds, with the number in words and, if it is undecided, the reason.
struct Judged {
    finding: Finding,
    found: String,
    because: Option<String>,
}

/// Judges the claims that a study decides.
pub(crate) fn judged(experiment: Experiment, measurements: &dyn Measurements) -> Result<Vec<Claim>, ClaimListError> {
    Ok(of(experiment)?.iter().map(|claim| judge(claim, measurements)).collect())
}

/// Judges `claim`. It agrees if all formulas hold, and differs if one does not.
fn judge(claim: &ListedClaim, measurements: &dyn Measurements) -> Claim {
    let judged: Vec<Judged> = claim.holds.iter().map(|condition| judge_one(condition, measurements)).collect();
    let is_any = |finding: Finding| judged.iter().any(|judged| judged.finding == finding);
    let finding = match (is_any(Finding::Differs), is_any(Finding::Open)) {
        (true, _) => Finding::Differs,
        (false, true) => Finding::Open,
        (false, false) => Finding::Agrees,
    };
    let mut because: Vec<&str> = Vec::new();
    for reason in judged.iter().filter_map(|judged| judged.because.as_deref()) {
        if finding == Finding::Open && !because.contains(&reason) {
            because.push(reason);
        }
    }
    Claim {
        id: claim.id.clone(),
        source: claim.source,
        place: claim.place.clone(),
        expected: claim.sentence.clone(),
        criterion: claim.criterion(),
        found: numbers(&judged, finding),
        finding,
        because: (!because.is_empty()).then(|| because.join("; ")),
    }
}

/// The numbers of the deciding formulas: all of a claim that agrees, otherwise those that do not hold.
fn numbers(judged: &[Judged], finding: Finding) -> String {
    let (deciding, others): (Vec<&Judged>, Vec<&Judged>) = judged.iter().partition(|judged| judged.finding == finding);
    let mut numbers = deciding.iter().map(|judged| judged.found.as_str()).collect::<Vec<_>>().join("; ");
    let hold = others.iter().filter(|judged| judged.finding == Finding::Agrees).count();
    if hold > 0 {
        numbers += &format!("; {hold} of {} formulas hold", judged.len());
    }
    numbers
}

/// Whether `condition` is undecided only because its interval is too wide: its ground is given, and the interval
/// includes the margin.
pub(crate) fn reaches_over_margin(condition: &Condition, measurements: &dyn Measurements) -> bool {
    let is_open = |measured| told(condition, measured) == Finding::Open;
    groundless(measurements.ground(condition)).is_none() && measure(condition, measurements).is_ok_and(is_open)
}

fn measure(condition: &Condition, measurements: &dyn Measurements) -> Result<Measured, String> {
    match &condition.right {
        Right::Number(_) => measurements.measure(&condition.left, None),
        Right::Term(right) => measurements.measure(&condition.left, Some(right)),
    }
}

fn judge_one(condition: &Condition, measurements: &dyn Measurements) -> Judged {
    let measured = match measure(condition, measurements) {
        Ok(measured) => measured,
        Err(why) => {
            let found = format!("{condition}: not measured");
            return Judged { finding: Finding::Open, found, because: Some(why) };
        }
    };
    let found = words(condition, &measured);
    if let Some(because) = groundless(measurements.ground(condition)) {
        return Judged { finding: Finding::Open, found, because: Some(because) };
    }
    let finding = told(condition, measured);
    let because = (finding == Finding::Open).then(|| "the interval reaches over the margin".to_owned());
    Judged { finding, found, because }
}

fn groundless(ground: Ground) -> Option<String> {
    match ground {
        Ground::Learnt(points) if points < LEAST_GAIN => {
            Some(format!("the baseline did not learn: it gained {points:.1} points, and {LEAST_GAIN} are asked"))
        }
        Ground::Restored(share) if share <= LEAST_RESTORED => Some(format!(
            "the attack does not work without a defence: it restores {share:.0} % of the pictures there, and more than \
             {LEAST_RESTORED} are asked"
        )),
        Ground::Learnt(_) | Ground::Restored(_) | Ground::Given => None,
    }
}

fn told(condition: &Condition, measured: Measured) -> Finding {
    let margin = condition.margin;
    let Measured { low, high, .. } = match condition.right {
        Right::Number(number) => measured.minus(number),
        Right::Term(_) => measured,
    };
    let (is_met, is_refuted) = match condition.direction {
        Direction::Equal => (low >= -margin && high <= margin, low > margin || high < -margin),
        Direction::Lower => (high < -margin, low >= -margin),
        Direction::Higher => (low > margin, high <= margin),
    };
    match (is_met, is_refuted) {
        (true, _) => Finding::Agrees,
        (false, true) => Finding::Differs,
        (false, false) => Finding::Open,
    }
}

fn words(condition: &Condition, measured: &Measured) -> String {
    let Measured { mean, low, high, basis } = measured;
    let left = &condition.left;
    let what = match &condition.right {
        Right::Term(right) => format!("{left} - {right}"),
        Right::Number(_) => left.to_string(),
    };
    let [mean, low, high] = [*mean, *low, *high].map(number);
    if low == high {
        format!("{what} = {mean} ({basis})")
    } else {
        format!("{what} = {mean}, {low} to {high} ({basis})")
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1e4 {
        return format!("{value:.1e}");
    }
    let places = match value.abs() {
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Result<Measured, String>, Ground);

    impl Measurements for Fixed {
        fn measure(&self, _: &Term, _: Option<&Term>) -> Result<Measured, String> {
            self.0.clone()
        }

        fn ground(&self, _: &Condition) -> Ground {
            self.1
        }
    }

    fn interval(mean: f64, half_width: f64) -> Result<Measured, String> {
        Measured::over_seeds(Estimate { mean, half_width, seeds: 3 })
    }

    fn finding(formula: &str, measured: Result<Measured, String>, ground: Ground) -> Finding {
        judge_one(&formula.parse().unwrap(), &Fixed(measured, ground)).finding
    }

    #[test]
    fn equal_is_decided_by_the_whole_interval() {
        let finding = |mean, half| finding("accuracy(a) = accuracy(b) within 2", interval(mean, half), Ground::Given);
        assert_eq!(finding(-0.5, 1.0), Finding::Agrees);
        assert_eq!(finding(0.5, 1.0), Finding::Agrees);
        assert_eq!(finding(-1.5, 1.0), Finding::Open);
        assert_eq!(finding(-2.5, 1.0), Finding::Open);
        assert_eq!(finding(-3.5, 1.0), Finding::Differs);
        assert_eq!(finding(3.5, 1.0), Finding::Differs);
        assert_eq!(finding(0.0, 9.0), Finding::Open);
    }

    #[test]
    fn lower_and_higher_are_decided_by_the_whole_interval() {
        let lower = |by: &str, mean, half| {
            finding(&format!("accuracy(a) < accuracy(b) by {by}"), interval(mean, half), Ground::Given)
        };
        assert_eq!(lower("0", -1.0, 0.5), Finding::Agrees);
        assert_eq!(lower("0", -1.0, 1.5), Finding::Open);
        assert_eq!(lower("0", 1.0, 0.5), Finding::Differs);
        assert_eq!(lower("10", -12.0, 1.0), Finding::Agrees);
        assert_eq!(lower("10", -8.0, 1.0), Finding::Differs);
        assert_eq!(lower("10", -10.5, 1.0), Finding::Open);
        let higher = |mean, half| finding("accuracy(a) > accuracy(b)", interval(mean, half), Ground::Given);
        assert_eq!(
            [higher(1.0, 0.5), higher(-1.0, 0.5), higher(1.0, 1.5)],
            [Finding::Agrees, Finding::Differs, Finding::Open]
        );
    }

    #[test]
    fn a_count_is_compared_as_it_is() {
        let seen = |formula: &str, share| finding(formula, Ok(Measured::exact(share, "15 pictures")), Ground::Given);
        assert_eq!(seen("seen(april/r0.2) = 0", 0.0), Finding::Agrees);
        assert_eq!(seen("seen(april/r0.2) = 0", 100.0 / 15.0), Finding::Differs);
        assert_eq!(seen("seen(a/eps1) = 40 within 14", 6.0 / 0.15), Finding::Agrees);
        assert_eq!(seen("seen(a/eps1) = 40 within 14", 3.0 / 0.15), Finding::Differs);
        assert_eq!(seen("seen(a/none) > 50", 50.0), Finding::Differs);
        assert_eq!(seen("never(a) < never(b)", 0.0), Finding::Differs);
    }

    #[test]
    fn a_baseline_that_did_not_learn_decides_nothing() {
        for (mean, decided) in [(0.0, Finding::Agrees), (-9.0, Finding::Differs)] {
            let formula = "accuracy(r0.5) = accuracy(none) within 2";
            assert_eq!(finding(formula, interval(mean, 1.0), Ground::Learnt(10.0)), decided);
            let judged = judge_one(&formula.parse().unwrap(), &Fixed(interval(mean, 1.0), Ground::Learnt(9.9)));
            assert_eq!(judged.finding, Finding::Open);
            let because = judged.because.unwrap();
            assert!(because.starts_with("the baseline did not learn: it gained 9.9 points"), "{because}");
        }
        let formula = "seen(april/r0.5) = 0";
        let none = || Ok(Measured::exact(0.0, "15 pictures"));
        assert_eq!(finding(formula, none(), Ground::Restored(60.0)), Finding::Agrees);
        assert_eq!(finding(formula, none(), Ground::Restored(50.0)), Finding::Open);
    }

    #[test]
    fn one_seed_and_what_was_not_measured_decide_nothing() {
        assert!(
            Measured::over_seeds(Estimate { mean: 0.0, half_width: 0.1, seeds: 1 }).unwrap_err().contains("--seeds 3")
        );
        let formula = "accuracy(a) = accuracy(b) within 2";
        let judged = judge_one(&formula.parse().unwrap(), &Fixed(Err("no such case".to_owned()), Ground::Given));
        assert_eq!((judged.finding, judged.because.as_deref()), (Finding::Open, Some("no such case")));
    }

    #[test]
    fn all_formulas_must_hold_and_one_refutes() {
        /// The case's name selects its result.
        struct ByCase;
        impl Measurements for ByCase {
            fn measure(&self, left: &Term, _: Option<&Term>) -> Result<Measured, String> {
                match left.case.as_str() {
                    "holds" => interval(0.0, 1.0),
                    "fails" => interval(9.0, 1.0),
                    _ => Err("it was not trained".to_owned()),
                }
            }
            fn ground(&self, _: &Condition) -> Ground {
                Ground::Given
            }
        }
        let judged = |cases: &[&str]| {
            let holds = cases.iter().map(|case| format!("accuracy({case}) = accuracy(none) within 2").parse().unwrap());
            judge(&ListedClaim::of(holds.collect()), &ByCase)
        };
        assert_eq!(judged(&["holds", "holds"]).finding, Finding::Agrees);
        assert_eq!(judged(&["holds", "fails", "misses"]).finding, Finding::Differs);
        let open = judged(&["holds", "misses", "misses"]);
        assert_eq!((open.finding, open.because.as_deref()), (Finding::Open, Some("it was not trained")));
        assert_eq!(
            open.found,
            "accuracy(misses) = accuracy(none) within 2: not measured; accuracy(misses) = accuracy(none) within 2: not \
             measured; 1 of 3 formulas hold"
        );
        assert_eq!(
            judged(&["fails", "misses"]).found,
            "accuracy(fails) - accuracy(none) = 9, 8 to 10 (3 seeds)",
            "what decides it, and nothing else"
        );
        assert_eq!(
            judged(&["holds", "holds"]).found,
            "accuracy(holds) - accuracy(none) = 0, -1 to 1 (3 seeds); accuracy(holds) - accuracy(none) = 0, -1 to 1 (3 seeds)"
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [-0.0, -0.0526, 1.0, 1.239, 25.239, 100.0, 123456.0].map(number),
            ["0", "-0.053", "1", "1.24", "25.2", "100", "1.2e5"]
        );
    }
}
