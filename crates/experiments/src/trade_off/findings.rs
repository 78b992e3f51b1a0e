//! The curve as a figure, tables and claims.

use serde_json::json;
use unmask_core::{CurvePoint, DefenceKind, MeanInterval};
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{
    Outcome, StudyOutcome,
    curve::{point, setup},
    leakage::gathered,
};
use crate::{
    attacks::matching_steps,
    catalogue::Scale,
    claim::{Claim, Finding},
    error::ExperimentError,
    figure::{LineStyle, PlanePoint, PlaneSeries, SeriesStyle, plane},
    report::{Figure, Findings, Table, csv},
    run::ExperimentRun,
    study::Study,
    training::{Comparison, claims},
};

/// Points of one data set, and how far accuracies lie from that of no defence, as a table says it.
struct Panel<'a> {
    outcome: &'a StudyOutcome,
    points: Vec<CurvePoint>,
    differences: Vec<String>,
    claims: Vec<Claim>,
}

pub(super) fn findings(run: &ExperimentRun<'_, '_>, outcome: &Outcome<'_>) -> Result<Findings, ExperimentError> {
    let mut panels = Vec::new();
    for (study, trained) in outcome.studies.iter().zip(&outcome.trained) {
        panels.push(panel(run, outcome, study, trained)?);
    }
    let scale = run.request.scale;
    let tested = outcome.studies.first().map_or(0, |study| study.test_pictures);
    let seeds = outcome.studies.first().map_or(1, |study| run.request.seed_count(study));
    let config = panels.first().map(|panel| panel.outcome.config.clone()).unwrap_or_default();
    let leaks = outcome.initial.iter().chain(outcome.trained.iter().flat_map(|study| &study.leaks));
    let trainings = outcome.trained.iter().flat_map(|study| &study.runs);
    Ok(Findings {
        seeds,
        seconds: leaks.map(|leaks| leaks.seconds).sum::<f64>() + trainings.map(|run| run.seconds).sum::<f64>(),
        lead: lead(&panels, outcome, seeds, tested),
        claims: panels.iter().flat_map(|panel| panel.claims.clone()).collect(),
        figures: panels.iter().map(figure).collect::<Result<_, ExperimentError>>()?,
        tables: panels.iter().flat_map(|panel| [measured(panel), attackers(panel)]).collect(),
        notes: notes(scale, &panels),
        cost: None,
        commands: Vec::new(),
        records: records(&panels, outcome)?,
        results: json!({
            "trainings": outcome.trained.iter().map(|study| json!({ "data": study.data, "runs": study.runs })).collect::<Vec<_>>(),
            "leaks": outcome.initial.iter().chain(outcome.trained.iter().flat_map(|study| &study.leaks)).collect::<Vec<_>>(),
        }),
        curve: Some((
            setup(&config, outcome.photographs, gathered(scale), tested),
            panels.into_iter().flat_map(|panel| panel.points).collect(),
        )),
    })
}

fn panel<'a>(
    run: &ExperimentRun<'_, '_>,
    outcome: &Outcome<'_>,
    study: &Study,
    trained: &'a StudyOutcome,
) -> Result<Panel<'a>, ExperimentError> {
    let comparison = Comparison::new(study, &trained.runs);
    let (mut points, mut differences) = (Vec::new(), Vec::new());
    for runs in &comparison.all {
        let defence = study.config(runs.case, run.request.seed, &[])?.defence;
        points.push(point(outcome, trained, defence, &comparison, runs));
        let base = comparison.all.first().filter(|base| base.case.key != runs.case.key);
        differences.push(base.map_or("–".to_owned(), |base| {
            let difference = comparison.difference(runs, base);
            format!("{:+.1} ± {:.1}", difference.mean, difference.half_width)
        }));
    }
    let on = |claim: Claim| Claim { expected: format!("on {}, {}", trained.data, claim.expected), ..claim };
    let found = |claim: Claim| Claim { found: format!("on {}, {}", trained.data, claim.found), ..claim };
    let claims = claims(study, &comparison).into_iter().chain(leakage_claims(&points)).map(on).map(found).collect();
    Ok(Panel { outcome: trained, points, differences, claims })
}

