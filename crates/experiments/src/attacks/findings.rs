//! Box plots, tables and claims of attacks.

use serde::Serialize;
use serde_json::json;
use unmask_core::Knowledge;
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{
    measurements::AttackMeasurements,
    panel::PanelAttack,
    result::AttackResult,
    results::{PanelResults, recognisable},
};
use crate::{
    accuracy::mean,
    claim::judged,
    defences::ComparedDefence,
    error::ExperimentError,
    figure::{BoxGroup, SeriesStyle, boxes, median},
    report::{Figure, Findings, Table, csv},
    reported::UNKNOWN,
    run::ExperimentRun,
};

/// The panel that a paper measured, in the study of its figures.
pub(crate) struct PapersPanel {
    pub(crate) key: &'static str,
    /// SSIM that the paper reports under a defence, for its four pictures.
    pub(crate) reported: fn(defence: &str) -> Option<[f64; 4]>,
}

impl PanelResults {
    /// `None` for an attack that does not reconstruct pictures.
    pub(super) fn figure(&self, repeats: &str) -> Result<Option<Figure>, ExperimentError> {
        if self.results.is_empty() {
            return Ok(None);
        }
        let least = self.results.iter().map(|result| result.ssim).fold(-0.1, f64::min);
        let defences = self.panel.defences();
        let groups: Vec<BoxGroup> = defences
            .iter()
            .map(|defence| BoxGroup {
                name: defence.label.to_owned(),
                boxes: self
                    .panel
                    .attackers(defence)
                    .iter()
                    .map(|&at| (style(at), self.shown(defence.key, at)))
                    .collect(),
            })
            .collect();
        let pictures = defences.first().map_or(0, |defence| self.ssim(defence.key, Knowledge::Naive).len());
        let attackers: &[Knowledge] = match defences.iter().any(|defence| self.panel.attackers(defence).len() > 1) {
            true => &[Knowledge::Naive, Knowledge::Aware],
            false => &[Knowledge::Naive],
        };
        let draws = if self.panel.draws > 1 { format!(", each {} times", self.panel.draws) } else { String::new() };
        Ok(Some(Figure {
            caption: format!(
                "{} on {}: SSIM of the reconstructions of {pictures} {}{draws}; 1 is the picture itself. Boxes are quartiles, whiskers the smallest \
                 and the largest value, dots the single values. Below the dashed line, {RECOGNISABLE_FROM}, a picture is not recognisable by this attack. Repeats \
                 {repeats}.",
                self.panel.title,
                self.panel.attacked(),
                if self.panel.batch > 1 { "updates" } else { "pictures" },
            ),
            svg: boxes("SSIM", &groups, (least - 0.05, 1.05), RECOGNISABLE_FROM)?,
            legend: attackers.iter().map(|&attacker| (style(attacker), title(attacker).to_owned())).collect(),
        }))
    }

    pub(super) fn table(&self, reported: &dyn Fn(&str) -> Option<[f64; 4]>) -> Table {
        let (title, attacked) = (self.panel.title, self.panel.attacked());
        let caption = format!("{title}: {attacked}");
        match self.answers.is_empty() {
            true => Table { caption, columns: COLUMNS.map(str::to_owned).to_vec(), rows: self.rows(reported) },
            false => {
                let row = |defence: &ComparedDefence| {
                    vec![
                        defence.label.to_owned(),
                        format!("{} of {}", self.right(defence.key), self.asked(defence.key)),
                    ]
                };
                let columns = ["", "updates answered correctly"].map(str::to_owned).to_vec();
                Table { caption, columns, rows: self.panel.defences().iter().map(row).collect() }
            }
        }
    }

    fn rows(&self, reported: &dyn Fn(&str) -> Option<[f64; 4]>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for defence in &self.panel.defences() {
            for &attacker in self.panel.attackers(defence) {
                let ssim = self.shown(defence.key, attacker);
                if ssim.is_empty() {
                    rows.push(self.nothing(defence, attacker));
                    continue;
                }
                let reported = match attacker {
                    Knowledge::Naive => reported(defence.key)
                        .map_or_else(|| UNKNOWN.to_owned(), |four| four.map(|ssim| format!("{ssim:.3}")).join(", ")),
                    Knowledge::Aware => "not tested there".to_owned(),
                };
                rows.push(vec![
                    format!("{}, {}", defence.label, short(attacker, defence)),
                    format!("{:.3}", median(&ssim).unwrap_or(f64::NAN)),
                    format!("{:.3}", mean(&ssim)),
                    self.counted(&ssim, defence, attacker),
                    reported,
                ]);
            }
        }
        rows
    }

    fn counted(&self, ssim: &[f64], defence: &ComparedDefence, attacker: Knowledge) -> String {
        let known = format!("{} of {}", recognisable(ssim), ssim.len());
        match self.failed(defence.key, attacker).count() {
            0 => known,
            failed => format!("{known}; it failed on {failed} more"),
        }
    }

