//! Box plots, tables and claims of attacks.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use unmask_core::{InitOptions, Knowledge};
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{
    AttackResult, by_picture,
    panel::{Panel, PanelAttack},
    panels, title,
};
use crate::{
    accuracy::{mean, t_half_width},
    catalogue::Experiment,
    claim::{Condition, Ground, Measured, Measurements, Metric, Right, Term, judged},
    defences::{ComparedDefence, NONE},
    error::ExperimentError,
    figure::{BoxGroup, SeriesStyle, boxes, median},
    report::{Figure, Findings, Table, csv},
    reported::{self, UNKNOWN},
    run::ExperimentRun,
};

pub(super) struct PanelResults {
    pub(super) panel: Panel,
    pub(super) results: Vec<AttackResult>,
    pub(super) answers: Vec<Answer>,
    pub(super) unsolved: Vec<Unsolved>,
}

/// Answer of an attack that does not reconstruct pictures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Answer {
    /// Key of the defence.
    pub(super) case: &'static str,
    pub(super) picture: String,
    pub(super) seed: u64,
    pub(super) is_right: bool,
    pub(super) seconds: f64,
}

/// A picture that an attack did not reconstruct.
pub(super) struct Unsolved {
    pub(super) case: &'static str,
    pub(super) attacker: Knowledge,
    pub(super) picture: String,
    pub(super) because: String,
    /// If false, the attack failed, and what it would show is unknown.
    pub(super) has_nothing_to_solve: bool,
}