/// What is expected of the best attacker: without a defence photographs are recognisable; under masks not, and the less the
/// larger R. The papers, which tested naive attackers, say nothing of it.
fn leakage_claims(points: &[CurvePoint]) -> Vec<Claim> {
    let rate = |point: &CurvePoint| point.rate.unwrap_or(0.0);
    let mut claims = Vec::new();
    for point in points {
        let Some(ssim) = point.ssim else { continue };
        let what = point.defence.phrase();
        let found = format!("{what}: the best attacker's SSIM is {}", words(ssim));
        let claim = match point.defence.kind() {
            DefenceKind::None => Claim {
                finding: told(ssim.low >= RECOGNISABLE_FROM, ssim.high < RECOGNISABLE_FROM),
                ..Claim::decided(
                    format!("{what}: the best attacker's mean SSIM is {RECOGNISABLE_FROM} or more"),
                    found,
                    true,
                )
            },
            DefenceKind::RandomBinary => Claim {
                finding: told(ssim.high < RECOGNISABLE_FROM, ssim.low >= RECOGNISABLE_FROM),
                ..Claim::decided(
                    format!("{what}: the best attacker's mean SSIM stays below {RECOGNISABLE_FROM}"),
                    found,
                    true,
                )
            },
            _ => continue,
        };
        claims.push(Claim { has_interval: true, ..claim });
    }
    let mut masks: Vec<&CurvePoint> = points.iter().filter(|point| point.rate.is_some()).collect();
    masks.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    if let [least, .., most] = masks[..]
        && let (Some(much), Some(little)) = (least.ssim, most.ssim)
    {
        let (least, most) = (rate(least), rate(most));
        claims.push(Claim {
            finding: told(little.high < much.low, little.low > much.high),
            has_interval: true,
            ..Claim::decided(
                format!("the best attacker sees less at R = {most} than at R = {least}"),
                format!("R = {most} leaves an SSIM of {}, R = {least} of {}", words(little), words(much)),
                true,
            )
        });
    }
    claims
}

fn told(is_met: bool, is_refuted: bool) -> Finding {
    match (is_met, is_refuted) {
        (true, _) => Finding::Agrees,
        (false, true) => Finding::Differs,
        (false, false) => Finding::Open,
    }
}

fn words(MeanInterval { mean, low, high }: MeanInterval) -> String {
    format!("{mean:.2} (95 % interval {low:.2} to {high:.2})")
}

