//! `report.html`.

use maud::{Markup, PreEscaped, html};

use super::{Figure, Findings, Provenance, Table};
use crate::{
    claim::{Claim, Finding, MANY, Source, tally},
    figure::{LineStyle, SeriesStyle},
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
                (unmask_html::table(columns, &table_rows(rows)))
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
    unmask_html::page(experiment.title(), STYLE, &body)
}

/// The verdicts in words: each claim and, unless it is confirmed, the numbers or the reason.
fn verdict(claims: &[Claim]) -> Markup {
    html! {
        div.verdict {
            p { (tally(claims)) }
            ul {
                @for finding in Finding::ALL {
                    @for claim in claims.iter().filter(|claim| claim.finding == finding) {
                        li {
                            b { (finding.name()) } ", " (claim.source.title()) ": " (claim.expected)
                            @match (finding, &claim.because) {
                                (Finding::Agrees, _) => {}
                                (Finding::Open, Some(because)) => { " Because " (because) "." }
                                (Finding::Differs | Finding::Open, _) => { " Found: " (claim.found) "." }
                            }
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

/// The papers' claims, then our own.
fn expectations(claims: &[Claim]) -> Markup {
    let class = |claim: &Claim| match claim.finding {
        Finding::Agrees => "agrees",
        Finding::Differs => "differs",
        Finding::Open => "open",
    };
    html! {
        @for source in Source::ALL {
            @let here: Vec<&Claim> = claims.iter().filter(|claim| claim.source == source).collect();
            @if !here.is_empty() {
                h2 { @if source.is_paper() { "What " (source.title()) " claims, and what was found" } @else { "What we expected, and what was found" } }
                ul.claims {
                    @for claim in here {
                        li class=(class(claim)) {
                            b { (claim.finding.name()) } " "
                            span { (claim.expected) " (" (claim.place) ")" } " "
                            span { "Holds if " code { (claim.criterion) } "." } " "
                            span { "Found: " (claim.found) "." }
                            @if let Some(because) = &claim.because { " " span { "Undecided because " (because) "." } }
                        }
                    }
                }
            }
        }
        p.quiet {
            "A formula holds if the whole 95 % interval lies where it is to lie, and fails if the whole interval lies elsewhere. " (MANY)
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

/// How to reproduce the numbers, and their provenance.
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
    use crate::{catalogue::Scale, claim::Claim};

    fn claim(source: Source, expected: &str, found: &str, finding: Finding, because: Option<&str>) -> Claim {
        Claim {
            id: "id".to_owned(),
            source,
            place: "Fig. 7".to_owned(),
            expected: expected.to_owned(),
            criterion: "accuracy(a) < accuracy(b)".to_owned(),
            found: found.to_owned(),
            finding,
            because: because.map(str::to_owned),
        }
    }

    fn page() -> String {
        let provenance = Provenance {
            experiment: "non-iid".parse().unwrap(),
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
                claim(Source::Flrsp, "Masks hold.", "R = 0.5 held", Finding::Agrees, None),
                claim(Source::Ours, "Noise costs little.", "ε < 4 cost much", Finding::Differs, None),
                claim(Source::Ours, "Few classes cost.", "0, -3 to 3", Finding::Open, Some("the interval is wide")),
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
            "<p>the papers' claims: 1 of 1 confirmed, 0 refuted, 0 undecided; our own: 0 of 2 confirmed, 1 refuted, 1 undecided</p>",
            "<li><b>confirmed</b>, FLRSP: Masks hold.</li>",
            "<li><b>refuted</b>, our own: Noise costs little. Found: ε &lt; 4 cost much.</li>",
            "<li><b>undecided</b>, our own: Few classes cost. Because the interval is wide.</li>",
            "What FLRSP claims, and what was found",
            "Holds if <code>accuracy(a) &lt; accuracy(b)</code>.",
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
        assert!(page.contains(unmask_html::POLICY), "{page}");
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("<script"), "{page}");
    }

    #[test]
    fn times_are_said_in_their_unit() {
        let said = [12.0, 120.0, 7200.0, 864_000.0].map(duration);
        assert_eq!(said, ["12 seconds", "2.0 minutes", "2.0 hours", "10.0 days"]);
    }
}
