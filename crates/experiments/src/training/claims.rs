//! Trainings beside each other, and which expectations they bear out.

use super::TrainingRun;
use crate::{
    accuracy::{Correctness, Estimate, SeedSpread},
    claim::Claim,
    study::{Case, Relation, Study},
};

/// All runs of one case, seed by seed.
pub(crate) struct CaseRuns<'a> {
    pub(crate) case: &'a Case,
    pub(crate) runs: Vec<&'a TrainingRun>,
}

/// All cases, and how far seeds spread.
pub(crate) struct Comparison<'a> {
    pub(crate) all: Vec<CaseRuns<'a>>,
    spread: SeedSpread,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(study: &'a Study, trained: &'a [TrainingRun]) -> Self {
        let runs =
            |case: &'a Case| CaseRuns { case, runs: trained.iter().filter(|run| run.case == case.key).collect() };
        let all: Vec<CaseRuns<'a>> = study.cases.iter().map(runs).collect();
        let spread = SeedSpread::of(&all.iter().map(CaseRuns::correctness).collect::<Vec<_>>());
        Self { all, spread }
    }

    pub(crate) fn accuracy(&self, runs: &CaseRuns<'_>) -> Estimate {
        Estimate::accuracy(&runs.correctness(), &self.spread)
    }

    pub(crate) fn difference(&self, runs: &CaseRuns<'_>, base: &CaseRuns<'_>) -> Estimate {
        Estimate::difference(&runs.correctness(), &base.correctness(), &self.spread)
    }
}

impl CaseRuns<'_> {
    pub(crate) fn correctness(&self) -> Vec<&Correctness> {
        self.runs.iter().map(|run| &run.correctness).collect()
    }
}

/// One claim for each expectation, and, where cipher text was trained on, whether that changed anything.
pub(crate) fn claims(study: &Study, comparison: &Comparison<'_>) -> Vec<Claim> {
    let find = |key: &str| comparison.all.iter().find(|runs| runs.case.key == key);
    let mut claims: Vec<Claim> = study
        .expectations
        .iter()
        .filter_map(|expectation| {
            let (case, base) = (find(&expectation.case)?, find(&expectation.base)?);
            let difference = comparison.difference(case, base);
            let (case, base) = (case.case.name.as_str(), base.case.name.as_str());
            Some(match expectation.relation {
                Relation::Within(margin) => Claim::within(case, base, margin, difference),
                Relation::Lower(margin) => Claim::lower(case, base, margin, difference),
            })
        })
        .collect();
    if let (Some(plain), Some(encrypted)) = (find("none"), find("encrypted")) {
        claims.push(same(comparison, plain, encrypted));
    }
    claims
}

/// Share of test pictures on which the plain and the encrypted model may differ: f32 rounds differently under the keys.
const ROUNDING: f64 = 0.001;

fn same(comparison: &Comparison<'_>, plain: &CaseRuns<'_>, encrypted: &CaseRuns<'_>) -> Claim {
    let pairs = || plain.runs.iter().zip(&encrypted.runs);
    let pictures: usize = pairs().map(|(plain, _)| plain.correctness.pictures()).sum();
    let apart: usize = pairs().map(|(plain, encrypted)| plain.correctness.disagreements(&encrypted.correctness)).sum();
    Claim::decided(
        format!(
            "encryption changes nothing: what the plain model classifies correctly, the encrypted one does, up to one picture in {:.0}",
            1.0 / ROUNDING
        ),
        format!(
            "plain {:.2} %, encrypted {:.2} %; {apart} of {pictures} test pictures are classified correctly by one of the two alone",
            comparison.accuracy(plain).mean,
            comparison.accuracy(encrypted).mean
        ),
        apart as f64 <= ROUNDING * pictures as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalogue::{Experiment, Scale},
        claim::Finding,
    };

    fn run(case: &str, seed: u64, right: usize) -> TrainingRun {
        let correctness: Correctness = (0..1000).map(|picture| picture < right).collect();
        TrainingRun {
            case: case.to_owned(),
            seed,
            rounds: 1,
            points: Vec::new(),
            correctness,
            diverged: None,
            seconds: 0.0,
        }
    }

    fn findings(experiment: Experiment, right: impl Fn(&str, u64) -> usize) -> Vec<(String, Finding)> {
        let study = Study::of(experiment, Scale::Tiny).unwrap();
        let trained: Vec<TrainingRun> = study
            .cases
            .iter()
            .flat_map(|case| (0..3).map(|seed| run(&case.key, seed, right(&case.key, seed))).collect::<Vec<_>>())
            .collect();
        claims(&study, &Comparison::new(&study, &trained))
            .into_iter()
            .map(|claim| (claim.expected, claim.finding))
            .collect()
    }

    #[test]
    fn what_the_papers_say_is_borne_out_by_numbers_that_say_so() {
        let right = |case: &str, _| match case {
            "eps1" => 100,
            "eps4" => 300,
            "fixed" => 450,
            "f0.8" => 300,
            "f0.5" => 400,
            "f0.2" => 480,
            _ => 500,
        };
        for (expected, finding) in findings(Experiment::VitFromScratch, right) {
            assert_eq!(finding, Finding::Agrees, "{expected}");
        }
    }

    #[test]
    fn numbers_that_say_otherwise_refute_it() {
        let right = |case: &str, _| match case {
            "none" => 500,
            "f0.2" => 300,
            "f0.5" => 400,
            "f0.8" => 520,
            "r0.2" | "r0.5" | "r0.8" => 400,
            _ => 510,
        };
        for (expected, finding) in findings(Experiment::VitFromScratch, right) {
            assert_eq!(finding, Finding::Differs, "{expected}");
        }
    }

    #[test]
    fn seeds_that_disagree_leave_it_open() {
        let finding = |step: usize| {
            let right = |case: &str, seed: u64| if case == "r0.5" { 500 - step + step * seed as usize } else { 500 };
            let findings = findings(Experiment::VitFineTuned, right);
            findings.iter().find(|(expected, _)| expected.contains("random binary, R = 0.5")).unwrap().1
        };
        assert_eq!((finding(0), finding(60)), (Finding::Agrees, Finding::Open));
    }

    #[test]
    fn encryption_that_changes_answers_is_seen() {
        let finding = |right: usize| {
            findings(Experiment::Encrypted, |case, _| if case == "encrypted" { right } else { 500 }).remove(0).1
        };
        assert_eq!((finding(500), finding(501), finding(490)), (Finding::Agrees, Finding::Agrees, Finding::Differs));
    }
}
