//! The checks of an update, which all happen once, when it arrives.

use unmask_core::{ClientId, ClientState, ParamGroup, ParamLayout, Rule, TrainingPictures, UpdateForm};
use unmask_defence::{CheckedUpdate, FROZEN_SEED};

use super::{Phase, ReceivedUpdate, Refusal, Room};
use crate::rules::Weighted;

/// An update that passed all checks, with its mask drawn. It can be read until [`Event::Checked`](super::Event::Checked)
/// hands it back to its room.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub(super) client: ClientId,
    pub(super) round: u32,
    pub(super) policy: u32,
    pub(super) loss: f32,
    samples: u32,
    /// Samples that count, at most one batch: a client's own folder may hold more pictures.
    pub(super) counted: u32,
    pub(super) statistics: Vec<f32>,
    pub(super) update: Weighted<'static>,
}

impl Accepted {
    pub fn client(&self) -> ClientId {
        self.client
    }

    pub fn round(&self) -> u32 {
        self.round
    }

    /// Number of samples, according to the client.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    pub fn update(&self) -> &CheckedUpdate<'static> {
        &self.update.update
    }

    /// The update as one that the caller refuses.
    pub fn refused(self, refusal: Refusal) -> Refused {
        let Self { client, round, policy, update, .. } = self;
        Refused { client, round, policy, refusal, values: update.update.into_values() }
    }
}

/// An update that failed a check.
#[derive(Debug, Clone)]
pub struct Refused {
    pub(super) client: ClientId,
    pub(super) round: u32,
    pub(super) policy: u32,
    pub(super) refusal: Refusal,
    /// The update's values, for their memory.
    pub(super) values: Vec<f32>,
}

impl Room {
    /// Checks an update without changing anything. The result goes back into the room as
    /// [`Event::Checked`](super::Event::Checked), before any other event.
    ///
    /// # Errors
    /// The update with the reason for its refusal.
    pub fn accept(&self, received: ReceivedUpdate) -> Result<Accepted, Refused> {
        let ReceivedUpdate { client, round, policy, loss, samples, update, statistics } = received;
        let refused = |refusal, values| Refused { client, round, policy, refusal, values };
        if let Err(refusal) = self.check_header(client, round, policy, loss, samples, update.form) {
            return Err(refused(refusal, update.values));
        }
        if let Err(refusal) = self.check_fixed(&update.values) {
            return Err(refused(refusal, update.values));
        }
        let counted = samples.min(self.most_samples(client));
        let weight = if self.settings.rule().is_fedavg() { counted } else { 1 };
        let aggregate = self.learner.aggregate();
        if let Err(refusal) = aggregate.check_weight(weight) {
            return Err(refused(refusal, update.values));
        }
        let update = match update.into_checked(self.learner.layout()) {
            Ok(update) => update,
            Err((error, values)) => return Err(refused(error.into(), values)),
        };
        // If values were missing, the first statistics might have been taken for values: so these come later.
        let norm = match self.model().architecture.check_statistics(&statistics) {
            Ok(()) => aggregate.check_norm(&update, self.round_model().reference(self.settings.rule())),
            Err(error) => Err(error.into()),
        };
        match norm {
            Ok(norm) => {
                let update = Weighted { update, weight, norm };
                Ok(Accepted { client, round, policy, loss, samples, counted, statistics, update })
            }
            Err(refusal) => Err(refused(refusal, update.into_values())),
        }
    }

    /// The checks that need no values.
    fn check_header(
        &self,
        client: ClientId,
        round: u32,
        policy: u32,
        loss: f32,
        samples: u32,
        form: UpdateForm,
    ) -> Result<(), Refusal> {
        self.check_turn(client, round, policy)?;
        if self.settings.aggregation().secure_sum().is_some() {
            return Err(Refusal::NotSummed);
        }
        if !loss.is_finite() {
            return Err(Refusal::Loss(loss.to_string()));
        }
        if samples == 0 {
            return Err(Refusal::Samples(samples));
        }
        self.learner.aggregate().check_form(form)?;
        self.check_key(form)
    }

    /// Whether the running round waits for this client.
    pub(super) fn check_turn(&self, client: ClientId, round: u32, policy: u32) -> Result<(), Refusal> {
        let Phase::Training(_) = self.phase else {
            return Err(Refusal::Stale { update: round, current: None });
        };
        if policy != self.policy {
            return Err(Refusal::Policy { update: policy, current: self.policy });
        }
        if round != self.number {
            return Err(Refusal::Stale { update: round, current: Some(self.number) });
        }
        match self.members.state(client) {
            ClientState::Training => Ok(()),
            ClientState::Sent => Err(Refusal::Twice { round }),
            _ => Err(Refusal::NotInCohort),
        }
    }

    /// Whether the mask's seed, or the key, may be used.
    pub(super) fn check_key(&self, form: UpdateForm) -> Result<(), Refusal> {
        let defence = self.settings.defence();
        match form {
            UpdateForm::Masked { seed, .. } if defence.has_common_mask() && seed != FROZEN_SEED => {
                Err(Refusal::SeedNotCommon(defence))
            }
            UpdateForm::Masked { seed, .. } if !defence.has_common_mask() && self.seeds.contains(&seed) => {
                Err(Refusal::SeedReused)
            }
            UpdateForm::Encrypted { check } if self.seal().is_none_or(|seal| seal.check != check) => {
                Err(Refusal::OtherKey)
            }
            _ => Ok(()),
        }
    }

    /// Whether the groups that the defence fixes came back as they were sent.
    fn check_fixed(&self, values: &[f32]) -> Result<(), Refusal> {
        let (defence, reference) = (self.settings.defence(), self.round_model().reference(self.settings.rule()));
        let mut fixed = ParamGroup::ALL.into_iter().filter(|group| defence.fixes(*group));
        match fixed.find(|group| !is_kept(self.learner.layout(), *group, values, reference)) {
            Some(group) => Err(Refusal::OtherDefence { sent: format!("one with a {group} of its own"), defence }),
            None => Ok(()),
        }
    }

    /// Most samples that this client's update may count for: the pictures it was given, or one batch of its own.
    pub(super) fn most_samples(&self, client: ClientId) -> u32 {
        let batch = u32::from(self.settings.batch());
        match (self.settings.pictures(), self.settings.rule()) {
            (TrainingPictures::Shared { .. }, Rule::FedAvg { .. }) => {
                self.members.given(client).unwrap_or(batch).max(1)
            }
            _ => batch,
        }
    }
}

/// Whether the group's values equal those of `reference` bit for bit, or are zero if there is no reference.
fn is_kept(layout: &ParamLayout, group: ParamGroup, values: &[f32], reference: Option<&[f32]>) -> bool {
    layout.group_ranges(group).all(|range| {
        let values = values.get(range.clone()).unwrap_or_default();
        match reference.and_then(|reference| reference.get(range)) {
            Some(reference) => values.iter().zip(reference).all(|(value, kept)| value.to_bits() == kept.to_bits()),
            None => values.iter().all(|value| *value == 0.0),
        }
    })
}