impl PanelResults {
    fn seen(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &AttackResult> {
        let is_theirs = move |result: &&AttackResult| self.panel.attacker(result.attack) == attacker;
        self.results.iter().filter(move |result| result.case == case).filter(is_theirs)
    }

    fn unsolved(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved.iter().filter(move |unsolved| unsolved.case == case && unsolved.attacker == attacker)
    }

    fn failed(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved(case, attacker).filter(|unsolved| !unsolved.has_nothing_to_solve)
    }

    fn nothing_to_solve(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved(case, attacker).filter(|unsolved| unsolved.has_nothing_to_solve)
    }

    /// SSIM by picture, 0 if the attack had nothing to solve. Without pictures on which it failed.
    fn ssim(&self, case: &'static str, attacker: Knowledge) -> BTreeMap<&str, f64> {
        let nothing = self.nothing_to_solve(case, attacker).map(|unsolved| unsolved.picture.as_str());
        by_picture(self.seen(case, attacker), nothing)
    }

    /// SSIM of each update, with the same rules.
    fn by_update(&self, case: &'static str, attacker: Knowledge) -> Vec<f64> {
        let seen = self.seen(case, attacker).map(|result| result.ssim);
        seen.chain(self.nothing_to_solve(case, attacker).map(|_| 0.0)).collect()
    }

    /// Largest difference in SSIM between the draws of a picture, for each picture attacked more than once.
    fn apart(&self, case: &'static str, attacker: Knowledge) -> BTreeMap<&str, f64> {
        let mut ranges: BTreeMap<&str, (f64, f64, usize)> = BTreeMap::new();
        for result in self.seen(case, attacker) {
            let range = ranges.entry(&result.picture).or_insert((f64::INFINITY, f64::NEG_INFINITY, 0));
            *range = (range.0.min(result.ssim), range.1.max(result.ssim), range.2 + 1);
        }
        let several = ranges.into_iter().filter(|(_, (_, _, draws))| *draws > 1);
        several.map(|(picture, (least, most, _))| (picture, most - least)).collect()
    }

    /// The values to draw: those of [`by_update`](Self::by_update), or none if the attack reconstructed no picture.
    fn shown(&self, case: &'static str, attacker: Knowledge) -> Vec<f64> {
        let is_any = self.seen(case, attacker).next().is_some();
        if is_any { self.by_update(case, attacker) } else { Vec::new() }
    }

    /// `None` for an attack that does not reconstruct pictures.
    fn figure(&self, repeats: &str) -> Result<Option<Figure>, ExperimentError> {
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

    fn table(&self, reported: &dyn Fn(&str) -> Option<[f64; 4]>) -> Table {
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

    fn asked(&self, case: &str) -> usize {
        self.answers.iter().filter(|answer| answer.case == case).count()
    }

    fn right(&self, case: &str) -> usize {
        self.answers.iter().filter(|answer| answer.case == case && answer.is_right).count()
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

    /// Percent of the undefended updates that the attack restores, or whose members it identifies; failures count as
    /// not restored. `None` if the panel has only defended updates.
    fn restored(&self) -> Option<f64> {
        self.panel.defences.contains(&NONE.key).then(|| {
            if self.panel.attack == PanelAttack::Membership {
                return 100.0 * self.right(NONE.key) as f64 / self.asked(NONE.key).max(1) as f64;
            }
            let ssim = self.by_update(NONE.key, Knowledge::Naive);
            percent_recognisable(&ssim, ssim.len() + self.failed(NONE.key, Knowledge::Naive).count())
        })
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

fn percent_recognisable(ssim: &[f64], of: usize) -> f64 {
    100.0 * recognisable(ssim) as f64 / of.max(1) as f64
}

/// Suffix of the panel's key if the attacker knows the mask.
const AWARE: &str = "-aware";

/// A panel's attacker and a defence: `april-aware/r0.5`.
struct AttackCase<'a> {
    panel: &'a str,
    attacker: Knowledge,
    defence: &'a str,
}

impl<'a> AttackCase<'a> {
    fn parse(case: &'a str) -> Option<Self> {
        let (attack, defence) = case.split_once('/')?;
        let (panel, attacker) = match attack.strip_suffix(AWARE) {
            Some(panel) => (panel, Knowledge::Aware),
            None => (attack, Knowledge::Naive),
        };
        Some(Self { panel, attacker, defence })
    }
}

/// The attackers of all panels under their defences, as formulas name them.
pub(super) fn cases(panels: &[Panel]) -> Vec<String> {
    let case = |panel: &Panel, defence: &ComparedDefence, at: Knowledge| {
        let aware = if at == Knowledge::Aware { AWARE } else { "" };
        format!("{}{aware}/{}", panel.key, defence.key)
    };
    let mut cases = Vec::new();
    for panel in panels {
        for defence in &panel.defences() {
            cases.extend(panel.attackers(defence).iter().map(|&at| case(panel, defence, at)));
        }
    }
    cases
}

#[derive(Debug, Clone, Copy)]
enum PictureNumber {
    Ssim,
    /// Difference in SSIM between the draws.
    Apart,
}

impl PictureNumber {
    fn lacking(self, case: &str) -> String {
        match self {
            Self::Ssim => format!("{case} was not tried"),
            Self::Apart => format!("{case} was attacked only once"),
        }
    }
}

/// Results of all panels, for formulas.
struct AttackMeasurements<'a>(&'a [PanelResults]);

impl<'a> AttackMeasurements<'a> {
    /// The panel, defence and attacker of a case.
    fn find(&self, case: &str) -> Result<(&'a PanelResults, &'static str, Knowledge), String> {
        let not_tried = || format!("{case} was not tried");
        let AttackCase { panel, attacker, defence } = AttackCase::parse(case).ok_or_else(not_tried)?;
        let results = self.0.iter().find(|results| results.panel.key == panel).ok_or_else(not_tried)?;
        let defences = results.panel.defences();
        let defence = defences.iter().find(|known| known.key == defence).ok_or_else(not_tried)?;
        Ok((results, defence.key, attacker))
    }

    /// The number of each picture.
    ///
    /// # Errors
    /// The attack failed on a picture, so the picture's number is unknown.
    fn by_picture(&self, case: &str, of: PictureNumber) -> Result<BTreeMap<&'a str, f64>, String> {
        let (results, defence, attacker) = self.find(case)?;
        if let Some(Unsolved { picture, because, .. }) = results.failed(defence, attacker).next() {
            return Err(format!("{case} failed on {picture}: {because}"));
        }
        let numbers = match of {
            PictureNumber::Ssim => results.ssim(defence, attacker),
            PictureNumber::Apart => results.apart(defence, attacker),
        };
        if numbers.is_empty() { Err(of.lacking(case)) } else { Ok(numbers) }
    }

    /// The mean over pictures, or of the differences paired by picture, with its interval.
    fn mean(&self, left: &Term, right: Option<&Term>, of: PictureNumber) -> Result<Measured, String> {
        let (results, ..) = self.find(&left.case)?;
        let numbers = self.by_picture(&left.case, of)?;
        let numbers: Vec<f64> = match right {
            Some(right) => {
                let base = self.by_picture(&right.case, of)?;
                numbers.iter().filter_map(|(picture, number)| Some(number - base.get(picture)?)).collect()
            }
            None => numbers.into_values().collect(),
        };
        if numbers.is_empty() {
            return Err(format!("{} has no picture in common with what it is compared to", left.case));
        }
        let (mean, half_width) = (mean(&numbers), t_half_width(&numbers));
        let basis = basis(results, numbers.len());
        Ok(Measured { mean, low: mean - half_width, high: mean + half_width, basis })
    }

    /// Percent of the updates that are recognisable. An update on which the attack failed may be recognisable or not;
    /// the interval covers both.
    fn seen(&self, case: &str) -> Result<Measured, String> {
        let (results, defence, attacker) = self.find(case)?;
        let (ssim, failed) = (results.by_update(defence, attacker), results.failed(defence, attacker).count());
        let of = ssim.len() + failed;
        if of == 0 {
            return Err(format!("{case} was not tried"));
        }
        let low = percent_recognisable(&ssim, of);
        if failed == 0 {
            return Ok(Measured::exact(low, basis(results, results.ssim(defence, attacker).len())));
        }
        let basis = format!("{of} updates; it failed on {failed}");
        Ok(Measured { mean: low, low, high: low + 100.0 * failed as f64 / of as f64, basis })
    }
}

fn basis(results: &PanelResults, pictures: usize) -> String {
    let what = if results.panel.batch > 1 { "updates" } else { "pictures" };
    match results.panel.draws {
        1 => format!("{pictures} {what}"),
        draws => format!("{pictures} {what}, {draws} draws each"),
    }
}

impl Measurements for AttackMeasurements<'_> {
    fn measure(&self, left: &Term, right: Option<&Term>) -> Result<Measured, String> {
        match (&left.metric, right) {
            (Metric::Told, None) => {
                let (results, defence, _) = self.find(&left.case)?;
                let asked = results.asked(defence);
                let share = 100.0 * results.right(defence) as f64 / asked.max(1) as f64;
                if asked == 0 {
                    Err(format!("{} was not tried", left.case))
                } else {
                    Ok(Measured::exact(share, format!("{asked} updates")))
                }
            }
            (Metric::Seen, None) => self.seen(&left.case),
            (Metric::Ssim, right) => self.mean(left, right, PictureNumber::Ssim),
            (Metric::SeedSsim, right) => self.mean(left, right, PictureNumber::Apart),
            (metric, _) => Err(format!("attacks do not tell {}", metric.name())),
        }
    }

    fn ground(&self, condition: &Condition) -> Ground {
        let reference = &condition.reference().case;
        let undefended =
            AttackCase::parse(reference).map_or(String::new(), |case| format!("{}/{}", case.panel, NONE.key));
        let is_undefended_alone = matches!(condition.right, Right::Number(_)) && *reference == undefended;
        if is_undefended_alone || !condition.terms().any(|term| term.metric.needs_a_working_attack()) {
            return Ground::Given;
        }
        // When two panels are compared, it is enough that one attack works.
        let restored = condition.terms().filter_map(|term| {
            let panel = AttackCase::parse(&term.case)?.panel;
            self.0.iter().find(|results| results.panel.key == panel).map(PanelResults::restored)
        });
        let restored: Vec<Option<f64>> = restored.collect();
        match restored.iter().any(Option::is_none) {
            true => Ground::Given,
            false => Ground::Restored(restored.into_iter().flatten().fold(0.0, f64::max)),
        }
    }
}

const COLUMNS: [&str; 5] = ["", "median SSIM", "mean SSIM", "recognisable", "reported"];

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
    notes.extend(match run.request.experiment {
        Experiment::AttacksCnn => vec![
            "FLRSP's four numbers in each row are for its four pictures, against a pretrained ResNet34 at 224 x 224 pixels.".to_owned(),
            "A LeNet is the small network of Deep Leakage from Gradients, with sigmoids and without batch norm. Batch norm of a ResNet \
             uses the moments of the one picture, as in a client's training step."
                .to_owned(),
            "A search returns the picture it started from if no other explains the update better by a hundredth, and it ends before \
             its last step if it makes no more progress. Naive searches at usual weights do both."
                .to_owned(),
        ],
        _ => vec![
            format!(
                "APRIL's closed form needs a first block without LayerNorm before attention and without residual. In the figure of \
                 \"the block that it needs\" the q/k/v weights of that block have a standard deviation of {}, those of other blocks \
                 0.02. At 0.02, shown in another figure, rounding destroys much of the picture.",
                InitOptions::default().april_qkv_std
            ),
        ],
    });
    Ok(notes)
}

pub(super) fn findings(run: &ExperimentRun<'_, '_>, all: &[PanelResults]) -> Result<Findings, ExperimentError> {
    let experiment = run.request.experiment;
    let is_paper = |results: &PanelResults| experiment == Experiment::AttacksCnn && results.panel.key == RESNET;
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
                let reported: &dyn Fn(&str) -> Option<[f64; 4]> =
                    if is_paper(results) { &reported::inverting_gradients } else { &|_| None };
                results.table(reported)
            })
            .collect(),
        notes: notes(run, all)?,
        cost: panels::cost(run)?.map(|cost| cost.to_string()),
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

