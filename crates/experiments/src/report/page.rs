//! The report as one HTML file that needs nothing else.

use std::fmt::Write;

use crate::laboratory::html::escape;

use super::{Figure, Provenance, Report, Table};
use crate::{
    claim::{Claim, Finding, tally},
    figure::{Look, Stroke},
};

const STYLE: &str = include_str!("page.css");

/// The page of a report.
pub fn page(report: &Report) -> String {
    let Provenance { experiment, .. } = report.provenance;
    let title = escape(experiment.title());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <p class=\"repeats\">After {}, {} scale</p>\n<h1>{title}</h1>\n<p class=\"question\">{}</p>\n\
         {}<p>{}</p>\n",
        escape(experiment.repeats()),
        report.provenance.scale,
        escape(experiment.question()),
        verdict(&report.claims),
        escape(&report.lead),
    );
    for each in &report.figures {
        figure(&mut page, each);
    }
    claims(&mut page, report);
    for each in &report.tables {
        table(&mut page, each);
    }
    if !report.notes.is_empty() {
        page.push_str("<h2>What to know before quoting a number</h2>\n<ul>\n");
        for note in &report.notes {
            let _ = writeln!(page, "<li>{}</li>", escape(note));
        }
        page.push_str("</ul>\n");
    }
    if let Some(cost) = &report.cost {
        let _ = writeln!(page, "<h2>At the papers' scale</h2>\n<p>{}</p>", escape(cost));
    }
    again(&mut page, report);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// What the numbers say to each expectation, in words first: what was expected where it is borne out, what was found where
/// it is not or cannot be told.
fn verdict(claims: &[Claim]) -> String {
    let mut list = format!("<div class=\"verdict\">\n<p>{}:</p>\n<ul>\n", tally(claims));
    for (finding, word) in
        [(Finding::Agrees, "Borne out"), (Finding::Differs, "Not borne out"), (Finding::Open, "Cannot be told")]
    {
        for claim in claims.iter().filter(|claim| claim.finding == finding) {
            let text = if finding == Finding::Agrees { &claim.expected } else { &claim.found };
            let _ = writeln!(list, "<li><b>{word}:</b> {}.</li>", escape(text));
        }
    }
    list + "</ul>\n</div>\n"
}

fn figure(page: &mut String, Figure { caption, svg, legend }: &Figure) {
    let _ =
        write!(page, "<figure>\n<div class=\"scroll\" role=\"img\" aria-label=\"{}\">{svg}</div>\n", escape(caption));
    if !legend.is_empty() {
        page.push_str("<ul class=\"legend\">");
        for (look, name) in legend {
            let _ = write!(page, "<li>{}{}</li>", swatch(*look), escape(name));
        }
        page.push_str("</ul>\n");
    }
    let _ = writeln!(page, "<figcaption>{}</figcaption>\n</figure>", escape(caption));
}

/// A piece of the line as it is drawn.
fn swatch(look: Look) -> String {
    let dashes = match look.stroke {
        Stroke::Solid => "",
        Stroke::Dashed => " stroke-dasharray=\"9 5\"",
        Stroke::Dotted => " stroke-dasharray=\"2 4\"",
    };
    format!(
        "<svg viewBox=\"0 0 32 6\" aria-hidden=\"true\"><path d=\"M0 3h32\" stroke=\"{}\" stroke-width=\"3\"{dashes}/></svg>",
        look.css()
    )
}

fn claims(page: &mut String, report: &Report) {
    page.push_str("<h2>What was expected, and what was found</h2>\n<ul class=\"claims\">\n");
    for claim in &report.claims {
        let class = match claim.finding {
            Finding::Agrees => "agrees",
            Finding::Differs => "differs",
            Finding::Open => "open",
        };
        let _ = writeln!(
            page,
            "<li class=\"{class}\"><b>{}</b> <span>Expected: {}.</span> <span>Found: {}.</span></li>",
            claim.finding.name(),
            escape(&claim.expected),
            escape(&claim.found)
        );
    }
    page.push_str("</ul>\n");
    if report.claims.iter().any(|claim| claim.has_interval) {
        page.push_str(
            "<p class=\"quiet\">An expectation agrees if the whole 95 % interval lies where it was expected, and does not agree if \
             the whole interval lies elsewhere; otherwise these numbers cannot tell. Figures are rounded here, and whole in \
             results.json.</p>\n",
        );
    }
}

