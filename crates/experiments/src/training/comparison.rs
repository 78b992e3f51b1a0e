//! Comparison of trainings.

use unmask_data::CLASSES;

use super::TrainingRun;
use crate::{
    accuracy::{Correctness, Estimate, mean},
    claim::{Condition, Ground, Measured, Measurements, Metric, Right, Term, reaches_over_margin},
    study::{Case, Study},
};

pub(crate) struct CaseRuns<'a> {
    pub(crate) case: &'a Case,
    pub(crate) runs: Vec<&'a TrainingRun>,
}

pub(crate) struct Comparison<'a> {
    pub(crate) all: Vec<CaseRuns<'a>>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(study: &'a Study, trained: &'a [TrainingRun]) -> Self {
        let runs =
            |case: &'a Case| CaseRuns { case, runs: trained.iter().filter(|run| run.case == case.key).collect() };
        Self { all: study.cases.iter().map(runs).collect() }
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
pub(super) fn wide_cases<'a>(study: &'a Study, conditions: &[Condition], trained: &[TrainingRun]) -> Vec<&'a Case> {
    let comparison = Comparison::new(study, trained);
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
    study.cases.iter().filter(|case| wide.contains(&case.key.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalogue::{Experiment, Scale},
        claim::{Finding, conditions, judged},
        training::run::TestPoint,
    };

    fn point(round: u32, accuracy: f64) -> TestPoint {
        TestPoint { round, epoch: 0.0, loss: None, accuracy }
    }

    /// Starts at 10 %, and ends with the first `right` of 1000 test pictures correct.
    fn run(case: &str, seed: u64, right: usize) -> TrainingRun {
        TrainingRun {
            case: case.to_owned(),
            seed,
            rounds: 2,
            points: vec![point(0, 0.1), point(1, 0.2), point(2, right as f64 / 1000.0)],
            early: Some((0..20).map(|picture| picture < 4).collect()),
            correctness: (0..1000).map(|picture| picture < right).collect(),
            diverged: None,
            seconds: 0.0,
        }
    }

    fn train(study: &Study, seeds: u64, right: impl Fn(&str, u64) -> usize) -> Vec<TrainingRun> {
        let runs = |seed: u64| study.cases.iter().map(move |case| (case, seed));
        (0..seeds).flat_map(runs).map(|(case, seed)| run(&case.key, seed, right(&case.key, seed))).collect()
    }

    fn findings(experiment: Experiment, right: impl Fn(&str, u64) -> usize) -> Vec<(String, Finding)> {
        let study = Study::of(experiment, Scale::Tiny).unwrap();
        let trained = train(&study, 3, right);
        let claims = judged(experiment, &Comparison::new(&study, &trained)).unwrap();
        claims.into_iter().map(|claim| (claim.id, claim.finding)).collect()
    }

    #[test]
    fn what_the_papers_say_is_confirmed_by_numbers_that_say_so() {
        let right = |case: &str, _| match case {
            "eps1" => 100,
            "eps4" => 300,
            "fixed" => 450,
            "f0.8" => 300,
            "f0.5" => 400,
            "f0.2" => 480,
            _ => 500,
        };
        for (id, finding) in findings(Experiment::VitFromScratch, right) {
            assert_eq!(finding, Finding::Agrees, "{id}");
        }
    }

    #[test]
    fn numbers_that_say_otherwise_refute_it() {
        let right = |case: &str, _| match case {
            "none" => 500,
            "f0.2" => 420,
            "f0.5" => 450,
            "f0.8" => 520,
            "r0.2" | "r0.5" | "r0.8" => 400,
            "e0.2" | "e0.5" | "e0.8" => 350,
            _ => 510,
        };
        for (id, finding) in findings(Experiment::VitFromScratch, right) {
            assert_eq!(finding, Finding::Differs, "{id}");
        }
    }

    /// A high rate hinders learning under a fixed mask. If a changing mask costs as much, the claim is refuted.
    #[test]
    fn a_claim_of_locked_masks_is_one_of_changing_masks_too() {
        let finding = |changing: usize| {
            let right = |case: &str, _| match case {
                "f0.8" => 300,
                "e0.8" => changing,
                _ => 500,
            };
            let findings = findings(Experiment::VitFromScratch, right);
            findings.iter().find(|(id, _)| id == "rbw-more-zeros-hinder-learning-if-locked").unwrap().1
        };
        assert_eq!((finding(500), finding(300)), (Finding::Agrees, Finding::Differs));
    }

    /// A case that gained nothing confirms nothing and refutes nothing, even if all cases are alike.
    #[test]
    fn a_baseline_that_did_not_learn_leaves_all_undecided() {
        let cases: [fn(&str, u64) -> usize; 2] = [|_, _| 150, |case, _| if case == "none" { 190 } else { 10 }];
        for right in cases {
            for (id, finding) in findings(Experiment::VitFromScratch, right) {
                assert_eq!(finding, Finding::Open, "{id}");
            }
        }
        let study = Study::of(Experiment::Encrypted, Scale::Tiny).unwrap();
        let trained = train(&study, 3, |_, _| 150);
        let claims = judged(Experiment::Encrypted, &Comparison::new(&study, &trained)).unwrap();
        for claim in claims {
            let because = claim.because.unwrap();
            assert!(because.starts_with("the baseline did not learn: it gained 5.0 points"), "{because}");
        }
    }

    #[test]
    fn seeds_that_disagree_leave_it_open() {
        let finding = |step: usize| {
            let right = |case: &str, seed: u64| if case == "r0.5" { 500 - step + step * seed as usize } else { 500 };
            let findings = findings(Experiment::VitFineTuned, right);
            findings.iter().find(|(id, _)| id == "rbw-pretrained-masks-keep-accuracy").unwrap().1
        };
        assert_eq!((finding(0), finding(60)), (Finding::Agrees, Finding::Open));
    }

    /// A case with seeds that disagree does not widen the intervals of other cases.
    #[test]
    fn each_comparison_has_its_own_spread() {
        let study = Study::of(Experiment::VitFineTuned, Scale::Tiny).unwrap();
        let right = |case: &str, seed: u64| if case == "eps1" { 100 + 150 * seed as usize } else { 500 };
        let trained = train(&study, 3, right);
        let comparison = Comparison::new(&study, &trained);
        let half_width = |case: &str| {
            let term = |case: &str| Term { metric: Metric::Accuracy, case: case.to_owned() };
            comparison.measure(&term(case), Some(&term("none"))).unwrap().half_width()
        };
        assert!(half_width("eps1") > 37.0 && half_width("r0.2") == 0.0, "{}", half_width("eps1"));
    }

    #[test]
    fn encryption_that_changes_answers_is_seen() {
        let finding = |right: usize| {
            let findings = findings(Experiment::Encrypted, |case, _| if case == "encrypted" { right } else { 500 });
            findings.iter().find(|(id, _)| id == "encrypted-vit-same-model").unwrap().1
        };
        assert_eq!((finding(500), finding(501), finding(490)), (Finding::Agrees, Finding::Agrees, Finding::Differs));
    }

    /// Only cases with wide intervals are trained further, with the cases they are compared to.
    #[test]
    fn further_seeds_are_for_wide_intervals() {
        let study = Study::of(Experiment::VitFromScratch, Scale::Tiny).unwrap();
        let conditions = conditions(Experiment::VitFromScratch).unwrap();
        let wide = |right: &dyn Fn(&str, u64) -> usize| -> Vec<String> {
            let trained = train(&study, 3, right);
            wide_cases(&study, &conditions, &trained).iter().map(|case| case.key.clone()).collect()
        };
        assert!(wide(&|_, _| 500).is_empty());
        let shaky = |case: &str, seed: u64| if case == "fixed" { 500 + 40 * seed as usize } else { 500 };
        assert_eq!(wide(&shaky), ["none", "r0.2", "r0.5", "r0.8", "fixed"]);
        let decided = |case: &str, seed: u64| if case == "fixed" { 100 + 40 * seed as usize } else { 500 };
        assert!(wide(&decided).is_empty(), "it lies far below with any seed");
        let groundless = |case: &str, seed: u64| if case == "fixed" { 150 + 40 * seed as usize } else { 150 };
        assert!(wide(&groundless).is_empty(), "the baseline did not learn");
    }

    #[test]
    fn each_case_belongs_to_one_without_a_defence() {
        assert_eq!(
            ["r0.5", "a0.1/r0.5", "cifar10/r0.95", "eps4-printed"].map(undefended),
            ["none", "a0.1/none", "cifar10/none", "none"]
        );
    }

    /// At the first test both cases have the same 4 of 20 pictures correct, and one case 2 more: differences of 100
    /// points in 2 of 20 pictures, with a standard error of 6.88 points, times 1.96 = 13.49.
    #[test]
    fn early_accuracies_are_paired_by_picture() {
        let study = Study::of(Experiment::VitFineTuned, Scale::Tiny).unwrap();
        let mut trained = train(&study, 3, |_, _| 500);
        let measure = |trained: &[TrainingRun]| {
            let term = |case: &str| Term { metric: Metric::Early, case: case.to_owned() };
            Comparison::new(&study, trained).measure(&term("r0.8"), Some(&term("none")))
        };
        let same = measure(&trained).unwrap();
        assert!(same.mean == 0.0 && same.half_width() == 0.0, "{same:?}");
        for run in trained.iter_mut().filter(|run| run.case == "r0.8") {
            run.early = Some((0..20).map(|picture| picture < 6).collect());
        }
        let more = measure(&trained).unwrap();
        assert!((more.mean - 10.0).abs() < 1e-9 && (more.half_width() - 13.49).abs() < 0.01, "{more:?}");
        trained.iter_mut().for_each(|run| run.early = None);
        assert_eq!(measure(&trained).unwrap_err(), "it was not tested on the way");
    }
}