/// The panel of the network type that FLRSP attacked.
const RESNET: &str = "resnet";

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

#[cfg(test)]
mod tests {
    use unmask_core::{AttackMethod, VitPreset};

    use super::*;
    use crate::{
        attacks::panel::PanelAttack,
        claim::{Claim, Finding},
    };

    const DEFENCES: &[&str] =
        &["none", "r0.2", "r0.5", "r0.8", "r0.8-embeddings", "fixed", "eps4", "eps2", "eps1", "encrypted"];

    fn panel(key: &'static str, attack: PanelAttack, draws: u64) -> Panel {
        Panel { draws, ..Panel::new(key, "Title", VitPreset::Pico.into(), attack, DEFENCES) }
    }

    fn april_panel(draws: u64) -> Panel {
        let attack = PanelAttack::Pictures { naive: AttackMethod::April, aware: Some(AttackMethod::AprilAware) };
        panel("april", attack, draws)
    }

    /// APRIL on 15 pictures: SSIM by the defence's key; `None` means nothing to solve.
    fn april(ssim: impl Fn(&str) -> Option<[f64; 15]>) -> PanelResults {
        let result = |key: &str, picture: usize, ssim: f64| AttackResult {
            attack: AttackMethod::April,
            case: key.to_owned(),
            picture: format!("picture {picture}"),
            seed: 1,
            ssim,
            psnr: 20.0,
            seconds: 0.0,
        };
        let (mut results, mut unsolved_pictures) = (Vec::new(), Vec::new());
        for defence in &april_panel(1).defences() {
            match ssim(defence.key) {
                Some(ssim) => {
                    results.extend(ssim.iter().enumerate().map(|(at, &ssim)| result(defence.key, at, ssim)));
                }
                None => unsolved_pictures.extend((0..15).map(|picture| unsolved(defence.key, picture))),
            }
        }
        PanelResults { panel: april_panel(1), results, answers: Vec::new(), unsolved: unsolved_pictures }
    }

