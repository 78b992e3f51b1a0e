//! The claims that trainings decide, judged on numbers made up for them.

use crate::{
    catalogue::Scale,
    claim::{Finding, Measurements, Term, conditions, judged},
    metric::Metric,
    plan::TrainingPlan,
    studies::study,
    training::{Comparison, TestPoint, TrainingRun, undefended, wide_cases},
};

fn plan(experiment: &str) -> TrainingPlan {
    study(experiment.parse().unwrap()).unwrap().plan(Scale::Tiny).unwrap()
}

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

fn train(plan: &TrainingPlan, seeds: u64, right: impl Fn(&str, u64) -> usize) -> Vec<TrainingRun> {
    let runs = |seed: u64| plan.cases.iter().map(move |case| (case, seed));
    (0..seeds).flat_map(runs).map(|(case, seed)| run(&case.key, seed, right(&case.key, seed))).collect()
}

fn findings(experiment: &str, right: impl Fn(&str, u64) -> usize) -> Vec<(String, Finding)> {
    let plan = plan(experiment);
    let trained = train(&plan, 3, right);
    let claims = judged(experiment.parse().unwrap(), &Comparison::new(&plan, &trained)).unwrap();
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
    for (id, finding) in findings("vit-from-scratch", right) {
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
    for (id, finding) in findings("vit-from-scratch", right) {
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
        let findings = findings("vit-from-scratch", right);
        findings.iter().find(|(id, _)| id == "rbw-more-zeros-hinder-learning-if-locked").unwrap().1
    };
    assert_eq!((finding(500), finding(300)), (Finding::Agrees, Finding::Differs));
}

/// A case that gained nothing confirms nothing and refutes nothing, even if all cases are alike.
#[test]
fn a_baseline_that_did_not_learn_leaves_all_undecided() {
    let cases: [fn(&str, u64) -> usize; 2] = [|_, _| 150, |case, _| if case == "none" { 190 } else { 10 }];
    for right in cases {
        for (id, finding) in findings("vit-from-scratch", right) {
            assert_eq!(finding, Finding::Open, "{id}");
        }
    }
    let plan = plan("encrypted");
    let trained = train(&plan, 3, |_, _| 150);
    let claims = judged("encrypted".parse().unwrap(), &Comparison::new(&plan, &trained)).unwrap();
    for claim in claims {
        let because = claim.because.unwrap();
        assert!(because.starts_with("the baseline did not learn: it gained 5.0 points"), "{because}");
    }
}

#[test]
fn seeds_that_disagree_leave_it_open() {
    let finding = |step: usize| {
        let right = |case: &str, seed: u64| if case == "r0.5" { 500 - step + step * seed as usize } else { 500 };
        let findings = findings("vit-fine-tuned", right);
        findings.iter().find(|(id, _)| id == "rbw-pretrained-masks-keep-accuracy").unwrap().1
    };
    assert_eq!((finding(0), finding(60)), (Finding::Agrees, Finding::Open));
}

/// A case with seeds that disagree does not widen the intervals of other cases.
#[test]
fn each_comparison_has_its_own_spread() {
    let plan = plan("vit-fine-tuned");
    let right = |case: &str, seed: u64| if case == "eps1" { 100 + 150 * seed as usize } else { 500 };
    let trained = train(&plan, 3, right);
    let comparison = Comparison::new(&plan, &trained);
    let half_width = |case: &str| {
        let term = |case: &str| Term { metric: Metric::Accuracy, case: case.to_owned() };
        comparison.measure(&term(case), Some(&term("none"))).unwrap().half_width()
    };
    assert!(half_width("eps1") > 37.0 && half_width("r0.2") == 0.0, "{}", half_width("eps1"));
}

#[test]
fn encryption_that_changes_answers_is_seen() {
    let finding = |right: usize| {
        let findings = findings("encrypted", |case, _| if case == "encrypted" { right } else { 500 });
        findings.iter().find(|(id, _)| id == "encrypted-vit-same-model").unwrap().1
    };
    assert_eq!((finding(500), finding(501), finding(490)), (Finding::Agrees, Finding::Agrees, Finding::Differs));
}

/// Only cases with wide intervals are trained further, with the cases they are compared to.
#[test]
fn further_seeds_are_for_wide_intervals() {
    let plan = plan("vit-from-scratch");
    let conditions = conditions("vit-from-scratch".parse().unwrap()).unwrap();
    let wide = |right: &dyn Fn(&str, u64) -> usize| -> Vec<String> {
        let trained = train(&plan, 3, right);
        wide_cases(&plan, &conditions, &trained).iter().map(|case| case.key.clone()).collect()
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
    let plan = plan("vit-fine-tuned");
    let mut trained = train(&plan, 3, |_, _| 500);
    let measure = |trained: &[TrainingRun]| {
        let term = |case: &str| Term { metric: Metric::Early, case: case.to_owned() };
        Comparison::new(&plan, trained).measure(&term("r0.8"), Some(&term("none")))
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
