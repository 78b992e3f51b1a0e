//! The results of a panel, and the numbers that follow from them.

use std::collections::BTreeMap;

use serde::Serialize;
use unmask_core::{Knowledge, Verdict};
use unmask_data::metrics::RECOGNISABLE_FROM;

use super::{
    panel::{Panel, PanelAttack},
    result::{AttackResult, by_picture},
};
use crate::{defences::NONE, matrix::MatrixRow};

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
    /// The results of a panel in the rows of its matrix.
    pub(super) fn of(panel: Panel, rows: &[MatrixRow]) -> Self {
        let mut results = Self { panel, results: Vec::new(), answers: Vec::new(), unsolved: Vec::new() };
        for row in rows {
            let Some((defence, attacker)) = results.panel.attacked_by(row) else { continue };
            let (case, picture) = (defence.key, row.image.clone());
            if let Some(seen) = AttackResult::of(row, case) {
                results.results.push(seen);
            } else if results.panel.attack == PanelAttack::Membership {
                let is_right = row.verdict == Verdict::Recognisable;
                results.answers.push(Answer { case, picture, seed: row.seed, is_right, seconds: row.seconds });
            } else {
                results.unsolved.push(Unsolved {
                    case,
                    attacker,
                    picture,
                    because: row.verdict.because().unwrap_or_default().to_owned(),
                    has_nothing_to_solve: row.has_nothing_to_solve,
                });
            }
        }
        results
    }

    pub(super) fn seen(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &AttackResult> {
        let is_theirs = move |result: &&AttackResult| self.panel.attacker(result.attack) == attacker;
        self.results.iter().filter(move |result| result.case == case).filter(is_theirs)
    }

    pub(super) fn unsolved(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved.iter().filter(move |unsolved| unsolved.case == case && unsolved.attacker == attacker)
    }

    pub(super) fn failed(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved(case, attacker).filter(|unsolved| !unsolved.has_nothing_to_solve)
    }

    pub(super) fn nothing_to_solve(&self, case: &'static str, attacker: Knowledge) -> impl Iterator<Item = &Unsolved> {
        self.unsolved(case, attacker).filter(|unsolved| unsolved.has_nothing_to_solve)
    }

    /// SSIM by picture, 0 if the attack had nothing to solve. Without pictures on which it failed.
    pub(super) fn ssim(&self, case: &'static str, attacker: Knowledge) -> BTreeMap<&str, f64> {
        let nothing = self.nothing_to_solve(case, attacker).map(|unsolved| unsolved.picture.as_str());
        by_picture(self.seen(case, attacker), nothing)
    }

    /// SSIM of each update, with the same rules.
    pub(super) fn by_update(&self, case: &'static str, attacker: Knowledge) -> Vec<f64> {
        let seen = self.seen(case, attacker).map(|result| result.ssim);
        seen.chain(self.nothing_to_solve(case, attacker).map(|_| 0.0)).collect()
    }

    /// Largest difference in SSIM between the draws of a picture, for each picture attacked more than once.
    pub(super) fn apart(&self, case: &'static str, attacker: Knowledge) -> BTreeMap<&str, f64> {
        let mut ranges: BTreeMap<&str, (f64, f64, usize)> = BTreeMap::new();
        for result in self.seen(case, attacker) {
            let range = ranges.entry(&result.picture).or_insert((f64::INFINITY, f64::NEG_INFINITY, 0));
            *range = (range.0.min(result.ssim), range.1.max(result.ssim), range.2 + 1);
        }
        let several = ranges.into_iter().filter(|(_, (_, _, draws))| *draws > 1);
        several.map(|(picture, (least, most, _))| (picture, most - least)).collect()
    }

    /// The values to draw: those of [`by_update`](Self::by_update), or none if the attack reconstructed no picture.
    pub(super) fn shown(&self, case: &'static str, attacker: Knowledge) -> Vec<f64> {
        let is_any = self.seen(case, attacker).next().is_some();
        if is_any { self.by_update(case, attacker) } else { Vec::new() }
    }

    pub(super) fn asked(&self, case: &str) -> usize {
        self.answers.iter().filter(|answer| answer.case == case).count()
    }

    pub(super) fn right(&self, case: &str) -> usize {
        self.answers.iter().filter(|answer| answer.case == case && answer.is_right).count()
    }

    /// Percent of the undefended updates that the attack restores, or whose members it identifies; failures count as
    /// not restored. `None` if the panel has only defended updates.
    pub(super) fn restored(&self) -> Option<f64> {
        self.panel.defences.contains(&NONE.key).then(|| {
            if self.panel.attack == PanelAttack::Membership {
                return 100.0 * self.right(NONE.key) as f64 / self.asked(NONE.key).max(1) as f64;
            }
            let ssim = self.by_update(NONE.key, Knowledge::Naive);
            percent_recognisable(&ssim, ssim.len() + self.failed(NONE.key, Knowledge::Naive).count())
        })
    }
}

pub(super) fn recognisable(ssim: &[f64]) -> usize {
    ssim.iter().filter(|&&ssim| ssim >= RECOGNISABLE_FROM).count()
}

pub(super) fn percent_recognisable(ssim: &[f64], of: usize) -> f64 {
    100.0 * recognisable(ssim) as f64 / of.max(1) as f64
}
