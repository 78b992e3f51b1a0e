//! A panel: the attacks in one figure, computed as a matrix of `unmask matrix`.

use unmask_core::{Architecture, AttackMethod, Knowledge, Rule, ThreatModel};
use unmask_inversion::InferenceAttack;

use super::weights::Weights;
use crate::{
    defences::{ATTACKED, ComparedDefence},
    error::ExperimentError,
    matrix::{MatrixRow, MatrixSettings},
};

/// The papers' number of steps.
pub(crate) const PATIENT: usize = 24_000;

pub(crate) const NONE: &[&str] = &["none"];
pub(crate) const MASKS: &[&str] = &["none", "r0.2", "r0.5", "r0.8"];

/// Attacks on one model that are shown in one figure.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    /// Name in formulas.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) model: Architecture,
    pub(crate) weights: Weights,
    pub(crate) attack: PanelAttack,
    pub(crate) defences: &'static [&'static str],
    /// Steps of a search; the attack's default if absent.
    pub(crate) iterations: Option<usize>,
    /// First step size of a search; the attack's default if absent.
    pub(crate) step: Option<f64>,
    /// The most pictures to attack.
    pub(crate) pictures: usize,
    /// Pictures in one update.
    pub(crate) batch: usize,
    /// How often each update is made and attacked, each time with new masks, noise and starts.
    pub(crate) draws: u64,
    pub(crate) rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PanelAttack {
    /// A reconstruction by a naive attacker, and by one who knows the mask.
    Pictures { naive: AttackMethod, aware: Option<AttackMethod> },
    /// Whether a photograph was in the update.
    Membership,
}

impl Panel {
    /// A panel on all pictures, each alone in an update that is made once.
    pub(crate) fn new(
        key: &'static str,
        title: &'static str,
        model: Architecture,
        attack: PanelAttack,
        defences: &'static [&'static str],
    ) -> Self {
        Self {
            key,
            title,
            model,
            weights: Weights::Initial,
            attack,
            defences,
            iterations: None,
            step: None,
            pictures: usize::MAX,
            batch: 1,
            draws: 1,
            rule: Rule::FedSgd,
        }
    }

    pub(super) fn defences(&self) -> Vec<ComparedDefence> {
        ATTACKED.into_iter().filter(|defence| self.defences.contains(&defence.key)).collect()
    }

    /// The attackers under a defence. Knowing the mask makes a difference only if there is a mask.
    pub(super) fn attackers(&self, defence: &ComparedDefence) -> &'static [Knowledge] {
        let has_aware = matches!(self.attack, PanelAttack::Pictures { aware: Some(_), .. });
        if has_aware && defence.is_mask() { &[Knowledge::Naive, Knowledge::Aware] } else { &[Knowledge::Naive] }
    }

    /// The attacker that uses `method` in this panel.
    pub(super) fn attacker(&self, method: AttackMethod) -> Knowledge {
        match self.attack {
            PanelAttack::Pictures { aware, .. } if aware == Some(method) => Knowledge::Aware,
            _ => Knowledge::Naive,
        }
    }

    pub(super) fn attacked(&self) -> String {
        format!("{} {}", self.model, self.weights.words())
    }

    /// The settings of the matrix that computes its rows.
    ///
    /// # Errors
    /// A defence in the list has invalid parameters.
    pub(super) fn settings(&self, seed: u64) -> Result<MatrixSettings, ExperimentError> {
        let attacks = match self.attack {
            PanelAttack::Pictures { naive, aware } => {
                [Some(naive), aware].into_iter().flatten().map(InferenceAttack::Reconstruction).collect()
            }
            PanelAttack::Membership => vec![InferenceAttack::Membership],
        };
        Ok(MatrixSettings {
            model: self.model,
            attacks,
            defences: self.defences().iter().map(ComparedDefence::parsed).collect::<Result<_, _>>()?,
            seed,
            seeds: self.draws,
            iterations: self.iterations,
            step: self.step,
            rounds: 1,
            rate: 1e-5,
            rule: self.rule,
            batch: self.batch,
            sum: 1,
            threats: vec![ThreatModel::Honest],
        })
    }

    /// The defence and attacker of a row. If nothing was dropped, an attacker who knows the mask has no row.
    pub(super) fn attacked_by(&self, row: &MatrixRow) -> Option<(ComparedDefence, Knowledge)> {
        let defence = self.defences().into_iter().find(|known| known.parsed().is_ok_and(|it| it == row.defence))?;
        let attacker = row.attack.method().map_or(Knowledge::Naive, |method| self.attacker(method));
        self.attackers(&defence).contains(&attacker).then_some((defence, attacker))
    }
}
