//! The page over all reports in a folder: what holds, what does not, what is undecided, then every claim.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

use crate::{
    catalogue::{Experiment, Scale},
    claim::{Decided, Finding, ListedClaim, MANY, Source, listed},
    error::ExperimentError,
    metric::Metric,
    report::{Provenance, duration},
    store::{at, damaged},
};

struct Report {
    experiment: Experiment,
    provenance: Provenance,
    claims: Vec<Recorded>,
}

/// A claim in a report. One without a criterion was written down after its measurement and does not count.
#[derive(Deserialize)]
struct Recorded {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    criterion: Option<String>,
    found: String,
    finding: Finding,
    #[serde(default)]
    because: Option<String>,
}

#[derive(Deserialize)]
struct RunFile {
    provenance: Provenance,
}

#[derive(Deserialize)]
struct ResultsFile {
    claims: Vec<Recorded>,
}

struct Line<'a> {
    claim: &'a ListedClaim,
    finding: Finding,
    found: String,
    because: Option<String>,
    report: Option<&'a Report>,
}

/// Creates the page as Markdown from the list of claims and the reports in `folder`.
///
/// # Errors
/// A report's `run.json` or `results.json` cannot be read, or the list of claims is invalid.
pub fn overview(folder: &Path) -> Result<String, ExperimentError> {
    let reports = reports(folder)?;
    let claims = listed()?;
    let lines: Vec<Line<'_>> = claims.iter().map(|claim| line(claim, &reports)).collect();
    let mut page = "# Reports\n\nWhat of the papers' claims holds here, by the reports in this folder. `unmask reproduce --claims` writes this \
                    page from them and from the list of claims in `crates/experiments/claims`, where each stands in our words with \
                    the formulas that decide it. Measured numbers count only for formulas that were written down before. They are named \
                    by metric and case, `seen(lenet32/none)`: [what each is](#how-a-verdict-is-made).\n\n"
        .to_owned();
    page += &summary(&lines);
    for source in Source::ALL {
        let lines: Vec<&Line<'_>> = lines.iter().filter(|line| line.claim.source == source).collect();
        page += &table(source, &lines);
    }
    page += &formulas(&lines);
    page += &list(&reports, &lines);
    if folder.join("threats/matrix.html").is_file() {
        page += "\nThese papers do not study a relay that chooses the weights. [Attacks by defences by threat \
                 models](threats/matrix.html) does; the [threat notes](threat-notes.md) give its command.\n";
    }
    Ok(page)
}

