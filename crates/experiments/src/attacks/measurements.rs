//! The numbers of attacks, as formulas name them.

use std::collections::BTreeMap;

use unmask_core::Knowledge;

use super::{
    panel::Panel,
    results::{PanelResults, Unsolved, percent_recognisable},
};
use crate::{
    accuracy::{mean, t_half_width},
    claim::{Condition, Ground, Measured, Measurements, Right, Term},
    defences::{ComparedDefence, NONE},
    metric::Metric,
};

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
pub(super) struct AttackMeasurements<'a>(pub(super) &'a [PanelResults]);

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

#[cfg(test)]
mod tests {
    use unmask_core::{AttackMethod, VitPreset};

    use super::*;
    use crate::{
        attacks::{
            panel::PanelAttack,
            result::AttackResult,
            results::{Answer, Unsolved},
        },
        claim::{Claim, Finding, judged},
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
        let claims = judged("attacks-vit".parse().unwrap(), &AttackMeasurements(methods)).unwrap();
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
