//! Box plots, tables and claims of attacks.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use unmask_core::{InitOptions, Knowledge};
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{AttackResult, by_picture, title};
use crate::{
    accuracy::{mean, t_half_width},
    claim::{Condition, Ground, Measured, Measurements, Metric, Right, Term, judged},
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
    pub(super) unsolved: Vec<Unsolved>,
}

/// A picture of which an attack made nothing.
pub(super) struct Unsolved {
    /// Key of the defence.
    pub(super) case: &'static str,
    pub(super) attacker: Knowledge,
    pub(super) picture: String,
    /// In the attack's own words.
    pub(super) because: String,
    /// Otherwise the attack failed, and what it would see is not known.
    pub(super) has_nothing_to_solve: bool,
}

impl MethodResults {
    fn seen(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &AttackResult> {
        self.results.iter().filter(move |result| result.case == case && result.attack.knowledge() == attacker)
    }

    fn unsolved(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved.iter().filter(move |unsolved| unsolved.case == case && unsolved.attacker == attacker)
    }

    fn failed(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved(case, attacker).filter(|unsolved| !unsolved.has_nothing_to_solve)
    }

    /// Of each picture, 0 where the attack had nothing to solve. Those it failed on are left out.
    fn ssim(&self, case: &'static str, attacker: Knowledge) -> BTreeMap<&str, f64> {
        let nothing = self.unsolved(case, attacker).filter(|unsolved| unsolved.has_nothing_to_solve);
        by_picture(self.seen(case, attacker), nothing.map(|unsolved| unsolved.picture.as_str()))
    }

    /// The same to be shown: nothing where nothing came out of any picture.
    fn shown(&self, case: &'static str, attacker: Knowledge) -> Vec<f64> {
        let is_any = self.seen(case, attacker).next().is_some();
        if is_any { self.ssim(case, attacker).into_values().collect() } else { Vec::new() }
    }

    fn figure(&self, repeats: &str) -> Result<Figure, ExperimentError> {
        let least = self.results.iter().map(|result| result.ssim).fold(-0.1, f64::min);
        let groups: Vec<BoxGroup> = self
            .defences
            .iter()
            .map(|defence| BoxGroup {
                name: defence.label.to_owned(),
                boxes: attackers(defence).iter().map(|&at| (style(at), self.shown(defence.key, at))).collect(),
            })
            .collect();
        let pictures = self.defences.first().map_or(0, |defence| self.shown(defence.key, Knowledge::Naive).len());
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

    fn rows(&self, reported: &dyn Fn(&str) -> Option<[f64; 4]>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for defence in &self.defences {
            for &attacker in attackers(defence) {
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

    /// Percent of the pictures that the attack restores without a defence, those it failed on not among them.
    fn restored(&self) -> f64 {
        let ssim: Vec<f64> = self.ssim(NONE.key, Knowledge::Naive).into_values().collect();
        percent_recognisable(&ssim, ssim.len() + self.failed(NONE.key, Knowledge::Naive).count())
    }

    /// How many pictures are recognisable, and how many it is not known of.
    fn counted(&self, ssim: &[f64], defence: &ComparedDefence, attacker: Knowledge) -> String {
        let known = format!("{} of {}", recognisable(ssim), ssim.len());
        match self.failed(defence.key, attacker).count() {
            0 => known,
            failed => format!("{known}; it failed on {failed} more"),
        }
    }

    /// The line of an attack that could not be tried.
    fn nothing(&self, defence: &ComparedDefence, attacker: Knowledge) -> Vec<String> {
        let why = self.unsolved(defence.key, attacker).next().map_or("not tried", |unsolved| unsolved.because.as_str());
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

fn percent_recognisable(ssim: &[f64], of: usize) -> f64 {
    100.0 * recognisable(ssim) as f64 / of.max(1) as f64
}

/// Whether an attack works: more than half of the pictures are recognisable.
pub(super) fn attack_works(ssim: &[f64]) -> bool {
    2 * recognisable(ssim) > ssim.len()
}

/// What follows the panel's key where the attacker knows the mask.
const AWARE: &str = "-aware";

/// An attacker of a panel and the defence: `april-aware/r0.5`.
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

/// The attackers of panels under their defences, as formulas name them.
pub(super) fn cases<'a>(panels: impl IntoIterator<Item = (&'a str, Vec<ComparedDefence>)>) -> Vec<String> {
    let case = |panel: &str, defence: &ComparedDefence, at: Knowledge| {
        let aware = if at == Knowledge::Aware { AWARE } else { "" };
        format!("{panel}{aware}/{}", defence.key)
    };
    let mut cases = Vec::new();
    for (panel, defences) in panels {
        for defence in &defences {
            cases.extend(attackers(defence).iter().map(|&at| case(panel, defence, at)));
        }
    }
    cases
}

/// What all panels found, for formulas.
struct AttackMeasurements<'a>(&'a [MethodResults]);

impl<'a> AttackMeasurements<'a> {
    fn ssim(&self, case: &str) -> Result<BTreeMap<&'a str, f64>, String> {
        let not_tried = || format!("{case} was not tried");
        let AttackCase { panel, attacker, defence } = AttackCase::parse(case).ok_or_else(not_tried)?;
        let method = self.0.iter().find(|method| method.key == panel).ok_or_else(not_tried)?;
        let defence = method.defences.iter().find(|known| known.key == defence).ok_or_else(not_tried)?;
        if let Some(Unsolved { picture, because, .. }) = method.failed(defence.key, attacker).next() {
            return Err(format!("{case} failed on {picture}: {because}"));
        }
        let ssim = method.ssim(defence.key, attacker);
        if ssim.is_empty() { Err(not_tried()) } else { Ok(ssim) }
    }
}

impl Measurements for AttackMeasurements<'_> {
    fn measure(&self, left: &Term, right: Option<&Term>) -> Result<Measured, String> {
        let seen = self.ssim(&left.case)?;
        let basis = |pictures: usize| format!("{pictures} pictures");
        match (&left.metric, right) {
            (Metric::Seen, None) => {
                let ssim: Vec<f64> = seen.into_values().collect();
                Ok(Measured::exact(percent_recognisable(&ssim, ssim.len()), basis(ssim.len())))
            }
            (Metric::Ssim, right) => {
                let differences: Vec<f64> = match right {
                    Some(right) => {
                        let base = self.ssim(&right.case)?;
                        seen.iter().filter_map(|(picture, ssim)| Some(ssim - base.get(picture)?)).collect()
                    }
                    None => seen.into_values().collect(),
                };
                if differences.is_empty() {
                    return Err(format!("{} has no picture in common with what it is compared to", left.case));
                }
                let (mean, half_width) = (mean(&differences), t_half_width(&differences));
                let basis = basis(differences.len());
                Ok(Measured { mean, low: mean - half_width, high: mean + half_width, basis })
            }
            (metric, _) => Err(format!("attacks do not tell {}", metric.name())),
        }
    }

    fn ground(&self, condition: &Condition) -> Ground {
        let reference = &condition.reference().case;
        let undefended =
            AttackCase::parse(reference).map_or(String::new(), |case| format!("{}/{}", case.panel, NONE.key));
        if matches!(condition.right, Right::Number(_)) && *reference == undefended {
            return Ground::Given;
        }
        let method =
            AttackCase::parse(reference).and_then(|case| self.0.iter().find(|method| method.key == case.panel));
        Ground::Restored(method.map_or(0.0, MethodResults::restored))
    }
}

const COLUMNS: [&str; 5] = ["", "median SSIM", "mean SSIM", "recognisable", "reported"];

pub(super) fn of_vit(run: &ExperimentRun<'_, '_>, methods: &[MethodResults]) -> Result<Findings, ExperimentError> {
    let notes = vec![
        "Models are at their initial weights, one picture is in each update, and its label is read off the update.".to_owned(),
        format!(
            "APRIL's closed form needs a first block without LayerNorm before attention and without residual; one figure is of a \
             model that has such a block, one of a standard ViT. That block's q/k/v weights are drawn with a standard deviation of \
             {}, where others have 0.02: at 0.02, rounding costs most of the picture.",
            InitOptions::default().april_qkv_std
        ),
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
        claims: judged(run.request.experiment, &AttackMeasurements(methods))?,
        figures: methods
            .iter()
            .map(|method| method.figure(run.request.experiment.repeats()))
            .collect::<Result<_, ExperimentError>>()?,
        tables: methods.iter().map(table).collect(),
        notes,
        cost,
        commands: Vec::new(),
        records: records(methods)?,
        results: json!({ "panels": methods.iter().map(|method| method.key).collect::<Vec<_>>(), "seen": seen(methods) }),
        curve: None,
    })
}

/// A result with the panel that it is of: one attack may have two.
#[derive(Debug, Serialize)]
struct PanelResult<'a> {
    panel: &'static str,
    #[serde(flatten)]
    result: &'a AttackResult,
}

