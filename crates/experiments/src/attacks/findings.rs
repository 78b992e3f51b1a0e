//! Box plots, tables and claims of attacks.

use serde_json::json;
use unmask_core::Knowledge;
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{AttackResult, title};
use crate::{
    accuracy::mean,
    claim::{Claim, Finding},
    defences::{ComparedDefence, MASKS_AND_NOISE, NONE},
    error::ExperimentError,
    figure::{BoxGroup, SeriesStyle, boxes, median},
    report::{Figure, Findings, Table, csv},
    reported::{self, UNKNOWN},
    run::ExperimentRun,
};

/// Attacks that are shown in one figure: one method, naive and with the mask known.
pub(super) struct MethodResults {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) model: &'static str,
    pub(super) defences: Vec<ComparedDefence>,
    pub(super) results: Vec<AttackResult>,
    /// Attacks that had nothing to solve, each with the key of the defence and its own words.
    pub(super) cannot: Vec<(&'static str, Knowledge, String)>,
}

impl MethodResults {
    fn ssim(&self, defence: &ComparedDefence, attacker: Knowledge) -> Vec<f64> {
        let here =
            self.results.iter().filter(|result| result.case == defence.key && result.attack.knowledge() == attacker);
        here.map(|result| result.ssim).collect()
    }

    fn figure(&self, repeats: &str) -> Result<Figure, ExperimentError> {
        let least = self.results.iter().map(|result| result.ssim).fold(-0.1, f64::min);
        let groups: Vec<BoxGroup> = self
            .defences
            .iter()
            .map(|defence| BoxGroup {
                name: defence.label.to_owned(),
                boxes: attackers(defence).iter().map(|&at| (style(at), self.ssim(defence, at))).collect(),
            })
            .collect();
        let pictures = self.defences.first().map_or(0, |defence| self.ssim(defence, Knowledge::Naive).len());
        let legend = [Knowledge::Naive, Knowledge::Aware].map(|attacker| (style(attacker), title(attacker).to_owned()));
        Ok(Figure {
            caption: format!(
                "{} on {}: SSIM of what comes out of {pictures} pictures, 1 for the very picture. Boxes are quartiles, whiskers the smallest and the \
                 largest value, dots the pictures. Below the dashed line, {RECOGNISABLE_FROM}, a picture is not recognisable by this attack. Repeats \
                 {repeats}.",
                self.title, self.model
            ),
            svg: boxes("SSIM", &groups, (least - 0.05, 1.05), RECOGNISABLE_FROM)?,
            legend: legend.to_vec(),
        })
    }

    /// What the papers say of naive attackers, and what follows if it is to hold for others too.
    fn claims(&self) -> Vec<Claim> {
        let undefended = self.defences.iter().find(|defence| defence.key == NONE.key);
        let works = undefended.is_some_and(|defence| attack_works(&self.ssim(defence, Knowledge::Naive)));
        let mut claims = Vec::new();
        for defence in &self.defences {
            for &attacker in attackers(defence) {
                claims.extend(claim(self.title, defence, attacker, &self.ssim(defence, attacker), works));
            }
        }
        claims
    }

    fn rows(&self, reported: &dyn Fn(&str) -> Option<[f64; 4]>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for defence in &self.defences {
            for &attacker in attackers(defence) {
                let ssim = self.ssim(defence, attacker);
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
                    format!("{} of {}", recognisable(&ssim), ssim.len()),
                    reported,
                ]);
            }
        }
        rows
    }

    /// The line of an attack that could not be tried.
    fn nothing(&self, defence: &ComparedDefence, attacker: Knowledge) -> Vec<String> {
        let cannot = self.cannot.iter().find(|(key, at, _)| *key == defence.key && *at == attacker);
        let why = cannot.map_or("not tried", |(_, _, why)| why.as_str());
        let empty = || "–".to_owned();
        vec![format!("{}, {}", defence.label, short(attacker, defence)), empty(), empty(), why.to_owned(), empty()]
    }
}

/// Who attacks under a defence: an attacker who knows the mask is another one only where there is a mask.
fn attackers(defence: &ComparedDefence) -> &'static [Knowledge] {
    if defence.is_mask() { &[Knowledge::Naive, Knowledge::Aware] } else { &[Knowledge::Naive] }
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

fn recognisable(ssim: &[f64]) -> usize {
    ssim.iter().filter(|&&ssim| ssim >= RECOGNISABLE_FROM).count()
}

/// Whether an attack works: more than half of the pictures are recognisable.
pub(super) fn attack_works(ssim: &[f64]) -> bool {
    2 * recognisable(ssim) > ssim.len()
}

/// One expectation: without a defence the attack `works`; under one, no picture comes back. An attack that does not work
/// in any case tells nothing of a defence that it does not break either.
fn claim(attack: &str, defence: &ComparedDefence, attacker: Knowledge, ssim: &[f64], works: bool) -> Option<Claim> {
    let middle = median(ssim)?;
    let (seen, all) = (recognisable(ssim), ssim.len());
    let found = format!(
        "{attack}, {}, {}: {seen} of {all} pictures reach an SSIM of {RECOGNISABLE_FROM}, median {middle:.2}",
        defence.label,
        short(attacker, defence)
    );
    if defence.key == NONE.key {
        let expected = format!(
            "{attack} works without a defence: more than half of the pictures reach an SSIM of {RECOGNISABLE_FROM}"
        );
        return Some(Claim::decided(expected, found, attack_works(ssim)));
    }
    let expected = match attacker {
        Knowledge::Naive => format!("{}: no picture reaches {RECOGNISABLE_FROM} by {attack}", defence.label),
        Knowledge::Aware => format!(
            "{}: no picture reaches {RECOGNISABLE_FROM} by {attack} with the mask known, of which the papers say nothing",
            defence.label
        ),
    };
    let finding = match (seen, works) {
        (0, true) => Finding::Agrees,
        (0, false) => Finding::Open,
        _ => Finding::Differs,
    };
    Some(Claim { finding, ..Claim::decided(expected, found, false) })
}

