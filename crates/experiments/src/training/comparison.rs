//! Comparison of trainings.

use unmask_data::CLASSES;

use super::run::TrainingRun;
use crate::{
    accuracy::{Correctness, Estimate, mean},
    claim::{Condition, Ground, Measured, Measurements, Right, Term, reaches_over_margin},
    metric::Metric,
    plan::{Case, TrainingPlan},
};

pub(crate) struct CaseRuns<'a> {
    pub(crate) case: &'a Case,
    pub(crate) runs: Vec<&'a TrainingRun>,
}

pub(crate) struct Comparison<'a> {
    pub(crate) all: Vec<CaseRuns<'a>>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(plan: &'a TrainingPlan, trained: &'a [TrainingRun]) -> Self {
        let runs =
            |case: &'a Case| CaseRuns { case, runs: trained.iter().filter(|run| run.case == case.key).collect() };
        Self { all: plan.cases.iter().map(runs).collect() }
    }

    pub(crate) fn difference(&self, runs: &CaseRuns<'_>, base: &CaseRuns<'_>) -> Estimate {
        let pairs: Vec<(&Correctness, &Correctness)> =
            runs.beside(base).map(|(run, base)| (&run.correctness, &base.correctness)).collect();
        Estimate::difference(&pairs)
    }

    fn find(&self, case: &str) -> Result<&CaseRuns<'a>, String> {
        let found = self.all.iter().find(|runs| runs.case.key == case && !runs.runs.is_empty());
        found.ok_or_else(|| format!("{case} was not trained"))
    }

    /// In percent of the test pictures: how often exactly one of `case` and its undefended case is right.
    fn apart(&self, case: &str) -> Result<Measured, String> {
        let (runs, base) = (self.find(case)?, self.find(&undefended(case))?);
        let (mut apart, mut pictures) = (0, 0);
        for (run, base) in runs.beside(base) {
            apart += run.correctness.disagreements(&base.correctness);
            pictures += run.correctness.pictures();
        }
        if pictures == 0 {
            return Err(format!("{case} was not trained with the seeds of {}", undefended(case)));
        }
        Ok(Measured::exact(100.0 * apart as f64 / pictures as f64, format!("{pictures} test pictures")))
    }

    /// The accuracy in points that a case gained over its start, or over chance if the start was not tested.
    pub(crate) fn learnt(&self, case: &str) -> Ground {
        let gained = |run: &&TrainingRun| 100.0 * (run.correctness.accuracy() - run.start());
        let gains: Vec<f64> = self.find(case).map_or(Vec::new(), |runs| runs.runs.iter().map(gained).collect());
        Ground::Learnt(mean(&gains))
    }
}

impl<'a> CaseRuns<'a> {
    pub(crate) fn accuracy(&self) -> Estimate {
        Estimate::accuracy(&self.runs.iter().map(|run| &run.correctness).collect::<Vec<_>>())
    }

    /// The accuracy at the first test after training began, or its difference from that of `base`.
    fn early(&self, base: Option<&CaseRuns<'a>>) -> Result<Estimate, String> {
        let estimate = match base {
            None => {
                let runs: Vec<&Correctness> = self.runs.iter().filter_map(|run| run.early.as_ref()).collect();
                Estimate::accuracy(&runs)
            }
            Some(base) => {
                let both =
                    |(run, base): (&'a TrainingRun, &'a TrainingRun)| Some((run.early.as_ref()?, base.early.as_ref()?));
                let pairs: Vec<(&Correctness, &Correctness)> = self.beside(base).filter_map(both).collect();
                Estimate::difference(&pairs)
            }
        };
        if estimate.seeds == 0 { Err("it was not tested on the way".to_owned()) } else { Ok(estimate) }
    }

    /// Pairs of runs of the two cases with the same seed.
    fn beside<'b>(&'b self, base: &'b CaseRuns<'a>) -> impl Iterator<Item = (&'a TrainingRun, &'a TrainingRun)> + 'b {
        self.runs.iter().filter_map(|run| {
            let base = base.runs.iter().find(|base| base.seed == run.seed)?;
            Some((*run, *base))
        })
    }
}

impl TrainingRun {
    /// Share of test pictures classified correctly before the first round, or chance.
    fn start(&self) -> f64 {
        let tested = self.points.first().filter(|point| point.round == 0);
        tested.map_or(1.0 / CLASSES.len() as f64, |point| point.accuracy)
    }
}

/// The undefended case for `case`: `a0.1/none` for `a0.1/r0.5`.
pub(crate) fn undefended(case: &str) -> String {
    case.rsplit_once('/').map_or("none".to_owned(), |(group, _)| format!("{group}/none"))
}

impl Measurements for Comparison<'_> {
    fn measure(&self, left: &Term, right: Option<&Term>) -> Result<Measured, String> {
        let runs = self.find(&left.case)?;
        let base = right.map(|right| self.find(&right.case)).transpose()?;
        match (&left.metric, base) {
            (Metric::Accuracy, None) => Measured::over_seeds(runs.accuracy()),
            (Metric::Accuracy, Some(base)) => Measured::over_seeds(self.difference(runs, base)),
            (Metric::Early, base) => Measured::over_seeds(runs.early(base)?),
            (Metric::Apart, None) => self.apart(&left.case),
            (metric, _) => Err(format!("trainings do not tell {}", metric.name())),
        }
    }

    fn ground(&self, condition: &Condition) -> Ground {
        let base = undefended(&condition.reference().case);
        let is_base_alone = matches!(condition.right, Right::Number(_)) && condition.left.case == base;
        if is_base_alone { Ground::Given } else { self.learnt(&base) }
    }
}

/// Half width of an interval, in points, that is narrow enough for a formula without a margin.
const NARROW: f64 = 1.0;

/// The cases that are undecided because their intervals are wider than their margins, with the cases they are compared
/// to. Only these get more seeds. More seeds do not help if the ground is missing or the whole interval is on one side.
pub(crate) fn wide_cases<'a>(
    plan: &'a TrainingPlan,
    conditions: &[Condition],
    trained: &[TrainingRun],
) -> Vec<&'a Case> {
    let comparison = Comparison::new(plan, trained);
    let is_wide = |condition: &&Condition| {
        let Right::Term(right) = &condition.right else { return false };
        let measured = comparison.measure(&condition.left, Some(right));
        let narrow = if condition.margin > 0.0 { condition.margin } else { NARROW };
        matches!(condition.left.metric, Metric::Accuracy | Metric::Early)
            && measured.is_ok_and(|measured| measured.half_width() > narrow)
            && reaches_over_margin(condition, &comparison)
    };
    let wide: Vec<&str> =
        conditions.iter().filter(is_wide).flat_map(Condition::terms).map(|term| term.case.as_str()).collect();
    plan.cases.iter().filter(|case| wide.contains(&case.key.as_str())).collect()
}
