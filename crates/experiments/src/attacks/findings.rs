//! Box plots, tables and claims of attacks.

use serde_json::json;
use unmask_data::metrics::PROTECTED_BELOW;

use super::{Attacker, SHIELDS, Seen, Shield};
use crate::{
    bench::Bench,
    claim::{Claim, Finding},
    error::PapersError,
    figure::{BoxGroup, boxes, median},
    hits::mean,
    report::{Figure, Findings, Table, csv},
    reported::{self, UNKNOWN},
};

/// Attacks that are shown in one figure: one method, naive and with the mask known.
pub(super) struct Panel {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) model: &'static str,
    pub(super) shields: Vec<Shield>,
    pub(super) seen: Vec<Seen>,
    /// Attacks that had nothing to solve, each with the key of the defence and its own words.
    pub(super) cannot: Vec<(&'static str, Attacker, String)>,
}

impl Panel {
    /// SSIM of all pictures.
    fn ssim(&self, shield: &Shield, attacker: Attacker) -> Vec<f64> {
        let here = self.seen.iter().filter(|seen| seen.case == shield.key && seen.attacker == attacker);
        here.map(|seen| seen.ssim).collect()
    }

    fn figure(&self, repeats: &str) -> Result<Figure, PapersError> {
        let least = self.seen.iter().map(|seen| seen.ssim).fold(-0.1, f64::min);
        let groups: Vec<BoxGroup> = self
            .shields
            .iter()
            .map(|shield| BoxGroup {
                name: shield.name.to_owned(),
                boxes: attackers(shield).iter().map(|&at| (at.look(), self.ssim(shield, at))).collect(),
            })
            .collect();
        let pictures = self.shields.first().map_or(0, |shield| self.ssim(shield, Attacker::Naive).len());
        let legend = [Attacker::Naive, Attacker::Aware].map(|attacker| (attacker.look(), attacker.title().to_owned()));
        Ok(Figure {
            caption: format!(
                "{} on {}: SSIM of what comes out of {pictures} pictures, 1 for the very picture. Boxes are quartiles, whiskers the smallest and the \
                 largest value, dots the pictures. Below the dashed line, {PROTECTED_BELOW}, a picture counts as protected. Repeats \
                 {repeats}.",
                self.title, self.model
            ),
            svg: boxes("SSIM", &groups, (least - 0.05, 1.05), PROTECTED_BELOW)?,
            legend: legend.to_vec(),
        })
    }

    /// What the papers say of naive attackers, and what follows if it is to hold for others too.
    fn claims(&self) -> Vec<Claim> {
        let undefended = self.shields.iter().find(|shield| shield.key == NONE);
        let works = undefended.is_some_and(|shield| is_seen(&self.ssim(shield, Attacker::Naive)));
        let mut claims = Vec::new();
        for shield in &self.shields {
            for &attacker in attackers(shield) {
                claims.extend(claim(self.title, shield, attacker, &self.ssim(shield, attacker), works));
            }
        }
        claims
    }

    fn rows(&self, reported: &dyn Fn(&str) -> Option<[f64; 4]>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for shield in &self.shields {
            for &attacker in attackers(shield) {
                let ssim = self.ssim(shield, attacker);
                if ssim.is_empty() {
                    rows.push(self.nothing(shield, attacker));
                    continue;
                }
                let reported = match attacker {
                    Attacker::Naive => reported(shield.key)
                        .map_or_else(|| UNKNOWN.to_owned(), |four| four.map(|ssim| format!("{ssim:.3}")).join(", ")),
                    Attacker::Aware => "not tested there".to_owned(),
                };
                rows.push(vec![
                    format!("{}, {}", shield.name, short(attacker, shield)),
                    format!("{:.3}", median(&ssim).unwrap_or(f64::NAN)),
                    format!("{:.3}", mean(&ssim)),
                    format!("{} of {}", recognisable(&ssim), ssim.len()),
                    reported,
                ]);
            }
        }
        rows
    }
}