    fn unsolved(case: &'static str, picture: usize) -> Unsolved {
        Unsolved {
            case,
            attacker: Knowledge::Naive,
            picture: format!("picture {picture}"),
            because: "nothing to solve".to_owned(),
            has_nothing_to_solve: true,
        }
    }

    fn judge(methods: &[PanelResults], id: &str) -> Claim {
        let claims = judged(Experiment::AttacksVit, &AttackMeasurements(methods)).unwrap();
        claims.into_iter().find(|claim| claim.id == id).unwrap()
    }

    #[test]
    fn one_recognisable_picture_refutes_protection() {
        let masked = |most: f64| {
            move |key: &str| match key {
                "none" => Some([0.9; 15]),
                "fixed" => None,
                "r0.2" => Some(std::array::from_fn(|picture| if picture == 7 { most } else { 0.05 })),
                _ => Some([0.05; 15]),
            }
        };
        let finding = |most: f64| judge(&[april(masked(most))], "rbw-masks-stop-april").finding;
        assert_eq!((finding(0.49), finding(0.5)), (Finding::Agrees, Finding::Differs));
        let fixed = judge(&[april(masked(0.05))], "rbw-fixed-position-stops-april");
        assert_eq!((fixed.finding, fixed.found.as_str()), (Finding::Agrees, "seen(april/fixed) = 0 (15 pictures)"));
        let alike = judge(&[april(masked(0.05))], "rbw-masks-stop-april-as-well-as-fixed-position");
        assert_eq!(alike.finding, Finding::Agrees, "{alike:?}");
    }