fn lead(panels: &[Panel<'_>], outcome: &Outcome<'_>, seeds: u64, tested: usize) -> String {
    let trained: Vec<String> = panels
        .iter()
        .map(|panel| {
            let rounds = panel.points.iter().map(|point| point.rounds).max().unwrap_or(0);
            format!("for {rounds} rounds on {}", panel.outcome.data)
        })
        .collect();
    let config = panels.first().map(|panel| &panel.outcome.config);
    let who = config.map_or(String::new(), |config| {
        format!(
            "{} robots train {} from random weights, batches of {}, the server stepping by {}, ",
            config.clients, config.model, config.batch, config.optimiser
        )
    });
    format!(
        "{who}{}, each case with {seeds} seeds. Upwards stands the accuracy of the trained models on {tested} held-out pictures. \
         Across stands what the best attacker makes of a sample photograph, alone in its update: the mean SSIM of {} photographs, 1 \
         for the photograph itself, at the initial weights or at the trained ones, whichever shows more.",
        trained.join(", "),
        outcome.photographs
    )
}

/// How the points of a kind of defence are drawn, and what they are called.
const KINDS: [(DefenceKind, SeriesStyle, &str); 4] = [
    (DefenceKind::None, SeriesStyle::INK, "no defence"),
    (DefenceKind::RandomBinary, SeriesStyle { colour: 1, line: LineStyle::Solid }, "random binary weights"),
    (DefenceKind::FixedPosition, SeriesStyle { colour: 5, line: LineStyle::Dashed }, "fixed position"),
    (DefenceKind::Gaussian, SeriesStyle { colour: 4, line: LineStyle::Dotted }, "Gaussian noise"),
];

fn figure(panel: &Panel<'_>) -> Result<Figure, ExperimentError> {
    let percent =
        |MeanInterval { mean, low, high }| MeanInterval { mean: 100.0 * mean, low: 100.0 * low, high: 100.0 * high };
    let mut all = Vec::new();
    let mut legend = Vec::new();
    for (kind, series, name) in KINDS {
        let here = panel.points.iter().filter(|point| point.defence.kind() == kind);
        let points: Vec<PlanePoint> = here
            .filter_map(|point| {
                Some(PlanePoint { name: point.defence.label(), x: point.ssim?, y: percent(point.accuracy) })
            })
            .collect();
        if !points.is_empty() {
            legend.push((series, name.to_owned()));
            all.push(PlaneSeries { series, points });
        }
    }
    Ok(Figure {
        caption: format!(
            "Trained on {}: accuracy upwards, the best attacker's SSIM across, both with 95 % intervals. Up and to the left is better.",
            panel.outcome.data
        ),
        svg: plane("SSIM of what the best attacker sees", "accuracy in %", &all)?,
        legend,
    })
}

fn measured(panel: &Panel<'_>) -> Table {
    let columns = [
        "",
        "accuracy in %",
        "difference to the first line, in points",
        "SSIM of the best attacker",
        "the best attacker",
        "weights",
    ];
    let row = |(point, difference): (&CurvePoint, &String)| {
        let MeanInterval { mean, low, high } = point.accuracy;
        vec![
            point.defence.phrase(),
            format!("{:.1} ({:.1} to {:.1})", 100.0 * mean, 100.0 * low, 100.0 * high),
            difference.clone(),
            point.ssim.map_or("–".to_owned(), interval),
            point.attacker.map_or("–".to_owned(), |attacker| attacker.name().to_owned()),
            point.stage.map_or("–".to_owned(), |stage| stage.to_string()),
        ]
    };
    Table {
        caption: format!("Accuracy and leakage, trained on {}", panel.outcome.data),
        columns: columns.map(str::to_owned).to_vec(),
        rows: panel.points.iter().zip(&panel.differences).map(row).collect(),
    }
}

fn interval(MeanInterval { mean, low, high }: MeanInterval) -> String {
    format!("{mean:.3} ({low:.3} to {high:.3})")
}

fn attackers(panel: &Panel<'_>) -> Table {
    let rows = panel.points.iter().flat_map(|point| {
        point.attackers.iter().map(|attacker| {
            vec![
                point.defence.phrase(),
                attacker.attacker.name().to_owned(),
                attacker.stage.to_string(),
                interval(attacker.ssim),
                attacker.seeds.to_string(),
            ]
        })
    });
    Table {
        caption: format!("Every attacker, trained on {}", panel.outcome.data),
        columns: ["", "attacker", "weights", "SSIM", "seeds"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn notes(scale: Scale, panels: &[Panel<'_>]) -> Vec<String> {
    let mut notes = vec![
        "The 95 % interval of an accuracy adds the errors of the test pictures and of the seeds in quadrature, as in the other \
         reports. That of an SSIM adds the errors of the photographs and of the seeds, each by Student's t."
            .to_owned(),
        format!(
            "The attackers are those that a room tries on such an update: embedding inversion, naive and with the mask known; \
             low-rank completion, which needs a ViT of few patches and many dimensions and says so here; {} updates of one photograph \
             gathered, at nearly the same weights.",
            gathered(scale)
        ),
        searches(scale),
        "The best attacker is chosen by the mean that is reported, of a handful: where several are close its mean lies rather \
         too high than too low."
            .to_owned(),
        "A jigsaw is scored in the best order of its pieces, which the attacker does not know. Against noise no attacker here knows \
         how much of it there is; one who smooths it away may see more."
            .to_owned(),
        "The attacked updates hold one picture, those that train the model more: an update of several pictures leaks less, so that the \
         points lie rather too far to the right."
            .to_owned(),
    ];
    for panel in panels {
        for run in &panel.outcome.runs {
            if let Some(why) = &run.diverged {
                notes.push(format!(
                    "On {}, {} with seed {} ended before its last round, and was not attacked then: {why}.",
                    panel.outcome.data, run.case, run.seed
                ));
            }
        }
    }
    notes
}

fn searches(scale: Scale) -> String {
    let steps = matching_steps(scale);
    let tried = "at the initial weights and with the first seed alone";
    match scale {
        Scale::Small => format!(
            "Where these have nothing to solve, under fixed position, a search of {steps} steps through the model stands in for them, the \
             jigsaw, {tried}. Under masks there is none, since it takes a minute for each photograph: of a fresh model's \
             update token matching with the mask known sees more at R = 0.5 than the closed forms do (attacks-vit)."
        ),
        Scale::Tiny | Scale::Paper => format!(
            "Under a defence there is a search of {steps} steps through the model besides, token matching with the mask known or the \
             jigsaw, {tried}. More steps, and other starts, may see more."
        ),
    }
}

/// One line for each accuracy, then one for each attack.
fn records(panels: &[Panel<'_>], outcome: &Outcome<'_>) -> Result<Vec<u8>, ExperimentError> {
    let none = || (None::<&str>, None::<&str>, None::<f64>);
    let mut rows = Vec::new();
    for panel in panels {
        for run in &panel.outcome.runs {
            let data = Some(panel.outcome.data.as_str());
            let (attack, picture, ssim) = none();
            rows.push((data, run.case.as_str(), run.seed, Some(run.correctness.accuracy()), attack, picture, ssim));
        }
    }
    for leaks in outcome.initial.iter().chain(outcome.trained.iter().flat_map(|study| &study.leaks)) {
        for seen in &leaks.seen {
            let (data, attack) = (leaks.data.as_deref(), Some(seen.attack.name()));
            rows.push((data, &leaks.case, leaks.seed, None, attack, Some(&seen.picture), Some(seen.ssim)));
        }
    }
    csv(&["trained_on", "case", "seed", "accuracy", "attack", "picture", "ssim"], rows)
}

#[cfg(test)]
mod tests {
    use unmask_core::MeanInterval;

    use super::*;

    fn point(defence: &str, rate: Option<f64>, mean: f64, half_width: f64) -> CurvePoint {
        CurvePoint {
            data: "generated".to_owned(),
            defence: defence.parse().unwrap(),
            rate,
            rounds: 1,
            accuracy: MeanInterval::around(0.5, 0.1, 0.0, 1.0),
            ssim: Some(MeanInterval::around(mean, half_width, -1.0, 1.0)),
            attacker: None,
            stage: None,
            seeds: vec![1],
            attackers: Vec::new(),
        }
    }

    #[test]
    fn the_whole_interval_decides_what_is_recognisable() {
        let findings = |half_width| {
            let points = [
                point("none", None, 0.9, half_width),
                point("random-binary:0.2", Some(0.2), 0.6, half_width),
                point("random-binary:0.95", Some(0.95), 0.1, half_width),
                point("fixed-position", None, 0.4, half_width),
            ];
            leakage_claims(&points).into_iter().map(|claim| claim.finding).collect::<Vec<_>>()
        };
        use Finding::{Agrees, Differs, Open};
        assert_eq!(findings(0.05), [Agrees, Differs, Agrees, Agrees]);
        assert_eq!(findings(0.45), [Open, Open, Open, Open]);
    }
}