impl Panel {
    /// The line of an attack that could not be tried.
    fn nothing(&self, shield: &Shield, attacker: Attacker) -> Vec<String> {
        let cannot = self.cannot.iter().find(|(key, at, _)| *key == shield.key && *at == attacker);
        let why = cannot.map_or("not tried", |(_, _, why)| why.as_str());
        let empty = || "–".to_owned();
        vec![format!("{}, {}", shield.name, short(attacker, shield)), empty(), empty(), why.to_owned(), empty()]
    }
}

/// Who attacks under a defence: an attacker who knows the mask is another one only where there is a mask.
fn attackers(shield: &Shield) -> &'static [Attacker] {
    if shield.is_mask { &[Attacker::Naive, Attacker::Aware] } else { &[Attacker::Naive] }
}

fn short(attacker: Attacker, shield: &Shield) -> &'static str {
    match (attacker, shield.is_mask) {
        (Attacker::Aware, _) => "mask known",
        (Attacker::Naive, true) => "mask unknown",
        (Attacker::Naive, false) => "nothing dropped",
    }
}

fn recognisable(ssim: &[f64]) -> usize {
    ssim.iter().filter(|&&ssim| ssim >= PROTECTED_BELOW).count()
}

/// Whether an attack works: more than half of the pictures are recognisable.
pub(super) fn is_seen(ssim: &[f64]) -> bool {
    2 * recognisable(ssim) > ssim.len()
}

/// One expectation: without a defence the attack `works`; under one, no picture comes back. An attack that does not work
/// in any case tells nothing of a defence that it does not break either.
fn claim(attack: &str, shield: &Shield, attacker: Attacker, ssim: &[f64], works: bool) -> Option<Claim> {
    let middle = median(ssim)?;
    let (seen, all) = (recognisable(ssim), ssim.len());
    let found = format!(
        "{attack}, {}, {}: {seen} of {all} pictures reach an SSIM of {PROTECTED_BELOW}, median {middle:.2}",
        shield.name,
        short(attacker, shield)
    );
    if shield.key == NONE {
        let expected = format!(
            "{attack} works without a defence: more than half of the pictures reach an SSIM of {PROTECTED_BELOW}"
        );
        return Some(Claim::decided(expected, found, is_seen(ssim)));
    }
    let expected = match attacker {
        Attacker::Naive => format!("{} protects from {attack}: no picture reaches {PROTECTED_BELOW}", shield.name),
        Attacker::Aware => format!(
            "{} protects from {attack} by an attacker who knows the mask as well, of whom the papers say nothing",
            shield.name
        ),
    };
    let finding = match (seen, works) {
        (0, true) => Finding::Agrees,
        (0, false) => Finding::Open,
        _ => Finding::Differs,
    };
    Some(Claim { finding, ..Claim::decided(expected, found, false) })
}

/// The key of no defence.
pub(super) const NONE: &str = "none";

const COLUMNS: [&str; 5] = ["", "median SSIM", "mean SSIM", "recognisable", "reported"];

/// The report of closed forms and token matching.
pub(super) fn of_vit(bench: &Bench<'_, '_>, panels: &[Panel]) -> Result<Findings, PapersError> {
    let notes = vec![
        "Models are at their initial weights, one picture is in each update, and its label is read off the update.".to_owned(),
        "APRIL's closed form needs a first block without LayerNorm before attention and without residual; its figure is of a \
         model that has one. On a standard ViT it recovers nothing."
            .to_owned(),
        "Mask seeds are no secret: the server needs the masks to average, so an attacker who knows the mask is no stronger than \
         the papers' server."
            .to_owned(),
    ];
    findings(bench, panels, notes, &|_| None, None)
}

