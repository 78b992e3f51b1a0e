//! Has a client encrypt the model before the first encrypted round.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_core::{ClientId, ClientState, EncryptionStart, KeyCheck, ModelState, ParamLayout, UpdateForm};
use unmask_defence::ProtectedUpdate;

use super::{Effect, Phase, Refusal, Room};

/// The encryption of a room's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// How the encrypted model started.
    pub start: EncryptionStart,
    /// The client that encrypted the model.
    pub by: ClientId,
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Distinguishes the room's key from others.
    pub check: KeyCheck,
}

/// What the room keeps of encryption between rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Encryption {
    seal: Option<Seal>,
    /// Salt for the next request.
    salt: Option<[u8; 16]>,
    /// The client last asked to encrypt a model.
    asked: Option<ClientId>,
}

/// A client is encrypting the model.
#[derive(Debug, Clone)]
pub(super) struct Sealing {
    client: ClientId,
    start: EncryptionStart,
    salt: [u8; 16],
}

impl Encryption {
    pub(super) fn resumed(seal: Option<Seal>, salt: Option<[u8; 16]>, asked: Option<ClientId>) -> Self {
        Self { seal, salt, asked }
    }

    pub(super) fn seal(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    pub(super) fn salt(&self) -> Option<[u8; 16]> {
        self.salt
    }

    pub(super) fn asked(&self) -> Option<ClientId> {
        self.asked
    }

    pub(super) fn give_salt(&mut self, salt: [u8; 16]) {
        self.salt = Some(salt);
    }

    /// The model is a new one, which nobody has encrypted.
    pub(super) fn forget_seal(&mut self) {
        self.seal = None;
    }
}

impl Room {
    pub(super) fn is_sealing(&self, client: ClientId) -> bool {
        matches!(&self.phase, Phase::Sealing(sealing) if sealing.client == client)
    }

    /// How the model must be encrypted before the next round, if at all.
    pub(super) fn seal_to_make(&self) -> Option<EncryptionStart> {
        self.settings.encryption().filter(|_| self.seal().is_none())
    }

    /// Asks the next free client. Clients take turns, so that one that fails does not block the others.
    pub(super) fn begin_sealing(&mut self, start: EncryptionStart) -> Vec<Effect> {
        // Each salt serves one request. With a salt from a plain start, a keyed start would encrypt its weights with a
        // key that the relay may know.
        let Some(salt) = self.encryption.salt.take() else { return vec![Effect::NeedSalt] };
        let next = self.members.free().find(|client| Some(*client) > self.encryption.asked);
        let Some(client) = next.or_else(|| self.members.free().next()) else { return Vec::new() };
        self.encryption.asked = Some(client);
        self.members.set(client, ClientState::Training);
        self.phase = Phase::Sealing(Sealing { client, start, salt });
        let model = (start == EncryptionStart::Plain).then(|| Arc::clone(self.model()));
        let (policy, architecture) = (self.policy, self.model().architecture);
        vec![Effect::Seal { client, policy, salt, architecture, model }, Effect::SetDeadline { round: 0, policy }]
    }

    /// Accepts or refuses the encrypted model.
    pub(super) fn sealed(&mut self, client: ClientId, policy: u32, check: KeyCheck, weights: Vec<f32>) -> Vec<Effect> {
        let asked = match &self.phase {
            Phase::Sealing(sealing) if sealing.client == client => Some((sealing.start, sealing.salt)),
            _ => None,
        };
        let Some((start, salt)) = asked else {
            // This may answer an abandoned request; the client is free again.
            self.free_if_answer(client, 0, policy);
            let mut effects = vec![Effect::Refused { client, refusal: Refusal::SealNotAsked }];
            effects.extend(self.advance());
            return effects;
        };
        self.members.free_after_answer(client);
        let weights = match self.check_sealed(policy, start, check, weights) {
            Ok(weights) => weights,
            Err(refusal) => {
                let mut effects = vec![Effect::Refused { client, refusal }];
                effects.extend(self.give_up_sealing());
                return effects;
            }
        };
        self.phase = Phase::Idle;
        self.encryption.seal = Some(Seal { start, by: client, salt, check });
        self.learner.set_state(ModelState::from_weights(weights));
        let mut effects = vec![Effect::SealTaken(client)];
        effects.extend(self.begin());
        effects
    }

    fn check_sealed(
        &self,
        policy: u32,
        start: EncryptionStart,
        check: KeyCheck,
        values: Vec<f32>,
    ) -> Result<Vec<f32>, Refusal> {
        if policy != self.policy {
            return Err(Refusal::Policy { update: policy, current: self.policy });
        }
        let sealed = ProtectedUpdate { form: UpdateForm::Encrypted { check }, values };
        sealed.check(self.learner.layout())?;
        if start == EncryptionStart::Plain {
            compare(self.learner.layout(), &self.model().state.weights, &sealed.values)?;
        }
        Ok(sealed.values)
    }

    /// The client failed; another one is asked after a pause.
    pub(super) fn give_up_sealing(&mut self) -> Vec<Effect> {
        self.phase = Phase::Resting;
        vec![Effect::Rest]
    }
}

/// Checks that only the patch embedding's weight and the position embedding changed, as encryption does. A relay with
/// the plain model can check that much, but not whether the key was right.
fn compare(layout: &ParamLayout, plain: &[f32], encrypted: &[f32]) -> Result<(), Refusal> {
    for param in layout.iter() {
        let is_same = plain[param.range.clone()]
            .iter()
            .zip(&encrypted[param.range.clone()])
            .all(|(plain, encrypted)| plain.to_bits() == encrypted.to_bits());
        match param.name.as_str() {
            "patch_embed.proj.weight" if is_same => return Err(Refusal::SealPlain),
            "patch_embed.proj.weight" | "pos_embed" => {}
            _ if is_same => {}
            name => return Err(Refusal::SealAltered(name.to_owned())),
        }
    }
    Ok(())
}
