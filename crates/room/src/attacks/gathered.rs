//! Several rounds of one client, combined.

use std::sync::Arc;

use unmask_attack::{AccumulatedRounds, Added, AttackError, Concealment};
use unmask_core::{ClientId, Defence, Rule, VitConfig};
use unmask_wire::view::GatheredView;

use super::{about::About, job::Job};

/// The properties that rounds must share to be combined.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Common {
    epoch: u64,
    gathering: u64,
    client: ClientId,
    rule: Rule,
}

impl Common {
    fn of(about: &About) -> Self {
        let About { epoch, gathering, client, rule, .. } = *about;
        Self { epoch, gathering, client, rule }
    }
}

#[derive(Debug)]
pub(super) struct Gathered {
    common: Common,
    /// Means over the rounds.
    pub(super) rounds: Arc<AccumulatedRounds>,
    /// Whether exactly these rounds have been solved for the picture.
    is_solved: bool,
}

impl Gathered {
    pub(super) fn new(about: &About, config: &VitConfig) -> Self {
        Self { common: Common::of(about), rounds: Arc::new(AccumulatedRounds::new(config)), is_solved: false }
    }

    pub(super) fn goes_with(&self, about: &About) -> bool {
        self.common == Common::of(about)
    }

    pub(super) fn is_of(&self, client: ClientId) -> bool {
        self.common.client == client
    }

    pub(super) fn is_solved(&self) -> bool {
        self.is_solved
    }

    pub(super) fn solved(&mut self, rounds: &Arc<AccumulatedRounds>) {
        self.is_solved |= Arc::ptr_eq(&self.rounds, rounds);
    }

    /// Adds an update, unless the model has drifted too far.
    pub(super) fn add(&mut self, job: &Job) -> Result<GatheredView, AttackError> {
        let before = self.rounds.kept_apart();
        let add = |evidence| Arc::make_mut(&mut self.rounds).add(evidence);
        let added = job.observation.evidence().and_then(add)?;
        self.is_solved &= added == Added::Drifted && self.rounds.kept_apart() == before;
        Ok(view(&self.rounds, job.about.defence))
    }
}

fn view(rounds: &AccumulatedRounds, defence: Defence) -> GatheredView {
    // A common mask hides the same entries in every round.
    let is_frozen = defence.has_common_mask();
    let rounds_needed = rounds.rounds_until_solvable().filter(|_| !is_frozen);
    GatheredView {
        rounds: u32::try_from(rounds.rounds()).unwrap_or(u32::MAX),
        hidden: rounds.hidden_share(),
        expected_hidden: rounds.expected_hidden_share(),
        whole_equations: rounds.whole_equations(),
        needed_equations: rounds.config().patches(),
        rounds_needed: rounds_needed.and_then(|rounds| u32::try_from(rounds).ok()),
        has_drifted: rounds.has_drifted(),
    }
}

pub(super) fn is_wanted(job: &Job) -> bool {
    job.concealment == Concealment::Entries && job.architecture.vit().is_some()
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    const ABOUT: About = About {
        epoch: 1,
        serial: 1,
        gathering: 1,
        client: ClientId(1),
        round: 1,
        defence: Defence::None,
        rule: Rule::FedSgd,
        samples: 1,
    };

    #[test]
    fn rounds_of_one_client_model_and_rule_go_together() {
        let gathered = Gathered::new(&ABOUT, &VitConfig::from(VitPreset::Pico));
        let masked = "random-binary:0.5".parse().unwrap();
        assert!(gathered.goes_with(&About { serial: 2, round: 2, defence: masked, samples: 3, ..ABOUT }));
        for other in [
            About { epoch: 2, ..ABOUT },
            About { gathering: 2, ..ABOUT },
            About { client: ClientId(2), ..ABOUT },
            About { rule: Rule::FED_AVG, ..ABOUT },
        ] {
            assert!(!gathered.goes_with(&other), "{other:?}");
        }
        assert!(gathered.is_of(ClientId(1)) && !gathered.is_of(ClientId(2)));
    }

    #[test]
    fn only_these_rounds_count_as_solved() {
        let config = VitConfig::from(VitPreset::Pico);
        let mut gathered = Gathered::new(&ABOUT, &config);
        gathered.solved(&Arc::new(AccumulatedRounds::new(&config)));
        assert!(!gathered.is_solved());
        let own = Arc::clone(&gathered.rounds);
        gathered.solved(&own);
        assert!(gathered.is_solved());
    }
}
