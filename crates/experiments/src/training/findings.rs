//! Findings of a comparison of trainings.

use serde_json::json;
use unmask_core::Rule;
use unmask_simulation::Config;

use super::{
    comparison::{CaseRuns, Comparison},
    run::{TestPoint, TrainingRun},
};
use crate::{
    accuracy::{Estimate, mean},
    catalogue::Scale,
    claim::judged,
    cost,
    error::ExperimentError,
    figure::{Curve, Interval, curves, intervals},
    plan::{Case, TrainingPlan},
    report::{Figure, Findings, Table, csv},
    reported,
    run::ExperimentRun,
};

/// The accuracies that a paper reports.
pub(crate) struct Reported {
    /// The accuracy of a case in percent, where the paper has it.
    pub(crate) accuracy: fn(case: &str) -> Option<f64>,
    /// What to know before comparing them.
    pub(crate) note: &'static str,
}

impl Reported {
    fn of(reported: Option<&Self>, case: &str) -> Option<f64> {
        reported.and_then(|reported| (reported.accuracy)(case))
    }
}

/// Half width, in points, of the band around the first case.
const BAND: f64 = 2.0;

/// The findings of the trainings of `plan`; `paper` is the plan of the papers' scale.
pub(super) fn findings(
    run: &ExperimentRun<'_, '_>,
    plan: &TrainingPlan,
    paper: &TrainingPlan,
    reported: Option<&Reported>,
    trained: &[TrainingRun],
) -> Result<Findings, ExperimentError> {
    let comparison = Comparison::new(plan, trained);
    let all = &comparison.all;
    let experiment = run.request.experiment;
    let first = plan.first_config(run.request.seed, run.request.start().as_slice())?.unwrap_or_default();
    let legend =
        || plan.cases.iter().filter(|case| case.has_curve).map(|case| (case.style, case.name.clone())).collect();
    let lines: Vec<Curve> = all.iter().filter(|runs| runs.case.has_curve).map(curve).collect();
    let rows: Vec<Interval> = all.iter().map(interval).collect();
    let figures = vec![
        Figure {
            caption: format!(
                "Accuracy on {} test pictures over the rounds, mean over seeds. Repeats {}.",
                first.test_pictures,
                experiment.repeats()
            ),
            svg: curves("rounds", "test accuracy in %", &lines)?,
            legend: legend(),
        },
        Figure {
            caption: format!(
                "Accuracy after the last round on {} test pictures, with 95 % intervals. What lies in the grey band is within \
                 {BAND} points of the first line.",
                trained.first().map_or(0, |run| run.correctness.pictures())
            ),
            svg: intervals("test accuracy in %", &rows, Some(BAND))?,
            legend: Vec::new(),
        },
    ];
    Ok(Findings {
        seeds: all.iter().map(|runs| runs.runs.len() as u64).max().unwrap_or(0),
        seconds: trained.iter().map(|run| run.seconds).sum(),
        lead: lead(&first, trained, &comparison) + &learnt(&comparison, first.test_pictures),
        claims: judged(experiment, &comparison)?,
        figures,
        tables: vec![accuracies(reported, &comparison)],
        notes: notes(run, plan, paper, reported, &first, trained),
        cost: paper_cost(run, paper)?,
        commands: plan.cases.iter().map(|case| command(run, plan, case, trained)).collect(),
        records: records(trained)?,
        results: json!({
            "accuracy": all.iter().map(|runs| json!({
                "case": runs.case.key,
                "name": runs.case.name,
                "settings": runs.case.set.iter().filter(|set| !set.starts_with("passphrase")).collect::<Vec<_>>(),
                "accuracy": runs.accuracy(),
                "difference": comparison.all.first().map(|base| comparison.difference(runs, base)),
                "reported": Reported::of(reported, &runs.case.key),
            })).collect::<Vec<_>>(),
            "runs": trained,
        }),
        curve: None,
    })
}

