//! The curve as figures, tables and claims.

use serde_json::json;
use unmask_core::{CurvePoint, DefenceKind, MeanInterval};
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{
    curve::{point, setup},
    leakage::gathered,
    outcome::{DataOutcome, Outcome},
};
use crate::{
    attacks::matching_steps,
    catalogue::Scale,
    claim::{Condition, Ground, Measured, Measurements, Right, Term, judged},
    error::ExperimentError,
    figure::{LineStyle, PlanePoint, PlaneSeries, SeriesStyle, plane},
    metric::Metric,
    plan::TrainingPlan,
    report::{Figure, Findings, Table, csv},
    run::ExperimentRun,
    training::{Comparison, undefended},
};

/// The points of one data set, and the table cells for their differences from the undefended accuracy.
struct Panel<'a> {
    outcome: &'a DataOutcome,
    comparison: Comparison<'a>,
    /// In the order of the comparison's cases.
    points: Vec<CurvePoint>,
    differences: Vec<String>,
}

pub(super) fn findings(run: &ExperimentRun<'_, '_>, outcome: &Outcome<'_>) -> Result<Findings, ExperimentError> {
    let mut panels = Vec::new();
    for (plan, trained) in outcome.plans.iter().zip(&outcome.trained) {
        panels.push(panel(run, outcome, plan, trained)?);
    }
    let claims = judged(run.request.experiment, &PanelMeasurements(&panels))?;
    let scale = run.request.scale;
    let tested = outcome.plans.first().map_or(0, |plan| plan.test_pictures);
    let seeds = outcome.plans.first().map_or(1, |plan| run.request.seeds(plan.seeds).least);
    let config = panels.first().map(|panel| panel.outcome.config.clone()).unwrap_or_default();
    let leaks = outcome.initial.iter().chain(outcome.trained.iter().flat_map(|study| &study.leaks));
    let trainings = outcome.trained.iter().flat_map(|study| &study.runs);
    Ok(Findings {
        seeds,
        seconds: leaks.map(|leaks| leaks.seconds).sum::<f64>() + trainings.map(|run| run.seconds).sum::<f64>(),
        lead: lead(&panels, outcome, seeds, tested),
        claims,
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
    plan: &'a TrainingPlan,
    trained: &'a DataOutcome,
) -> Result<Panel<'a>, ExperimentError> {
    let comparison = Comparison::new(plan, &trained.runs);
    let (mut points, mut differences) = (Vec::new(), Vec::new());
    for runs in &comparison.all {
        let defence = plan.config(runs.case, run.request.seed, &[])?.defence;
        points.push(point(outcome, trained, defence, runs));
        let base = comparison.all.first().filter(|base| base.case.key != runs.case.key);
        differences.push(base.map_or("–".to_owned(), |base| {
            let difference = comparison.difference(runs, base);
            format!("{:+.1} ± {:.1}", difference.mean, difference.half_width)
        }));
    }
    Ok(Panel { outcome: trained, comparison, points, differences })
}

/// Results on all data sets, for formulas. A case is a data set and a defence: `generated/r0.5`.
struct PanelMeasurements<'a>(&'a [Panel<'a>]);

impl<'a> PanelMeasurements<'a> {
    fn find(&self, term: &Term) -> Result<(&'a Panel<'a>, Term), String> {
        let found = self.0.iter().find_map(|panel| {
            let case = term.case.strip_prefix(&panel.outcome.data)?.strip_prefix('/')?;
            Some((panel, Term { metric: term.metric.clone(), case: case.to_owned() }))
        });
        found.ok_or_else(|| format!("the data set of {} was not at hand", term.case))
    }

    /// The best attacker's SSIM, with its interval over photographs and seeds.
    fn leak(&self, term: &Term) -> Result<Measured, String> {
        let (panel, term) = self.find(term)?;
        let cases = panel.comparison.all.iter().zip(&panel.points);
        let point =
            cases.filter(|(runs, _)| runs.case.key == term.case).find_map(|(_, point)| Some((point, point.ssim?)));
        let (point, MeanInterval { mean, low, high }) =
            point.ok_or_else(|| format!("{} was not attacked", term.case))?;
        Ok(Measured { mean, low, high, basis: format!("{} seeds", point.seeds.len()) })
    }
}

impl Measurements for PanelMeasurements<'_> {
    /// Two best attackers are not paired, because each is the best of its own case. Their intervals are added.
    fn measure(&self, left: &Term, right: Option<&Term>) -> Result<Measured, String> {
        if left.metric != Metric::Leak {
            let (panel, left) = self.find(left)?;
            let right = right.map(|right| self.find(right)).transpose()?;
            return panel.comparison.measure(&left, right.as_ref().map(|(_, right)| right));
        }
        let measured = self.leak(left)?;
        let Some(right) = right else { return Ok(measured) };
        let base = self.leak(right)?;
        Ok(Measured {
            mean: measured.mean - base.mean,
            low: measured.low - base.high,
            high: measured.high - base.low,
            basis: measured.basis,
        })
    }

    fn ground(&self, condition: &Condition) -> Ground {
        let reference = condition.reference();
        let base = undefended(&reference.case);
        if matches!(condition.right, Right::Number(_)) && reference.case == base {
            return Ground::Given;
        }
        let base = Term { metric: reference.metric.clone(), case: base };
        match reference.metric {
            Metric::Leak => {
                let is_seen = self.leak(&base).is_ok_and(|leak| leak.low >= RECOGNISABLE_FROM);
                Ground::Restored(if is_seen { 100.0 } else { 0.0 })
            }
            _ => self.find(&base).map_or(Ground::Learnt(0.0), |(panel, base)| panel.comparison.learnt(&base.case)),
        }
    }
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
            "{} robots train {} from random weights with batches of {}; the server uses {}. They train ",
            config.clients, config.model, config.batch, config.optimiser
        )
    });
    format!(
        "{who}{}, each case with {seeds} seeds. The vertical axis is the accuracy of the trained models on {tested} held-out pictures. \
         The horizontal axis is the best attacker's mean SSIM over {} sample photographs, each alone in its update, at the initial \
         weights or at the trained ones, whichever shows more; 1 is the photograph itself.",
        trained.join(", "),
        outcome.photographs
    )
}

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
            "Trained on {}: accuracy (vertical) against the best attacker's SSIM (horizontal), with 95 % intervals. Up and to the left is better.",
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
        "All cases have the same seeds. Unlike in other reports, a case with an interval wider than its margin gets no further \
         seeds, because each training is attacked as well: a difference of about two points may stay undecided."
            .to_owned(),
        format!(
            "The attackers are those that a room tries on such an update: embedding inversion, naive and with the mask known; \
             low-rank completion, which needs a ViT with few patches and many dimensions and reports this here; and {} \
             gathered updates of one photograph, at nearly the same weights.",
            gathered(scale)
        ),
        searches(scale),
        "The best of a handful of attackers is chosen by its reported mean: if several are close, this mean is biased upwards."
            .to_owned(),
        "A jigsaw is scored in the best order of its pieces, which the attacker does not know. No attacker here knows the amount of \
         noise; one who smooths it away may see more."
            .to_owned(),
        "The attacked updates have one picture, those that train the model have more. An update of several pictures leaks less, so the \
         points tend to be too far to the right."
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
    let tried = "at the initial weights and with the first seed only";
    match scale {
        Scale::Quick | Scale::Small => format!(
            "Under fixed position, where these have nothing to solve, a search of {steps} steps through the model replaces them: the \
             jigsaw, {tried}. Under masks there is no search, because it takes a minute per photograph. From a new model's \
             update, token matching with the mask known sees more at R = 0.5 than the closed forms (attacks-vit)."
        ),
        Scale::Tiny | Scale::Paper => format!(
            "Under a defence there is also a search of {steps} steps through the model, token matching with the mask known or the \
             jigsaw, {tried}. More steps or other starts may see more."
        ),
    }
}

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
    use unmask_simulation::Config;

    use super::*;
    use crate::{
        claim::{Claim, Finding},
        studies::trade_off::plans::PLANS,
    };

    /// Cases on generated shapes with a given SSIM of the best attacker; nothing is trained.
    fn judge(half_width: f64, id: &str) -> Claim {
        let plan = PLANS.at(Scale::Tiny);
        let outcome = DataOutcome {
            data: "generated".to_owned(),
            config: Config::default(),
            runs: Vec::new(),
            leaks: Vec::new(),
        };
        let point = |key: &str| {
            let mean = match key {
                "none" => 0.96,
                "r0.2" => 0.6,
                _ => 0.1,
            };
            CurvePoint {
                data: "generated".to_owned(),
                defence: "none".parse().unwrap(),
                rate: None,
                rounds: 1,
                accuracy: MeanInterval::around(0.5, 0.1, 0.0, 1.0),
                ssim: Some(MeanInterval::around(mean, half_width, -1.0, 1.0)),
                attacker: None,
                stage: None,
                seeds: vec![1, 2, 3],
                attackers: Vec::new(),
            }
        };
        let panel = Panel {
            outcome: &outcome,
            comparison: Comparison::new(&plan, &outcome.runs),
            points: plan.cases.iter().map(|case| point(&case.key)).collect(),
            differences: Vec::new(),
        };
        let claims = judged("trade-off".parse().unwrap(), &PanelMeasurements(&[panel])).unwrap();
        claims.into_iter().find(|claim| claim.id == id).unwrap()
    }

    #[test]
    fn the_whole_interval_decides_what_is_recognisable() {
        let findings = |half_width| {
            ["ours-r0.2-stops-the-best-attacker", "ours-r0.9-stops-the-best-attacker"]
                .map(|id| judge(half_width, id).finding)
        };
        assert_eq!(findings(0.05), [Finding::Differs, Finding::Agrees]);
        assert_eq!(findings(0.45), [Finding::Open, Finding::Open]);
    }

    #[test]
    fn what_was_not_trained_or_not_at_hand_is_undecided() {
        let because = |id| judge(0.05, id).because.unwrap();
        let both = because("ours-more-zeros-leave-less");
        assert_eq!(both, "the data set of cifar10/r0.95 was not at hand");
        assert_eq!(because("ours-shapes-r0.95-costs-accuracy"), "r0.95 was not trained");
    }
}
