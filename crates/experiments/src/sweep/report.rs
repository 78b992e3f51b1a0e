//! Results of a sweep as JSON, CSV and a page.

use std::path::{Path, PathBuf};

use maud::{PreEscaped, html};
use serde::Serialize;

use super::plan::{RunRecord, SweepPlan};
use crate::{
    accuracy::Estimate,
    error::ExperimentError,
    figure::{self, SeriesStyle, intervals},
    parts::Machine,
    report::csv,
    store::write as write_file,
    training::{TestPoint, TrainingRun},
};
use unmask_core::SchemaVersion;

const STYLE: &str = include_str!("page.css");
const PAGE: &str = "sweep.html";
const DRAWN: usize = 40;

#[derive(Serialize)]
struct Table<'a> {
    schema_version: SchemaVersion<1>,
    run: &'a RunRecord,
    provenance: Provenance<'a>,
    /// One per combination of values, over all seeds.
    means: Vec<Mean<'a>>,
    rows: Vec<Row<'a>>,
}

/// The machine and the time. The results do not depend on them.
#[derive(Serialize)]
struct Provenance<'a> {
    processor: Option<&'a str>,
    threads: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct Mean<'a> {
    /// In the order of the axes.
    values: Vec<&'a str>,
    /// In percent of the test pictures.
    accuracy: Estimate,
}

#[derive(Serialize)]
struct Row<'a> {
    values: Vec<&'a str>,
    seed: u64,
    rounds: u32,
    accuracy: f64,
    test_pictures: usize,
    /// Why it ended before the last round, if it did.
    diverged: Option<&'a str>,
    points: &'a [TestPoint],
}

/// Writes all three files and returns the page's path. `trained` has the plan's cases in order.
pub(super) fn write(
    folder: &Path,
    plan: &SweepPlan,
    trained: &[TrainingRun],
    machine: &Machine,
) -> Result<PathBuf, ExperimentError> {
    let combinations = plan.combinations();
    let rows: Vec<Row<'_>> = trained
        .iter()
        .zip(combinations.iter().cycle())
        .map(|(run, values)| Row {
            values: values.clone(),
            seed: run.seed,
            rounds: run.rounds,
            accuracy: run.correctness.accuracy(),
            test_pictures: run.correctness.pictures(),
            diverged: run.diverged.as_deref(),
            points: &run.points,
        })
        .collect();
    let accuracy = |at: usize| {
        let of_values = trained.iter().skip(at).step_by(combinations.len()).map(|run| &run.correctness);
        Estimate::accuracy(&of_values.collect::<Vec<_>>())
    };
    let means: Vec<(Vec<&str>, Estimate)> =
        combinations.iter().enumerate().map(|(at, values)| (values.clone(), accuracy(at))).collect();
    write_file(&folder.join("sweep.csv"), &table(plan, &rows)?)?;
    write_file(&folder.join(PAGE), html(plan, &means, &rows)?.as_bytes())?;
    let provenance = Provenance {
        processor: machine.processor.as_deref(),
        threads: machine.threads,
        seconds: trained.iter().map(|run| run.seconds).sum(),
    };
    let means = means.into_iter().map(|(values, accuracy)| Mean { values, accuracy }).collect();
    let json =
        serde_json::to_string_pretty(&Table { schema_version: SchemaVersion, run: &plan.run, provenance, means, rows });
    let encode =
        |error: serde_json::Error| ExperimentError::Encode { what: "sweep.json".to_owned(), reason: error.to_string() };
    write_file(&folder.join("sweep.json"), (json.map_err(encode)? + "\n").as_bytes())?;
    Ok(folder.join(PAGE))
}

fn table(plan: &SweepPlan, rows: &[Row<'_>]) -> Result<Vec<u8>, ExperimentError> {
    let keys = plan.run.settings.vary.iter().map(|axis| axis.key.as_str());
    let columns: Vec<&str> = keys.chain(["seed", "rounds", "accuracy", "test_pictures", "diverged"]).collect();
    let line = |row: &Row<'_>| -> Vec<String> {
        let Row { values, seed, rounds, accuracy, test_pictures, diverged, .. } = row;
        let found = [seed.to_string(), rounds.to_string(), accuracy.to_string(), test_pictures.to_string()];
        let values = values.iter().map(|&value| value.to_owned());
        values.chain(found).chain([diverged.unwrap_or_default().to_owned()]).collect()
    };
    csv(&columns, rows.iter().map(line))
}

fn html(plan: &SweepPlan, means: &[(Vec<&str>, Estimate)], rows: &[Row<'_>]) -> Result<String, ExperimentError> {
    let settings = &plan.run.settings;
    let keys = settings.vary.iter().map(|axis| axis.key.clone());
    let columns: Vec<String> = keys.chain(["accuracy in %", "95 % interval", "seeds"].map(str::to_owned)).collect();
    let lines: Vec<figure::Interval> = means
        .iter()
        .take(DRAWN)
        .map(|(values, accuracy)| figure::Interval {
            name: values.join(", "),
            series: SeriesStyle::solid(1),
            mean: accuracy.mean,
            half_width: accuracy.half_width,
        })
        .collect();
    let diverged: Vec<&Row<'_>> = rows.iter().filter(|row| row.diverged.is_some()).collect();
    let body = html! {
        main {
            h1 { "Trainings of " (settings.config.model) " on " (settings.config.data) }
            p {
                (rows.len()) " trainings: every combination of the values below, each with "
                @if settings.seeds == 1 { "one seed" } @else { (settings.seeds) " seeds" }
                ". Accuracy is the share of test pictures that the model classifies correctly after its last round."
            }
            figure {
                (PreEscaped(intervals("accuracy in %", &lines, None)?))
                figcaption {
                    "Means over the seeds with their 95 % intervals, which count the spread of the seeds and that of the test pictures. One seed shows no spread."
                    @if means.len() > DRAWN { " The first " (DRAWN) " of " (means.len()) "." }
                }
            }
            (unmask_html::table(&columns, &html! {
                @for (values, accuracy) in means {
                    tr {
                        @for value in values { td { (value) } }
                        td { (format!("{:.2}", accuracy.mean)) }
                        td { "± " (format!("{:.2}", accuracy.half_width)) }
                        td { (accuracy.seeds) }
                    }
                }
            }))
            @if !diverged.is_empty() {
                h2 { "Ended before the last round" }
                ul {
                    @for row in &diverged {
                        li { (row.values.join(", ")) ", seed " (row.seed) ": " (row.diverged.unwrap_or_default()) }
                    }
                }
            }
            h2 { "What all of them share" }
            pre { (settings.config.to_toml()) }
        }
    };
    Ok(unmask_html::page("Sweep", STYLE, &body))
}