    /// The row of an attack that was not possible.
    fn nothing(&self, defence: &ComparedDefence, attacker: Knowledge) -> Vec<String> {
        let why = self.unsolved(defence.key, attacker).next().map_or("not tried", |unsolved| unsolved.because.as_str());
        let empty = || "–".to_owned();
        vec![format!("{}, {}", defence.label, short(attacker, defence)), empty(), empty(), why.to_owned(), empty()]
    }
}

/// The attacker's name in figures and tables.
fn title(attacker: Knowledge) -> &'static str {
    match attacker {
        Knowledge::Naive => "takes what was dropped for zeros, as in the papers",
        Knowledge::Aware => "knows the mask",
    }
}

fn style(attacker: Knowledge) -> SeriesStyle {
    SeriesStyle::solid(if attacker == Knowledge::Naive { 1 } else { 3 })
}

fn short(attacker: Knowledge, defence: &ComparedDefence) -> &'static str {
    match (attacker, defence.is_mask()) {
        (Knowledge::Aware, _) => "mask known",
        (Knowledge::Naive, true) => "mask unknown",
        (Knowledge::Naive, false) => "nothing dropped",
    }
}

const COLUMNS: [&str; 5] = ["", "median SSIM", "mean SSIM", "recognisable", "reported"];

/// What to know about the attacks of every study.
fn notes(run: &ExperimentRun<'_, '_>, all: &[PanelResults]) -> Result<Vec<String>, ExperimentError> {
    let mut notes = vec![
        "Mask seeds are not secret: the server needs the masks to average, so an attacker who knows the mask is no stronger than \
         the papers' server."
            .to_owned(),
        "Unless stated otherwise, a model has its initial weights, each update has one picture, and the label is read from the \
         update."
            .to_owned(),
    ];
    if all.iter().any(|results| results.panel.batch > 1 && results.panel.attack != PanelAttack::Membership) {
        notes.push(
            "With two pictures in an update, each reconstruction is paired with the private picture most similar to it; SSIM is the \
             mean over the pairs."
                .to_owned(),
        );
    }
    for PanelResults { panel, .. } in all {
        if let Some(accuracy) = panel.weights.accuracy(run, panel.model)? {
            notes.push(format!(
                "{} classified {accuracy:.1} % of the test pictures correctly when it was attacked ({}).",
                panel.attacked(),
                panel.key
            ));
        }
    }
    Ok(notes)
}

/// The findings of all panels; `own` are the notes of this study.
pub(super) fn findings(
    run: &ExperimentRun<'_, '_>,
    all: &[PanelResults],
    papers: Option<&PapersPanel>,
    own: Vec<String>,
    cost: Option<String>,
) -> Result<Findings, ExperimentError> {
    let experiment = run.request.experiment;
    let mut models: Vec<String> = all.iter().map(|results| results.panel.model.to_string()).collect();
    models.sort_unstable();
    models.dedup();
    let mut figures = Vec::new();
    for results in all {
        figures.extend(results.figure(experiment.repeats())?);
    }
    let seconds = all.iter().flat_map(|results| {
        results.results.iter().map(|result| result.seconds).chain(results.answers.iter().map(|answer| answer.seconds))
    });
    Ok(Findings {
        seeds: 1,
        seconds: seconds.sum(),
        lead: format!(
            "The first test pictures are attacked under masks and noise ({}), each in its own update unless stated otherwise. No \
             picture and no reconstruction is shown here, because we may not redistribute the pictures.",
            models.join(", ")
        ),
        claims: judged(experiment, &AttackMeasurements(all))?,
        figures,
        tables: all
            .iter()
            .map(|results| {
                let papers = papers.filter(|papers| papers.key == results.panel.key);
                results.table(&|defence| papers.and_then(|papers| (papers.reported)(defence)))
            })
            .collect(),
        notes: [notes(run, all)?, own].concat(),
        cost,
        commands: Vec::new(),
        records: records(all)?,
        results: json!({
            "panels": all.iter().map(|results| results.panel.key).collect::<Vec<_>>(),
            "seen": seen(all),
            "told": all.iter().flat_map(|results| &results.answers).collect::<Vec<_>>(),
        }),
        curve: None,
    })
}

/// A result with its panel, because two panels may use the same attack.
#[derive(Debug, Serialize)]
struct PanelResult<'a> {
    panel: &'static str,
    #[serde(flatten)]
    result: &'a AttackResult,
}

fn seen(all: &[PanelResults]) -> Vec<PanelResult<'_>> {
    let mut seen = Vec::new();
    for PanelResults { panel, results, .. } in all {
        seen.extend(results.iter().map(|result| PanelResult { panel: panel.key, result }));
    }
    seen
}

fn records(all: &[PanelResults]) -> Result<Vec<u8>, ExperimentError> {
    let rows = seen(all).into_iter().map(|PanelResult { panel, result }| {
        let AttackResult { attack, case, picture, seed, ssim, psnr, seconds } = result;
        (panel, attack, case, picture, seed, ssim, psnr, seconds)
    });
    csv(&["panel", "attack", "defence", "picture", "seed", "ssim", "psnr", "seconds"], rows)
}