fn seen(methods: &[MethodResults]) -> Vec<PanelResult<'_>> {
    let mut seen = Vec::new();
    for MethodResults { key: panel, results, .. } in methods {
        seen.extend(results.iter().map(|result| PanelResult { panel, result }));
    }
    seen
}

fn records(methods: &[MethodResults]) -> Result<Vec<u8>, ExperimentError> {
    let rows = seen(methods).into_iter().map(|PanelResult { panel, result }| {
        let AttackResult { attack, case, picture, ssim, psnr, seconds } = result;
        (panel, attack, case, picture, ssim, psnr, seconds)
    });
    csv(&["panel", "attack", "defence", "picture", "ssim", "psnr", "seconds"], rows)
}

#[cfg(test)]
mod tests {
    use unmask_core::AttackMethod;

    use super::*;
    use crate::{
        catalogue::Experiment,
        claim::{Claim, Finding},
        defences::ATTACKED_VIT,
    };

    /// APRIL on 15 pictures: SSIM by the defence's key, nothing to solve where there is none.
    fn april(ssim: impl Fn(&str) -> Option<[f64; 15]>) -> MethodResults {
        let result = |key: &str, picture: usize, ssim: f64| AttackResult {
            attack: AttackMethod::April,
            case: key.to_owned(),
            picture: format!("picture {picture}"),
            ssim,
            psnr: 20.0,
            seconds: 0.0,
        };
        let (mut results, mut unsolved_pictures) = (Vec::new(), Vec::new());
        for defence in &ATTACKED_VIT {
            match ssim(defence.key) {
                Some(ssim) => {
                    results.extend(ssim.iter().enumerate().map(|(at, &ssim)| result(defence.key, at, ssim)));
                }
                None => unsolved_pictures.extend((0..15).map(|picture| unsolved(defence.key, picture))),
            }
        }
        MethodResults {
            key: "april",
            title: "APRIL",
            model: "vit",
            defences: ATTACKED_VIT.to_vec(),
            results,
            unsolved: unsolved_pictures,
        }
    }

    /// APRIL had nothing to solve.
    fn unsolved(case: &'static str, picture: usize) -> Unsolved {
        Unsolved {
            case,
            attacker: Knowledge::Naive,
            picture: format!("picture {picture}"),
            because: "nothing to solve".to_owned(),
            has_nothing_to_solve: true,
        }
    }

    fn judge(methods: &[MethodResults], id: &str) -> Claim {
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

    /// An attack that failed on a picture says nothing of it, and nothing for the defence.
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
        assert_eq!(
            (fixed.finding, fixed.because.as_deref()),
            (Finding::Open, Some("april/fixed failed on picture 0: the search has diverged"))
        );
    }

    /// What an attack that fails in any case does not restore is no defence's merit.
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

    /// Pictures of 0.1 to 0.3 and all of them 0.05 lower: however pictures differ, the difference has no spread.
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

    /// Pictures of 0.1, 0.114 and so on without the mask of R = 0.8, and 0.05 lower with it. Of picture 3, 0.142, nothing is
    /// left: 14 differences of -0.05 and one of -0.142.
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
}