/// The differences of the config from the papers', if the scale is smaller.
fn smaller(run: &ExperimentRun<'_, '_>, paper: &TrainingPlan, config: &Config) -> Option<String> {
    if run.request.scale == Scale::Paper {
        return None;
    }
    let paper = paper.first_config(config.seed, &[]).ok()??;
    let length = |config: &Config| match (config.rounds, config.epochs) {
        (Some(rounds), _) => format!("{rounds} rounds"),
        (None, epochs) => format!("{} epochs", epochs.unwrap_or(0)),
    };
    let pictures =
        |config: &Config| config.train_slice.map_or("all of them".to_owned(), |slice| format!("pictures {slice}"));
    let start = |config: &Config| match run.request.experiment.takes_weights() && *config == paper {
        true => "ImageNet weights".to_owned(),
        false => config.start.to_string(),
    };
    let said = |config: &Config| {
        [
            ("model", config.model.clone()),
            ("start", start(config)),
            ("data", format!("{}, {}", config.data, pictures(config))),
            ("length", length(config)),
            ("batch", config.batch.to_string()),
            ("rule", config.rule.to_string()),
            ("server's step", config.optimiser.to_string()),
            ("schedule", config.schedule.to_string()),
        ]
    };
    let differences: Vec<String> = said(config)
        .into_iter()
        .zip(said(&paper))
        .filter(|(here, there)| here != there)
        .map(|((what, here), (_, there))| format!("{what} {here} (the papers: {there})"))
        .collect();
    Some(format!("Differences at this scale: {}.", differences.join("; ")))
}

/// The cost of the papers' scale. The tiny scale does not measure it.
fn paper_cost(run: &ExperimentRun<'_, '_>, paper: &TrainingPlan) -> Result<Option<String>, ExperimentError> {
    if run.request.scale == Scale::Tiny {
        return Ok(None);
    }
    Ok(cost::of_trainings(run, paper)?.map(|cost| cost.to_string()))
}

/// How much the first case learnt, as a sentence to append.
fn learnt(comparison: &Comparison<'_>, pictures: usize) -> String {
    let Some(base) = comparison.all.first() else { return String::new() };
    let at = |point: fn(&TrainingRun) -> Option<f64>| {
        mean(&base.runs.iter().filter_map(|run| point(run)).collect::<Vec<_>>())
    };
    let first = 100.0 * at(|run| run.points.first().map(|point| point.accuracy));
    let last = 100.0 * at(|run| run.points.last().map(|point| point.accuracy));
    format!(
        " With {} it classified {first:.1} % of {pictures} test pictures correctly at the first test, and {last:.1} % at the end.",
        base.case.name
    )
}

fn curve(CaseRuns { case, runs }: &CaseRuns<'_>) -> Curve {
    let at = |round: u32| -> Vec<f64> {
        let points = runs.iter().filter_map(|run| run.points.iter().find(|point| point.round == round));
        points.map(|point| 100.0 * point.accuracy).collect()
    };
    let tested = runs.iter().max_by_key(|run| run.points.len()).map_or(&[][..], |run| &run.points);
    let points = tested.iter().map(|point| (f64::from(point.round), mean(&at(point.round)))).collect();
    Curve { series: case.style, points }
}

fn interval(runs: &CaseRuns<'_>) -> Interval {
    let Estimate { mean, half_width, .. } = runs.accuracy();
    Interval { name: runs.case.name.clone(), series: runs.case.style, mean, half_width }
}

fn lead(config: &Config, trained: &[TrainingRun], comparison: &Comparison<'_>) -> String {
    let Config { model, start, data, clients, rule, optimiser, batch, .. } = config;
    let rounds = trained.iter().map(|run| run.rounds).max().unwrap_or(0);
    let step = match rule {
        Rule::FedSgd => format!(", and the server steps with {optimiser}"),
        Rule::FedAvg { .. } => String::new(),
    };
    let pictures = config
        .train_slice
        .map_or_else(|| "all its training pictures".to_owned(), |slice| format!("its training pictures {slice}"));
    let seeds = comparison.all.iter().map(|runs| runs.runs.len());
    let seeds = match (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0)) {
        (1, 1) => "one seed".to_owned(),
        (least, most) if least == most => format!("{most} seeds"),
        (least, most) => format!("{least} to {most} seeds, more where a wide interval left a claim undecided"),
    };
    format!(
        "{clients} clients train {model} on {data} ({pictures}), from the start \"{start}\", for {rounds} rounds of {rule} with \
         batches of {batch}{step}. Each case was run with {seeds}; cases of one seed share initial weights, shards and order."
    )
}