const COLUMNS: [&str; 5] = ["", "median SSIM", "mean SSIM", "recognisable", "reported"];

pub(super) fn of_vit(run: &ExperimentRun<'_, '_>, methods: &[MethodResults]) -> Result<Findings, ExperimentError> {
    let notes = vec![
        "Models are at their initial weights, one picture is in each update, and its label is read off the update.".to_owned(),
        "APRIL's closed form needs a first block without LayerNorm before attention and without residual; its figure is of a \
         model that has one. On a standard ViT it recovers nothing."
            .to_owned(),
        "Mask seeds are no secret: the server needs the masks to average, so an attacker who knows the mask is no stronger than \
         the papers' server."
            .to_owned(),
    ];
    findings(run, methods, notes, &|_| None, None)
}

pub(super) fn of_resnet(
    run: &ExperimentRun<'_, '_>,
    method: MethodResults,
    iterations: usize,
    cost: Option<String>,
) -> Result<Findings, ExperimentError> {
    let mut notes = vec![
        format!(
            "The model is at its initial weights, one picture is in each update, and the attacker has its label, which the gradient \
             of the head tells. Each search takes {iterations} steps from noise. Batch norm uses its running statistics on both sides, \
             as in the attack's own published code."
        ),
        "FLRSP's four numbers in each line are those of its four pictures, against ResNet34 at 224 x 224 pixels."
            .to_owned(),
    ];
    if method.defences.len() < MASKS_AND_NOISE.len() {
        notes.push(format!(
            "With no defence in its way the attack does not work on {} in so many steps. What it does not break would be credited \
             to a defence for nothing, so defences were not attacked here. The papers' scale takes their ResNet34, on which it was not tried.",
            method.model
        ));
    }
    findings(run, &[method], notes, &reported::inverting_gradients, cost)
}

fn findings(
    run: &ExperimentRun<'_, '_>,
    methods: &[MethodResults],
    notes: Vec<String>,
    reported: &dyn Fn(&str) -> Option<[f64; 4]>,
    cost: Option<String>,
) -> Result<Findings, ExperimentError> {
    let results: Vec<&AttackResult> = methods.iter().flat_map(|method| &method.results).collect();
    let table = |method: &MethodResults| Table {
        caption: format!("{} on {}", method.title, method.model),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: method.rows(reported),
    };
    let mut models: Vec<&str> = methods.iter().map(|method| method.model).collect();
    models.dedup();
    Ok(Findings {
        seeds: 1,
        seconds: results.iter().map(|result| result.seconds).sum(),
        lead: format!(
            "The first test pictures are attacked one by one, each in an update of its own, under masks and noise ({}). No picture \
             and no reconstruction is shown here: the pictures are not ours to pass on.",
            models.join(", ")
        ),
        claims: methods.iter().flat_map(MethodResults::claims).collect(),
        figures: methods
            .iter()
            .map(|method| method.figure(run.request.experiment.repeats()))
            .collect::<Result<_, ExperimentError>>()?,
        tables: methods.iter().map(table).collect(),
        notes,
        cost,
        commands: Vec::new(),
        records: records(&results)?,
        results: json!({ "panels": methods.iter().map(|method| method.key).collect::<Vec<_>>(), "seen": results }),
        curve: None,
    })
}

fn records(results: &[&AttackResult]) -> Result<Vec<u8>, ExperimentError> {
    let rows = results.iter().map(|AttackResult { attack, case, picture, ssim, psnr, seconds, .. }| {
        (attack, case, picture, ssim, psnr, seconds)
    });
    csv(&["attack", "defence", "picture", "ssim", "psnr", "seconds"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_recognisable_picture_refutes_protection() {
        let finding = |key: &str, attacker, ssim: &[f64], works| {
            let defence = MASKS_AND_NOISE.iter().find(|defence| defence.key == key).unwrap();
            claim("APRIL", defence, attacker, ssim, works).map(|claim| claim.finding)
        };
        assert_eq!(finding("r0.5", Knowledge::Naive, &[0.1, 0.4, 0.49], true), Some(Finding::Agrees));
        assert_eq!(finding("r0.5", Knowledge::Naive, &[0.1, 0.4, 0.49], false), Some(Finding::Open));
        assert_eq!(finding("r0.5", Knowledge::Naive, &[0.1, 0.4, 0.5], true), Some(Finding::Differs));
        assert_eq!(finding("r0.5", Knowledge::Aware, &[0.9, 0.9, 0.9], true), Some(Finding::Differs));
        assert_eq!(finding("none", Knowledge::Naive, &[0.9, 0.8, 0.1], true), Some(Finding::Agrees));
        assert_eq!(finding("none", Knowledge::Naive, &[0.9, 0.1, 0.1], false), Some(Finding::Differs));
        assert_eq!(finding("none", Knowledge::Naive, &[], false), None);
    }
}