/// The report of Inverting Gradients.
pub(super) fn of_resnet(
    bench: &Bench<'_, '_>,
    panel: Panel,
    iterations: usize,
    cost: Option<String>,
) -> Result<Findings, PapersError> {
    let mut notes = vec![
        format!(
            "The model is at its initial weights, one picture is in each update, and the attacker has its label, which the gradient \
             of the head tells. Each search takes {iterations} steps from noise. Batch norm uses its running statistics on both sides, \
             as in the attack's own published code."
        ),
        "FLRSP's four numbers in each line are those of its four pictures, against ResNet34 at 224 x 224 pixels."
            .to_owned(),
    ];
    if panel.shields.len() < SHIELDS.len() {
        notes.push(format!(
            "With no defence in its way the attack does not work on {} in so many steps. What it does not break would be credited \
             to a defence for nothing, so defences were not attacked here. The papers' scale takes their ResNet34, on which it was not tried.",
            panel.model
        ));
    }
    findings(bench, &[panel], notes, &reported::inverting_gradients, cost)
}

fn findings(
    bench: &Bench<'_, '_>,
    panels: &[Panel],
    notes: Vec<String>,
    reported: &dyn Fn(&str) -> Option<[f64; 4]>,
    cost: Option<String>,
) -> Result<Findings, PapersError> {
    let seen: Vec<&Seen> = panels.iter().flat_map(|panel| &panel.seen).collect();
    let table = |panel: &Panel| Table {
        caption: format!("{} on {}", panel.title, panel.model),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: panel.rows(reported),
    };
    let mut models: Vec<&str> = panels.iter().map(|panel| panel.model).collect();
    models.dedup();
    Ok(Findings {
        seeds: 1,
        seconds: seen.iter().map(|seen| seen.seconds).sum(),
        lead: format!(
            "The first test pictures are attacked one by one, each in an update of its own, under masks and noise ({}). No picture \
             and no reconstruction is shown here: the pictures are not ours to pass on.",
            models.join(", ")
        ),
        claims: panels.iter().flat_map(Panel::claims).collect(),
        figures: panels
            .iter()
            .map(|panel| panel.figure(bench.request.experiment.repeats()))
            .collect::<Result<_, PapersError>>()?,
        tables: panels.iter().map(table).collect(),
        notes,
        cost,
        commands: Vec::new(),
        records: records(&seen)?,
        results: json!({ "panels": panels.iter().map(|panel| panel.key).collect::<Vec<_>>(), "seen": seen }),
    })
}

fn records(seen: &[&Seen]) -> Result<Vec<u8>, PapersError> {
    let rows = seen.iter().map(|seen| (&seen.attack, &seen.case, &seen.picture, seen.ssim, seen.psnr, seen.seconds));
    csv(&["attack", "defence", "picture", "ssim", "psnr", "seconds"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_recognisable_picture_refutes_protection() {
        let finding = |key: &str, attacker, ssim: &[f64], works| {
            let shield = SHIELDS.iter().find(|shield| shield.key == key).unwrap();
            claim("APRIL", shield, attacker, ssim, works).map(|claim| claim.finding)
        };
        assert_eq!(finding("r0.5", Attacker::Naive, &[0.1, 0.4, 0.49], true), Some(Finding::Agrees));
        assert_eq!(finding("r0.5", Attacker::Naive, &[0.1, 0.4, 0.49], false), Some(Finding::Open));
        assert_eq!(finding("r0.5", Attacker::Naive, &[0.1, 0.4, 0.5], true), Some(Finding::Differs));
        assert_eq!(finding("r0.5", Attacker::Aware, &[0.9, 0.9, 0.9], true), Some(Finding::Differs));
        assert_eq!(finding("none", Attacker::Naive, &[0.9, 0.8, 0.1], true), Some(Finding::Agrees));
        assert_eq!(finding("none", Attacker::Naive, &[0.9, 0.1, 0.1], false), Some(Finding::Differs));
        assert_eq!(finding("none", Attacker::Naive, &[], false), None);
    }
}