fn reports(folder: &Path) -> Result<Vec<Report>, ExperimentError> {
    let mut reports = Vec::new();
    for experiment in Experiment::all() {
        let run = folder.join(experiment.name()).join("run.json");
        if !run.is_file() {
            continue;
        }
        let results = folder.join(experiment.name()).join("results.json");
        let RunFile { provenance } = json(&run)?;
        let ResultsFile { claims } = json(&results)?;
        reports.push(Report { experiment, provenance, claims });
    }
    Ok(reports)
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, ExperimentError> {
    serde_json::from_slice(&fs::read(path).map_err(at(path))?).map_err(damaged(path))
}

/// The verdict on a claim: the report's, if it used the same formulas as the list.
fn line<'a>(claim: &'a ListedClaim, reports: &'a [Report]) -> Line<'a> {
    let open = |because: String, report| Line {
        claim,
        finding: Finding::Open,
        found: String::new(),
        because: Some(because),
        report,
    };
    let study = match &claim.decided {
        Decided::By(study) => *study,
        Decided::Not(why) => return open(format!("no study yet: {why}"), None),
    };
    let Some(report) = reports.iter().find(|report| report.experiment == study) else {
        return open(format!("{study} was not run"), None);
    };
    if let scale @ (Scale::Tiny | Scale::Quick) = report.provenance.scale {
        return open(format!("the {} scale is for trying things out", scale.name()), Some(report));
    }
    let criterion = Some(claim.criterion());
    let recorded = report.claims.iter().find(|recorded| recorded.id.as_ref() == Some(&claim.id));
    match recorded.filter(|recorded| recorded.criterion == criterion) {
        Some(Recorded { found, finding, because, .. }) => {
            Line { claim, finding: *finding, found: found.clone(), because: because.clone(), report: Some(report) }
        }
        None => open(NOT_SINCE.to_owned(), Some(report)),
    }
}

const NOT_SINCE: &str = "not measured since its criterion was written down";

/// A two-minute summary: the papers' claims, each once, then our own.
fn summary(lines: &[Line<'_>]) -> String {
    let (papers, ours): (Vec<&Line<'_>>, Vec<&Line<'_>>) = lines.iter().partition(|line| line.claim.source.is_paper());
    let count = |who: &str, lines: &[&Line<'_>]| {
        let lines: Vec<_> = lines.iter().filter(|line| line.claim.like.is_none()).collect();
        let [agrees, differs, open] =
            Finding::ALL.map(|finding| lines.iter().filter(|line| line.finding == finding).count());
        format!("**Of {} claims {who}, {agrees} are confirmed, {differs} refuted, {open} undecided.**\n\n", lines.len())
    };
    let mut text = count("of the papers", &papers);
    for (finding, head) in [(Finding::Agrees, "## What holds\n\n"), (Finding::Differs, "## What does not hold\n\n")] {
        text += head;
        text += &found(&papers, finding);
    }
    text += "## What nobody knows\n\n";
    text += &unknown(&papers);
    text += "## What we expected ourselves\n\n";
    text += &count("of our own", &ours);
    for (finding, head) in [(Finding::Agrees, "It holds that:\n\n"), (Finding::Differs, "It does not hold that:\n\n")] {
        text += head;
        text += &found(&ours, finding);
    }
    text + "Undecided:\n\n" + &unknown(&ours)
}

/// The sentences with one finding. A claim of several papers is listed once if all have the same finding.
fn found(lines: &[&Line<'_>], finding: Finding) -> String {
    let lines: Vec<&Line<'_>> = lines.iter().copied().filter(|line| line.finding == finding).collect();
    let mut text = String::new();
    for line in &lines {
        let ListedClaim { id, like, sentence, source, place, .. } = line.claim;
        if like.is_some() {
            continue;
        }
        let mut places = vec![format!("{}, {place}", source.title())];
        let others = lines.iter().filter(|other| other.claim.like.as_ref() == Some(id));
        places.extend(others.map(|other| format!("{}, {}", other.claim.source.title(), other.claim.place)));
        let numbers = match (finding, line.report) {
            (Finding::Differs, Some(report)) => {
                format!(" [Found]({}/report.html): {}.", report.experiment, line.found)
            }
            _ => String::new(),
        };
        text += &format!("- {sentence} ({}).{numbers}\n", places.join("; "));
    }
    if text.is_empty() { "Nothing yet.\n\n".to_owned() } else { text + "\n" }
}

fn unknown(lines: &[&Line<'_>]) -> String {
    // Reason, count and an example sentence.
    let mut reasons: Vec<(&str, usize, &str)> = Vec::new();
    for line in lines.iter().filter(|line| line.finding == Finding::Open && line.claim.like.is_none()) {
        let because = line.because.as_deref().unwrap_or_default();
        let reason = match &line.claim.decided {
            Decided::Not(_) => "no study asks for it",
            Decided::By(_) => because.split([':', ';']).next().unwrap_or_default(),
        };
        match reasons.iter_mut().find(|(known, ..)| *known == reason) {
            Some((_, count, _)) => *count += 1,
            None => reasons.push((reason, 1, &line.claim.sentence)),
        }
    }
    reasons.sort_by_key(|&(_, count, _)| std::cmp::Reverse(count));
    let mut text = String::new();
    for (reason, count, sentence) in reasons {
        text += &format!("- {reason}: {count} claims, such as \u{201c}{sentence}\u{201d}\n");
    }
    if text.is_empty() { "Nothing is left.\n\n".to_owned() } else { text + "\n" }
}

fn table(source: Source, lines: &[&Line<'_>]) -> String {
    let head =
        if source.is_paper() { format!("Claims of {}", source.title()) } else { "Our own expectations".to_owned() };
    let mut text = format!(
        "## {head}\n\n| claim | stands | verdict | numbers | formulas | command |\n|---|---|---|---|---|---|\n"
    );
    for Line { claim, finding, found, because, report } in lines.iter().copied() {
        let because = because.as_ref().map_or(String::new(), |because| format!(": {because}"));
        let formulas: Vec<String> = claim.holds.iter().map(|condition| format!("`{condition}`")).collect();
        let measured = report.filter(|_| !found.is_empty());
        let command = match (&claim.decided, measured) {
            (_, Some(report)) => format!("`{}`", report.provenance.command),
            (Decided::By(study), None) => format!("`unmask reproduce {study}`"),
            (Decided::Not(_), None) => String::new(),
        };
        let cells = [
            &claim.sentence,
            &claim.place,
            &format!("{}{because}", finding.name()),
            found,
            &formulas.join(", "),
            &command,
        ];
        text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text + "\n"
}

fn formulas(lines: &[Line<'_>]) -> String {
    let comparisons = comparisons(lines.iter().map(|line| line.claim));
    let mut text = format!(
        "## How a verdict is made\n\nA formula compares what was measured of two cases of a study, or of one with a number. `= … within 2` holds \
         if the whole 95 % interval of the difference lies within 2, and fails if all of it lies outside; `<` and `>` want it \
         beyond the margin after `by`, 0 if none is given. Where the interval reaches over, the claim is undecided. It is undecided \
         too where a study's undefended model gained less than 10 points, or where an attack restores no more than half of the pictures without a \
         defence. A count of pictures or parameters has no interval: it is of these pictures. What the interval of \
         another metric is of, and whether differences of it are paired, stands with the metric.\n\n{MANY} The list has {comparisons} different formulas with an interval that a study decides.\n\n"
    );
    for metric in Metric::MEASURED {
        let interval = metric.interval().map_or(String::new(), |of| format!("; interval: {of}"));
        text += &format!("- `{}`: {}{interval}\n", metric.name(), metric.meaning());
    }
    text + "\n"
}

/// Number of intervals that decide `claims`. A formula of a study counts once, even if several claims use it.
fn comparisons<'a>(claims: impl Iterator<Item = &'a ListedClaim>) -> usize {
    let mut all = BTreeSet::new();
    for ListedClaim { holds, decided, .. } in claims {
        let Decided::By(study) = decided else { continue };
        let with_interval = holds.iter().filter(|condition| condition.left.metric.interval().is_some());
        all.extend(with_interval.map(|condition| (study.name(), condition.to_string())));
    }
    all.len()
}

fn list(reports: &[Report], lines: &[Line<'_>]) -> String {
    let mut text =
        "## The reports\n\n| report | repeats | confirmed | refuted | undecided | command | took |\n|---|---|---|---|---|---|---|\n".to_owned();
    for Report { experiment, provenance, .. } in reports {
        let here = || lines.iter().filter(|line| line.claim.decided == Decided::By(*experiment));
        let [agrees, differs, open] = Finding::ALL.map(|finding| here().filter(|line| line.finding == finding).count());
        text += &format!(
            "| [{}]({experiment}/report.html) | {} | {agrees} | {differs} | {open} | `{}` | {} |\n",
            experiment.title(),
            experiment.repeats(),
            provenance.command,
            duration(provenance.seconds)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_counts_once_and_only_where_an_interval_decides_it() {
        let claim = |decided: Decided, holds: &[&str]| ListedClaim {
            id: "ours-test".to_owned(),
            like: None,
            source: Source::Ours,
            place: "nowhere".to_owned(),
            sentence: "It holds.".to_owned(),
            holds: holds.iter().map(|formula| formula.parse().unwrap()).collect(),
            decided,
        };
        let by = |study: &str| Decided::By(study.parse().unwrap());
        let formula = "accuracy(r0.5) = accuracy(none) within 2";
        let claims = [
            claim(by("vit-fine-tuned"), &[formula, "accuracy(r0.8) = accuracy(none) within 2"]),
            claim(by("vit-fine-tuned"), &[formula]),
            claim(by("vit-from-scratch"), &[formula]),
            claim(by("attacks-vit"), &["seen(april/r0.2) = 0", "ssim(april/r0.8) < ssim(april/r0.5)"]),
            claim(Decided::Not("no study yet".to_owned()), &[formula]),
        ];
        assert_eq!(comparisons(claims.iter()), 4);
    }
}
