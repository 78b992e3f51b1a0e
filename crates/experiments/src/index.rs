//! A table of all reports in a folder.

use std::{fs, path::Path};

use serde::Deserialize;

use crate::{
    catalogue::Experiment,
    error::PapersError,
    report::{Provenance, duration},
    store::write,
};

/// What is read of `run.json`.
#[derive(Deserialize)]
struct Run {
    provenance: Provenance,
    tally: String,
}

/// Writes `README.md` in `out`: a line for each experiment that has a report there.
pub(crate) fn update(out: &Path) -> Result<(), PapersError> {
    let mut text =
        "# Reports\n\nWhat `unmask reproduce` found, an experiment in each line. The verdict is computed from the \
                    numbers; each report says by which criteria. Times are by the clock. Expectations include some of our own, such as that a mask protects from an attacker who knows it, of whom the papers say nothing.\n\n\
                    | experiment | repeats | verdict | command | took |\n|---|---|---|---|---|\n"
            .to_owned();
    for experiment in Experiment::ALL {
        let path = out.join(experiment.name()).join("run.json");
        let Ok(bytes) = fs::read(&path) else { continue };
        let Run { provenance, tally } = serde_json::from_slice(&bytes)
            .map_err(|error| PapersError::Damaged { path: path.clone(), problem: error.to_string() })?;
        text += &format!(
            "| [{}]({experiment}/report.html) | {} | {} | `{}` | {} |\n",
            experiment.title(),
            experiment.repeats(),
            tally,
            provenance.command,
            duration(provenance.seconds)
        );
    }
    write(&out.join("README.md"), text.as_bytes())
}