    /// A failed attack says nothing about a picture, and is no evidence for the defence.
    #[test]
    fn an_attack_that_failed_leaves_it_open() {
        let mut april = april(|key| match key {
            "none" => Some([0.9; 15]),
            "fixed" => None,
            _ => Some([0.05; 15]),
        });
        april.unsolved[0].has_nothing_to_solve = false;
        april.unsolved[0].because = "the search has diverged".to_owned();
        let fixed = judge(&[april], "rbw-fixed-position-stops-april");
        assert_eq!(fixed.finding, Finding::Open);
        assert!(fixed.found.contains("15 updates; it failed on 1"), "{}", fixed.found);
    }

    /// If an attack does not work without a defence, its failures are no evidence for one.
    #[test]
    fn an_attack_that_does_not_work_decides_nothing() {
        let methods = [april(|_| Some([0.1; 15]))];
        let masks = judge(&methods, "rbw-masks-stop-april");
        let because = masks.because.unwrap();
        assert!(masks.finding == Finding::Open && because.starts_with("the attack does not work"), "{because}");
        assert_eq!(judge(&methods, "rbw-april-reads-its-own-block").finding, Finding::Differs);
        let untried = judge(&methods, "ours-embedding-restores");
        assert_eq!(
            (untried.finding, untried.because.as_deref()),
            (Finding::Open, Some("embedding/none was not tried"))
        );
    }

    /// Values from 0.1 to 0.3, and the same values 0.05 lower: the pictures differ, but the difference has no spread.
    #[test]
    fn differences_are_paired_by_picture() {
        let ssim = |below: f64| std::array::from_fn(|picture| 0.1 + 0.014 * picture as f64 - below);
        let methods = [april(|key| match key {
            "none" => Some([0.9; 15]),
            "r0.8" => Some(ssim(0.05)),
            "r0.5" => Some(ssim(0.0)),
            _ => Some([0.9; 15]),
        })];
        let term = |case: &str| Term { metric: Metric::Ssim, case: case.to_owned() };
        let measured = AttackMeasurements(&methods).measure(&term("april/r0.8"), Some(&term("april/r0.5"))).unwrap();
        assert!((measured.mean + 0.05).abs() < 1e-9 && measured.half_width() < 1e-9, "{measured:?}");
        let alone = AttackMeasurements(&methods).measure(&term("april/r0.5"), None).unwrap();
        assert!(alone.half_width() > 0.03, "{alone:?}");
    }

