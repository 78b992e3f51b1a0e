//! `report.html`.

use maud::{Markup, PreEscaped, html};

use super::{Figure, Findings, Provenance, Table};
use crate::{
    claim::{Claim, Finding, tally},
    figure::{LineStyle, SeriesStyle},
    page,
};

const STYLE: &str = include_str!("page.css");

pub(crate) fn report_page(provenance: &Provenance, findings: &Findings) -> String {
    let Provenance { experiment, scale, .. } = provenance;
    let Findings { lead, claims, figures, tables, notes, cost, .. } = findings;
    let body = html! {
        main {
            p.repeats { "After " (experiment.repeats()) ", " (scale) " scale" }
            h1 { (experiment.title()) }
            p.question { (experiment.question()) }
            (verdict(claims))
            p { (lead) }
            @for each in figures { (figure(each)) }
            (expectations(claims))
            @for Table { caption, columns, rows } in tables {
                h2 { (caption) }
                (page::table(columns, &table_rows(rows)))
            }
            @if !notes.is_empty() {
                h2 { "What to know before quoting a number" }
                ul { @for note in notes { li { (note) } } }
            }
            @if let Some(cost) = cost {
                h2 { "At the papers' scale" }
                p { (cost) }
            }
            (again(provenance, &findings.commands))
        }
    };
    page::page(experiment.title(), STYLE, &body)
}

/// What the numbers say to each expectation, in words first: what was expected where it is borne out, what was found where
/// it is not or cannot be told.
fn verdict(claims: &[Claim]) -> Markup {
    let words =
        [(Finding::Agrees, "Borne out"), (Finding::Differs, "Not borne out"), (Finding::Open, "Cannot be told")];
    html! {
        div.verdict {
            p { (tally(claims)) ":" }
            ul {
                @for (finding, word) in words {
                    @for claim in claims.iter().filter(|claim| claim.finding == finding) {
                        li {
                            b { (word) ":" } " "
                            (if finding == Finding::Agrees { &claim.expected } else { &claim.found }) "."
                        }
                    }
                }
            }
        }
    }
}

fn figure(Figure { caption, svg, legend }: &Figure) -> Markup {
    html! {
        figure {
            div.scroll role="img" aria-label=(caption) { (PreEscaped(svg)) }
            @if !legend.is_empty() {
                ul.legend { @for (series, name) in legend { li { (swatch(*series)) (name) } } }
            }
            figcaption { (caption) }
        }
    }
}

/// A piece of the line as it is drawn.
fn swatch(series: SeriesStyle) -> Markup {
    let dashes = match series.line {
        LineStyle::Solid => None,
        LineStyle::Dashed => Some("9 5"),
        LineStyle::Dotted => Some("2 4"),
    };
    html! {
        svg viewBox="0 0 32 6" aria-hidden="true" {
            path d="M0 3h32" stroke=(series.css()) stroke-width="3" stroke-dasharray=[dashes] {}
        }
    }
}

fn expectations(claims: &[Claim]) -> Markup {
    let class = |claim: &Claim| match claim.finding {
        Finding::Agrees => "agrees",
        Finding::Differs => "differs",
        Finding::Open => "open",
    };
    html! {
        h2 { "What was expected, and what was found" }
        ul.claims {
            @for claim in claims {
                li class=(class(claim)) {
                    b { (claim.finding.name()) } " "
                    span { "Expected: " (claim.expected) "." } " "
                    span { "Found: " (claim.found) "." }
                }
            }
        }
        @if claims.iter().any(|claim| claim.has_interval) {
            p.quiet {
                "An expectation agrees if the whole 95 % interval lies where it was expected, and does not agree if the whole "
                "interval lies elsewhere; otherwise these numbers cannot tell. Figures are rounded here, and whole in "
                "results.json."
            }
        }
    }
}

fn table_rows(rows: &[Vec<String>]) -> Markup {
    html! {
        @for row in rows {
            tr {
                @if let [name, cells @ ..] = row.as_slice() {
                    th scope="row" { (name) }
                    @for cell in cells { td { (cell) } }
                }
            }
        }
    }
}

/// How to get the numbers again, and where they came from.
fn again(provenance: &Provenance, commands: &[String]) -> Markup {
    let Provenance {
        seed,
        seeds,
        version,
        commit,
        has_local_changes,
        device,
        processor,
        threads,
        seconds,
        command,
        ..
    } = provenance;
    let processor = processor.as_ref().map_or(String::new(), |processor| format!(" of {processor}"));
    let commit = match commit {
        Some(commit) if *has_local_changes => format!("commit {commit} with local changes"),
        Some(commit) => format!("commit {commit}"),
        None => "no git commit".to_owned(),
    };
    let seeds = match seeds {
        1 => format!("seed {seed}"),
        _ => format!("seeds {seed} to {}", seed + seeds - 1),
    };
    html! {
        h2 { "Again" }
        pre { (command) }
        p.quiet {
            "unmask " (version) ", " (commit) ", " (seeds) ", " (device) " with " (threads) " threads" (processor) ", " (duration(*seconds))
            ". Every number is in results.json and results.csv beside this page."
        }
        @if !commands.is_empty() {
            details {
                summary { "Single parts" }
                pre { (commands.join("\n")) }
            }
        }
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

    fn page() -> String {
        let provenance = Provenance {
            experiment: Experiment::NonIid,
            scale: Scale::Small,
            seed: 1,
            seeds: 3,
            version: "0.1.0".to_owned(),
            commit: Some("abc".to_owned()),
            has_local_changes: false,
            device: "cpu".to_owned(),
            processor: Some("AMD EPYC".to_owned()),
            threads: 2,
            finished: 0,
            seconds: 100.0,
            command: "unmask reproduce non-iid".to_owned(),
        };
        let findings = Findings {
            seeds: 3,
            seconds: 100.0,
            lead: "Five clients & <one> relay.".to_owned(),
            claims: vec![
                Claim::decided("masks hold", "R = 0.5 held", true),
                Claim::decided("noise costs little", "ε < 4 cost much", false),
            ],
            figures: vec![Figure {
                caption: "Accuracy over rounds.".to_owned(),
                svg: "<svg></svg>".to_owned(),
                legend: vec![(SeriesStyle::solid(1), "R = 0.5".to_owned())],
            }],
            tables: vec![Table {
                caption: "Accuracy".to_owned(),
                columns: vec!["defence".to_owned(), "accuracy".to_owned()],
                rows: vec![vec!["none".to_owned(), "40.0".to_owned()]],
            }],
            notes: vec!["A note.".to_owned()],
            cost: Some("Ten hours.".to_owned()),
            commands: vec!["unmask train --config non-iid.toml".to_owned()],
            records: Vec::new(),
            results: serde_json::Value::Null,
            curve: None,
        };
        report_page(&provenance, &findings)
    }

    #[test]
    fn the_page_says_it_all_and_loads_nothing() {
        let page = page();
        for part in [
            "<p>1 of 2 expectations are borne out, 1 not, 0 cannot be told:</p>",
            "<li><b>Borne out:</b> masks hold.</li><li><b>Not borne out:</b> ε &lt; 4 cost much.</li>",
            "Five clients &amp; &lt;one&gt; relay.",
            "After FLRSP Fig. 7, small scale",
            "unmask reproduce non-iid",
            "commit abc, seeds 1 to 3, cpu with 2 threads of AMD EPYC, 1.7 minutes",
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
