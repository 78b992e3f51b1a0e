//! What attackers see of the sample photographs under one defence.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use unmask_attack::{Concealment, Needs};
use unmask_core::{Architecture, AttackMethod, Defence, ModelState, ParamGroup, Rule, ThreatModel};
use unmask_data::Picture;
use unmask_inversion::InferenceAttack;
use unmask_simulation::files::rounded;

use crate::{
    attacks::{AttackResult, by_picture, matching_steps, watched},
    catalogue::Scale,
    error::ExperimentError,
    matrix::{MatrixRequest, MatrixRow, MatrixSettings},
    run::ExperimentRun,
};

/// Number of updates of each photograph that the attack `rounds` gathers.
pub(super) fn gathered(scale: Scale) -> usize {
    if scale == Scale::Tiny { 2 } else { 10 }
}

/// The server's rate between these updates. The model hardly changes, which favours the attacker.
const RATE: f32 = 1e-5;

/// The attacks that a room runs on updates under this defence: closed forms and, with `has_search`, the search with the
/// most knowledge.
pub(super) fn methods(architecture: Architecture, defence: Defence, has_search: bool) -> Vec<AttackMethod> {
    let hidden = concealment(defence);
    let is_for_model = |method: &AttackMethod| {
        Needs::of(*method, architecture).is_ok_and(|needs| architecture.april_block() || !needs.april_block)
    };
    let mut methods: Vec<AttackMethod> =
        hidden.methods(architecture, 1).into_iter().filter(|method| !method.is_search()).filter(is_for_model).collect();
    // Without a defence, closed forms are exact.
    if has_search && defence != Defence::None {
        methods.extend(hidden.searches(architecture).first());
    }
    methods
}

fn concealment(defence: Defence) -> Concealment {
    if defence.is_encrypted() {
        Concealment::Embeddings
    } else if defence.fixes(ParamGroup::Position) {
        Concealment::Positions
    } else if defence.rates().is_some() {
        Concealment::Entries
    } else {
        Concealment::Nothing
    }
}

/// A client to attack, with one photograph in each update.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// Key of the trial.
    pub(super) key: &'a str,
    /// The data set of its model's training.
    pub(super) data: Option<String>,
    pub(super) case: &'a str,
    pub(super) defence: Defence,
    pub(super) architecture: Architecture,
    /// The weights; initial ones if absent.
    pub(super) start: Option<&'a ModelState>,
    pub(super) methods: &'a [AttackMethod],
    pub(super) seed: u64,
}

/// All attacks on all photographs, in updates of one model under one defence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Leaks {
    /// The data set of the model's training; absent at initial weights.
    pub(super) data: Option<String>,
    pub(super) case: String,
    pub(super) seed: u64,
    pub(super) seen: Vec<AttackResult>,
    /// Attacks that had nothing to solve.
    pub(super) cannot: Vec<Unsolved>,
    pub(super) seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Unsolved {
    pub(super) attack: AttackMethod,
    pub(super) picture: String,
    pub(super) because: String,
}

impl Target<'_> {
    /// An empty result, for a model that no longer gives finite updates.
    pub(super) fn nothing(&self) -> Leaks {
        let &Self { ref data, case, seed, .. } = self;
        Leaks { data: data.clone(), case: case.to_owned(), seed, seen: Vec::new(), cannot: Vec::new(), seconds: 0.0 }
    }

    pub(super) fn attack(
        &self,
        run: &mut ExperimentRun<'_, '_>,
        photographs: &[(String, Picture)],
    ) -> Result<Leaks, ExperimentError> {
        let clock = Instant::now();
        let settings = self.settings(run.request.scale);
        let folder = run.store.folder(self.key);
        let request = MatrixRequest {
            settings: &settings,
            pictures: photographs,
            start: self.start,
            device: run.request.device,
            threads: run.request.threads,
            commit: run.request.commit.clone(),
            out: &folder,
        };
        let rows = watched(&request, &|_| true, run)?;
        Ok(Leaks { seconds: rounded(clock.elapsed().as_secs_f64(), 3), ..self.leaks(rows) })
    }

    pub(super) fn settings(&self, scale: Scale) -> MatrixSettings {
        MatrixSettings {
            model: self.architecture,
            attacks: self.methods.iter().map(|&method| InferenceAttack::Reconstruction(method)).collect(),
            defences: vec![self.defence],
            seed: self.seed,
            seeds: 1,
            iterations: Some(matching_steps(scale)),
            step: None,
            rounds: gathered(scale),
            rate: RATE,
            rule: Rule::FedSgd,
            batch: 1,
            sum: 1,
            threats: vec![ThreatModel::Honest],
        }
    }

    pub(super) fn leaks(&self, rows: Vec<MatrixRow>) -> Leaks {
        let mut leaks = self.nothing();
        rows.into_iter().for_each(|row| leaks.push(row));
        leaks
    }
}

impl Leaks {
    fn push(&mut self, row: MatrixRow) {
        let Some(attack) = row.attack.method() else { return };
        match AttackResult::of(&row, &self.case) {
            Some(seen) => self.seen.push(seen),
            None => {
                let because = row.verdict.because().unwrap_or_default().to_owned();
                self.cannot.push(Unsolved { attack, picture: row.image, because });
            }
        }
    }

    /// SSIM of each photograph, 0 if the attack had nothing to solve; `None` if it had nothing to solve on all
    /// photographs.
    pub(super) fn ssim(&self, attack: AttackMethod) -> Option<Vec<f64>> {
        let seen = || self.seen.iter().filter(move |seen| seen.attack == attack);
        let cannot = self.cannot.iter().filter(|cannot| cannot.attack == attack);
        let ssim = by_picture(seen(), cannot.map(|cannot| cannot.picture.as_str()));
        seen().next().map(|_| ssim.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    fn names(defence: &str, has_search: bool) -> String {
        let methods = methods(VitPreset::Nano.into(), defence.parse().unwrap(), has_search);
        methods.into_iter().map(AttackMethod::name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_defence_meets_the_attacks_that_a_room_tries_on_it() {
        assert_eq!(names("none", true), "embedding embedding-aware");
        assert_eq!(names("random-binary:0.5", false), "embedding embedding-aware completion rounds");
        assert_eq!(names("random-binary:0.5", true), "embedding embedding-aware completion rounds matching-aware");
        assert_eq!(names("fixed-position", true), "embedding embedding-aware jigsaw");
        assert_eq!(names("gaussian:eps=4,delta=0.5,clip=0.5", true), "embedding embedding-aware matching-aware");
    }

    #[test]
    fn what_an_attack_cannot_solve_it_does_not_see() {
        let seen = |picture: &str, ssim| AttackResult {
            attack: AttackMethod::Completion,
            case: "r0.5".to_owned(),
            picture: picture.to_owned(),
            seed: 1,
            ssim,
            psnr: 20.0,
            seconds: 0.1,
        };
        let unsolved = |attack, picture: &str| Unsolved { attack, picture: picture.to_owned(), because: String::new() };
        let leaks = Leaks {
            data: None,
            case: "r0.5".to_owned(),
            seed: 1,
            seen: vec![seen("cat", 0.5), seen("astronaut", 0.75)],
            cannot: vec![unsolved(AttackMethod::Completion, "cameraman"), unsolved(AttackMethod::Rounds, "cat")],
            seconds: 1.0,
        };
        assert_eq!(leaks.ssim(AttackMethod::Completion), Some(vec![0.75, 0.0, 0.5]), "in the pictures' order");
        assert_eq!(leaks.ssim(AttackMethod::Rounds), None);
    }
}