    /// Values 0.1, 0.114 and so on without the mask of R = 0.8, and 0.05 lower with it. Picture 3 (0.142) has nothing
    /// to solve: 14 differences of -0.05 and one of -0.142.
    #[test]
    fn a_picture_with_nothing_to_solve_counts_nothing_and_shifts_no_other() {
        let ssim = |below: f64| std::array::from_fn(|picture| 0.1 + 0.014 * picture as f64 - below);
        let mut april = april(|key| match key {
            "r0.8" => Some(ssim(0.05)),
            "r0.5" => Some(ssim(0.0)),
            _ => Some([0.9; 15]),
        });
        april.results.retain(|result| result.case != "r0.8" || result.picture != "picture 3");
        april.unsolved.push(unsolved("r0.8", 3));
        let methods = [april];
        let measure = |metric: Metric, right: Option<&str>| {
            let term = |metric: &Metric, case: &str| Term { metric: metric.clone(), case: case.to_owned() };
            let right = right.map(|case| term(&metric, case));
            AttackMeasurements(&methods).measure(&term(&metric, "april/r0.8"), right.as_ref()).unwrap()
        };
        let difference = measure(Metric::Ssim, Some("april/r0.5"));
        assert!((difference.mean + (14.0 * 0.05 + 0.142) / 15.0).abs() < 1e-9, "{difference:?}");
        assert_eq!(difference.basis, "15 pictures");
        assert_eq!(measure(Metric::Seen, None).basis, "15 pictures");
    }

    /// One of 15 pictures is recognised under one of its two masks: one update of 30, and a picture with masks that
    /// differ by 0.5.
    #[test]
    fn every_draw_counts_and_is_compared_with_the_others() {
        let mut first = april(|key| Some(if key == "none" { [0.9; 15] } else { [0.1; 15] }));
        let mut second = first.results.clone();
        second.iter_mut().for_each(|result| result.seed = 2);
        let shown = second.iter_mut().find(|result| result.case == "r0.5" && result.picture == "picture 4").unwrap();
        shown.ssim = 0.6;
        first.results.extend(second);
        first.panel = april_panel(2);
        let all = [first];
        let measure = |metric: Metric| {
            let term = Term { metric, case: "april/r0.5".to_owned() };
            AttackMeasurements(&all).measure(&term, None).unwrap()
        };
        let seen = measure(Metric::Seen);
        assert!((seen.mean - 100.0 / 30.0).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.basis, "15 pictures, 2 draws each");
        assert!((measure(Metric::Ssim).mean - (14.0 * 0.1 + 0.35) / 15.0).abs() < 1e-9);
        assert!((measure(Metric::SeedSsim).mean - 0.5 / 15.0).abs() < 1e-9);
    }

    #[test]
    fn members_are_told_rightly_or_not() {
        let answer = |case, picture: usize, is_right| Answer {
            case,
            picture: format!("picture {picture}"),
            seed: 1,
            is_right,
            seconds: 0.0,
        };
        let answers = (0..4).map(|picture| answer("none", picture, picture > 0)).collect();
        let panel = panel("membership", PanelAttack::Membership, 1);
        let all = [PanelResults { panel, results: Vec::new(), answers, unsolved: Vec::new() }];
        let told = |case: &str| {
            let term = Term { metric: Metric::Told, case: case.to_owned() };
            AttackMeasurements(&all).measure(&term, None)
        };
        assert_eq!(told("membership/none").unwrap(), Measured::exact(75.0, "4 updates"));
        assert_eq!(told("membership/r0.5").unwrap_err(), "membership/r0.5 was not tried");
        let condition = "told(membership/none) > 50".parse().unwrap();
        assert_eq!(AttackMeasurements(&all).ground(&condition), Ground::Given);
        assert!(all[0].figure("Fig. 8").unwrap().is_none(), "there is no SSIM to show");
        assert_eq!(all[0].table(&|_| None).rows[0], ["none", "3 of 4"]);
    }
}