fn notes(
    run: &ExperimentRun<'_, '_>,
    plan: &TrainingPlan,
    paper: &TrainingPlan,
    reported: Option<&Reported>,
    config: &Config,
    trained: &[TrainingRun],
) -> Vec<String> {
    let mut notes: Vec<String> = vec![
        "The 95 % interval of an accuracy, or of a difference, adds two errors in quadrature: that of the test pictures as a \
         sample, and that of the seeds by Student's t. A difference is paired, seed by seed and picture by picture, and has its own \
         spread."
            .to_owned(),
    ];
    notes.extend(smaller(run, paper, config));
    if plan.cases.iter().flat_map(|case| &case.set).any(|set| set.starts_with("defence=gaussian")) {
        notes.push(
            "Gaussian noise has the papers' δ = 0.5 and S_f = 0.5. Updates are clipped to S_f, except \"as printed\" and \"matched\". For \
             \"matched\" S_f is 0.0023, so that the total noise of the training equals that of the papers' ten epochs at their \
             rate. δ = 0.5 does not guarantee privacy; it is here for comparison."
                .to_owned(),
        );
    }
    if config.optimiser.to_string().starts_with("adam") && config.rule == Rule::FedSgd {
        notes.push(format!(
            "The papers use plain SGD. Here the server uses {} unless a case says SGD, because in so few rounds SGD learns too little \
             to distinguish the cases. Adam divides by the size of the updates, and so rescales noise.",
            config.optimiser
        ));
    }
    let is_reported = |reported: &&Reported| trained.iter().any(|run| (reported.accuracy)(&run.case).is_some());
    notes.extend(reported.filter(is_reported).map(|reported| reported.note.to_owned()));
    for run in trained {
        if let Some(why) = &run.diverged {
            notes.push(format!("{} with seed {} ended before its last round: {why}.", run.case, run.seed));
        }
    }
    notes
}

fn accuracies(reported: Option<&Reported>, comparison: &Comparison<'_>) -> Table {
    let row = |(place, runs): (usize, &CaseRuns<'_>)| {
        let Estimate { mean, half_width, .. } = runs.accuracy();
        let difference = match comparison.all.first().filter(|_| place > 0) {
            None => "–".to_owned(),
            Some(base) => {
                let Estimate { mean, half_width, .. } = comparison.difference(runs, base);
                format!("{mean:+.1} ± {half_width:.1}")
            }
        };
        vec![
            runs.case.name.clone(),
            format!("{mean:.1} ± {half_width:.1}"),
            difference,
            reported::cell(Reported::of(reported, &runs.case.key)),
        ]
    };
    Table {
        caption: "Accuracy after the last round, in %".to_owned(),
        columns: ["", "found", "difference to the first line, in points", "reported"].map(str::to_owned).to_vec(),
        rows: comparison.all.iter().enumerate().map(row).collect(),
    }
}

/// The command for the training of `case` with the first seed, tested on as many pictures as the final test here.
fn command(run: &ExperimentRun<'_, '_>, plan: &TrainingPlan, case: &Case, trained: &[TrainingRun]) -> String {
    let (experiment, seed) = (run.request.experiment, run.request.seed);
    let pictures = trained.first().map_or(0, |run| run.correctness.pictures());
    let more = [format!("test-pictures={pictures}"), format!("seed={seed}")];
    let set: Vec<String> = plan.set.iter().chain(&case.set).chain(&more).map(|set| format!(" --set '{set}'")).collect();
    let key = &case.key;
    format!(
        "unmask train --config crates/experiments/configs/{experiment}.toml{} --out runs/{experiment}-{key}",
        set.concat()
    )
}

fn records(trained: &[TrainingRun]) -> Result<Vec<u8>, ExperimentError> {
    let rows = trained.iter().flat_map(|run| {
        let last = run.points.len().saturating_sub(1);
        run.points.iter().enumerate().map(move |(place, &TestPoint { round, epoch, loss, accuracy })| {
            let at_the_end = (place == last).then(|| run.correctness.accuracy());
            (&run.case, run.seed, round, epoch, loss, accuracy, at_the_end)
        })
    });
    csv(&["case", "seed", "round", "epoch", "loss", "test_accuracy", "final_accuracy"], rows)
}
