//! Tasks for clients: train for a round, or encrypt the room's model.

use std::sync::Arc;

use unmask_core::{Architecture, RoundSettings};
use unmask_federation::GlobalModel;
use unmask_wire::{EncryptionPlan, PlanHeader, RelayMessage, ServerPlan, SumPlan};

use crate::outbox::OutboxMessage;

/// A task without its weights. Sending it again uses the room's current weights, so that between rounds only the room
/// holds a model.
#[derive(Debug)]
pub(super) struct Task {
    header: Arc<RelayMessage>,
    has_weights: bool,
}

impl Task {
    pub(super) fn train(
        (round, policy, least): (u32, u32, u32),
        nonce: [u8; 16],
        settings: RoundSettings,
        (encryption, sum): (Option<EncryptionPlan>, Option<SumPlan>),
        architecture: Architecture,
        server: ServerPlan,
    ) -> Self {
        let header = PlanHeader {
            round,
            policy,
            model: architecture.into(),
            defence: settings.defence(),
            rule: settings.rule(),
            batch: settings.batch(),
            pictures: settings.pictures(),
            encryption,
            sum,
            nonce,
            least,
            server,
        };
        Self { header: Arc::new(RelayMessage::Plan(header)), has_weights: true }
    }

    /// The relay's half of the masks' seeds.
    pub(super) fn nonce(&self) -> Option<[u8; 16]> {
        match self.header.as_ref() {
            RelayMessage::Plan(plan) => Some(plan.nonce),
            _ => None,
        }
    }

    /// Encrypt the model; without weights, make one first.
    pub(super) fn seal(policy: u32, salt: [u8; 16], architecture: Architecture, has_weights: bool) -> Self {
        let header = RelayMessage::Seal { policy, model: architecture.into(), salt };
        Self { header: Arc::new(header), has_weights }
    }

    /// The message, with the weights of `model` if the task needs them.
    pub(super) fn message(&self, model: &Arc<GlobalModel>) -> Option<OutboxMessage> {
        if self.has_weights {
            Some(OutboxMessage::Weights { header: Arc::clone(&self.header), model: Arc::clone(model) })
        } else {
            OutboxMessage::encode(&self.header, &[])
        }
    }
}
