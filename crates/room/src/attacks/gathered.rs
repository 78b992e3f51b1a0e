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