fn table(page: &mut String, Table { caption, head, rows }: &Table) {
    let _ = write!(page, "<h2>{}</h2>\n<div class=\"scroll\"><table>\n<thead><tr>", escape(caption));
    for cell in head {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(cell));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match column {
                0 => write!(page, "<th scope=\"row\">{cell}</th>"),
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

/// How to get the numbers again, and where they came from.
fn again(page: &mut String, report: &Report) {
    let Provenance { seed, seeds, version, commit, has_local_changes, device, threads, seconds, command, .. } =
        &report.provenance;
    let commit = match commit {
        Some(commit) if *has_local_changes => format!("commit {commit} with local changes"),
        Some(commit) => format!("commit {commit}"),
        None => "no git commit".to_owned(),
    };
    let seeds = match seeds {
        1 => format!("seed {seed}"),
        _ => format!("seeds {seed} to {}", seed + seeds - 1),
    };
    let _ = writeln!(
        page,
        "<h2>Again</h2>\n<pre>{}</pre>\n<p class=\"quiet\">unmask {version}, {}, {seeds}, {} with {threads} threads, {}. \
         Every number is in results.json and results.csv beside this page.</p>",
        escape(command),
        escape(&commit),
        escape(device),
        duration(*seconds),
    );
    if !report.commands.is_empty() {
        page.push_str("<details><summary>Single parts</summary>\n<pre>");
        page.push_str(&escape(&report.commands.join("\n")));
        page.push_str("</pre></details>\n");
    }
}

/// A time as people say it.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} seconds"),
        ..5400.0 => format!("{:.1} minutes", seconds / 60.0),
        ..172_800.0 => format!("{:.1} hours", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalogue::{Experiment, Scale},
        claim::Claim,
    };

    fn report() -> Report {
        Report {
            provenance: Provenance {
                experiment: Experiment::NonIid,
                scale: Scale::Small,
                seed: 1,
                seeds: 3,
                version: "0.1.0".to_owned(),
                commit: Some("abc".to_owned()),
                has_local_changes: false,
                device: "cpu".to_owned(),
                threads: 2,
                finished: 0,
                seconds: 100.0,
                command: "unmask reproduce non-iid".to_owned(),
            },
            lead: "Five clients & <one> relay.".to_owned(),
            claims: vec![
                Claim::decided("masks hold", "R = 0.5 held", true),
                Claim::decided("noise costs little", "ε < 4 cost much", false),
            ],
            figures: vec![Figure {
                caption: "Accuracy over rounds.".to_owned(),
                svg: "<svg></svg>".to_owned(),
                legend: vec![(Look::solid(1), "R = 0.5".to_owned())],
            }],
            tables: vec![Table {
                caption: "Accuracy".to_owned(),
                head: vec!["defence".to_owned(), "accuracy".to_owned()],
                rows: vec![vec!["none".to_owned(), "40.0".to_owned()]],
            }],
            notes: vec!["A note.".to_owned()],
            cost: Some("Ten hours.".to_owned()),
            commands: vec!["unmask train --config non-iid.toml".to_owned()],
        }
    }

    #[test]
    fn the_page_says_it_all_and_loads_nothing() {
        let page = page(&report());
        for part in [
            "<p>1 of 2 expectations are borne out, 1 not, 0 cannot be told:</p>",
            "<li><b>Borne out:</b> masks hold.</li>\n<li><b>Not borne out:</b> ε &lt; 4 cost much.</li>",
            "Five clients &amp; &lt;one&gt; relay.",
            "After FLRSP Fig. 7, small scale",
            "unmask reproduce non-iid",
            "commit abc, seeds 1 to 3, cpu with 2 threads, 1.7 minutes",
            "<th scope=\"row\">none</th><td>40.0</td>",
            "Ten hours.",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("<script"), "{page}");
    }

    #[test]
    fn times_are_said_in_their_unit() {
        let said = [12.0, 120.0, 7200.0, 864_000.0].map(duration);
        assert_eq!(said, ["12 seconds", "2.0 minutes", "2.0 hours", "10.0 days"]);
    }
}
