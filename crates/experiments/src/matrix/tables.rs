//! The rows as JSON and CSV.

use std::borrow::Cow;

use serde::Serialize;
use unmask_core::SchemaVersion;

use super::{
    ExperimentError, MatrixMean, MatrixRow,
    means::means,
    plan::{MatrixPlan, RunRecord},
    rows::Rows,
};
use crate::report;

#[derive(Serialize)]
struct Table<'a> {
    schema_version: SchemaVersion<1>,
    run: &'a RunRecord,
    /// Number of rows computed in parallel, which slows down each of them.
    threads: usize,
    means: Vec<MatrixMean>,
    rows: &'a [MatrixRow],
}

pub(super) fn write(
    files: &Rows,
    plan: &MatrixPlan,
    threads: usize,
    rows: &[MatrixRow],
) -> Result<(), ExperimentError> {
    let means = means(plan.settings(), rows);
    let table =
        serde_json::to_vec_pretty(&Table { schema_version: SchemaVersion, run: &plan.run, threads, means, rows });
    let encode = |error: serde_json::Error| ExperimentError::Encode {
        what: "matrix.json".to_owned(),
        reason: error.to_string(),
    };
    files.write("matrix.json", &table.map_err(encode)?)?;
    files.write("matrix.csv", &csv(rows)?)
}

fn csv(rows: &[MatrixRow]) -> Result<Vec<u8>, ExperimentError> {
    let columns = [
        "attack",
        "defence",
        "threat",
        "image",
        "seed",
        "verdict",
        "because",
        "psnr",
        "ssim",
        "misfit",
        "seconds",
        "iterations",
        "reason",
    ];
    let rows = rows.iter().map(|row| {
        let MatrixRow {
            attack,
            defence,
            threat,
            image,
            seed,
            verdict,
            psnr,
            ssim,
            misfit,
            seconds,
            iterations,
            reason,
            ..
        } = row;
        let (because, reason) = (verdict.because().map(text), reason.as_deref().map(text));
        let what = (attack.name(), defence.to_string(), threat.name(), text(image), seed, verdict.name(), because);
        (what, (psnr, ssim, misfit, seconds, iterations, reason))
    });
    report::csv(&columns, rows)
}

/// An apostrophe keeps spreadsheets from taking the text as a formula.
fn text(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use unmask_core::{ThreatModel, Verdict};

    use super::*;

    #[test]
    fn formulas_stay_text() {
        assert_eq!(text("cat"), "cat");
        assert_eq!(text("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
    }

    #[test]
    fn every_row_has_every_column() {
        let row = MatrixRow {
            attack: "rounds".parse().unwrap(),
            defence: "gaussian:eps=4,delta=1e-5,clip=0.5".parse().unwrap(),
            threat: ThreatModel::Fishing,
            image: "my, cat".to_owned(),
            seed: 7,
            verdict: Verdict::CannotTell("of, this".to_owned()),
            has_nothing_to_solve: false,
            reason: Some("no".to_owned()),
            psnr: None,
            ssim: Some(0.25),
            misfit: Some(0.5),
            seconds: 1.5,
            iterations: Some(3),
            pictures: Vec::new(),
        };
        let text = String::from_utf8(csv(&[row]).unwrap()).unwrap();
        let line = "rounds,\"gaussian:eps=4,delta=1e-5,clip=0.5\",fishing,\"my, cat\",7,cannot-tell,\"of, this\",,0.25,0.5,1.5,3,no";
        assert_eq!(text.lines().nth(1), Some(line));
    }
}
