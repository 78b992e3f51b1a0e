//! A panel: the attacks in one figure, computed as a matrix of `unmask matrix`.

use unmask_core::{Architecture, AttackMethod, Knowledge, Rule, Verdict};
use unmask_inversion::InferenceAttack;

use super::{
    AttackResult,
    findings::{Answer, PanelResults, Unsolved},
    weights::Weights,
};
use crate::{
    defences::{ATTACKED, ComparedDefence},
    error::ExperimentError,
    matrix::{MatrixRow, MatrixSettings},
};

/// Attacks on one model that are shown in one figure.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    /// Name in formulas.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) model: Architecture,
    pub(super) weights: Weights,
    pub(super) attack: PanelAttack,
    pub(super) defences: &'static [&'static str],
    /// Steps of a search; the attack's default if absent.
    pub(super) iterations: Option<usize>,
    /// First step size of a search; the attack's default if absent.
    pub(super) step: Option<f64>,
    /// The most pictures to attack.
    pub(super) pictures: usize,
    /// Pictures in one update.
    pub(super) batch: usize,
    /// How often each update is made and attacked, each time with new masks, noise and starts.
    pub(super) draws: u64,
    pub(super) rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PanelAttack {
    /// A reconstruction by a naive attacker, and by one who knows the mask.
    Pictures { naive: AttackMethod, aware: Option<AttackMethod> },
    /// Whether a photograph was in the update.
    Membership,
}

impl Panel {
    /// A panel on all pictures, each alone in an update that is made once.
    pub(super) fn new(
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
        })
    }

    pub(super) fn results(self, rows: &[MatrixRow]) -> PanelResults {
        let mut results = PanelResults { panel: self, results: Vec::new(), answers: Vec::new(), unsolved: Vec::new() };
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

    /// The defence and attacker of a row. If nothing was dropped, an attacker who knows the mask has no row.
    fn attacked_by(&self, row: &MatrixRow) -> Option<(ComparedDefence, Knowledge)> {
        let defence = self.defences().into_iter().find(|known| known.parsed().is_ok_and(|it| it == row.defence))?;
        let attacker = row.attack.method().map_or(Knowledge::Naive, |method| self.attacker(method));
        self.attackers(&defence).contains(&attacker).then_some((defence, attacker))
    }
}
