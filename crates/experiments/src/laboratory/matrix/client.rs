//! The client whose updates are attacked, and what the relay holds of it.

use std::sync::Arc;

use unmask_attack::{Attack, AttackKind, Evidence, Source, Tensors};
use unmask_core::{Defence, EncryptionStart, InitOptions, Rule, initial_weights};
use unmask_defence::{Cipher, Means, PlainUpdate, Protect, ProtectedUpdate, RoomKey};
use unmask_model::Vit;

use super::{MatrixError, Settings, plan::Group};
use crate::laboratory::{Needs, Observation, Wanted};

/// Plays rounds of one client with a relay that gives it a model and steps by its update alone.
pub(super) struct Client<'a> {
    vit: &'a Vit,
    settings: &'a Settings,
}

impl<'a> Client<'a> {
    pub(super) fn new(vit: &'a Vit, settings: &'a Settings) -> Self {
        Self { vit, settings }
    }

    /// Plays all rounds with one batch under one defence. Of the first, the relay keeps what `needs` names; of later
    /// ones what several rounds together are good for.
    pub(super) fn observe(&self, defence: Defence, group: &Group, needs: &Needs) -> Result<Observation, MatrixError> {
        let (config, settings) = (self.vit.config(), self.settings);
        let plain = initial_weights(config, settings.seed, InitOptions::default());
        let cipher = match defence {
            Defence::Encrypted { start } => Some(Arc::new(self.cipher(start)?)),
            _ => None,
        };
        // The weights as the relay holds them: cipher text in an encrypted room.
        let mut held = plain.clone();
        if let Some(cipher) = &cipher {
            cipher.encrypt(&mut held)?;
        }
        let plain_start = match defence {
            Defence::Encrypted { start: EncryptionStart::Plain } => {
                let names = self.names(&needs.weights);
                Some(Tensors::from_flat(Source::Weights, config, &plain, &names)?)
            }
            _ => None,
        };
        let embeddings = Attack::aware(AttackKind::Embedding);
        let mut rounds = Vec::new();
        for round in 0..settings.rounds {
            let update = self.update(defence, group, &held, cipher.as_deref(), round)?;
            let (weights, gradients) = if round == 0 {
                (self.names(&needs.weights), self.names(&needs.gradients))
            } else {
                (embeddings.weights().to_vec(), embeddings.gradients().to_vec())
            };
            rounds.push(Evidence {
                weights: Tensors::from_flat(Source::Weights, config, &held, &weights)?,
                gradients: self.gradients(&held, &update, &gradients)?,
            });
            if round + 1 < settings.rounds {
                self.step(&mut held, &update)?;
            }
        }
        Ok(Observation {
            spec: self.vit.spec(),
            rounds,
            batch: group.labels.len(),
            labels: None,
            is_encrypted: defence.is_encrypted(),
            plain_start,
            key: cipher,
        })
    }

    fn names<'n>(&self, wanted: &'n Wanted) -> Vec<&'n str> {
        wanted.required.iter().chain(&wanted.optional).map(String::as_str).collect()
    }

    /// The room's key, from a passphrase that nobody guesses.
    fn cipher(&self, start: EncryptionStart) -> Result<Cipher, MatrixError> {
        let secret = self.settings.seed_of(&["passphrase"]).0;
        let passphrase: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut salt = [0; 16];
        salt.copy_from_slice(&self.settings.seed_of(&["salt"]).0[..16]);
        Ok(Cipher::new(&RoomKey::derive(&passphrase, &salt, start)?, self.vit.layout())?)
    }

    /// What the client computes at the weights it was sent, protected.
    fn update(
        &self,
        defence: Defence,
        group: &Group,
        held: &[f32],
        cipher: Option<&Cipher>,
        round: usize,
    ) -> Result<ProtectedUpdate, MatrixError> {
        let mut weights = held.to_vec();
        if let Some(cipher) = cipher {
            cipher.decrypt(&mut weights)?;
        }
        let Group { chw, labels, name, .. } = group;
        let (values, reference) = match self.settings.rule {
            Rule::FedSgd => (
                self.vit.loss_and_gradient_blocking(&weights, chw, labels).map_err(MatrixError::Client)?.gradient,
                None,
            ),
            Rule::FedAvg { epochs, rate } => {
                let trained = self.vit.train_locally_blocking(&weights, chw, labels, labels.len(), epochs, rate);
                let trained = trained.map_err(MatrixError::Client)?;
                (trained.weights, Some(weights.as_slice()))
            }
        };
        let seed = self.settings.seed_of(&["protect", &defence.to_string(), name, &round.to_string()]);
        Ok(defence.protect(self.vit.layout(), PlainUpdate { values, reference }, Means { seed, cipher })?)
    }

    /// The update as a gradient. Under FedAvg that is w - W_n: one local step makes it the gradient up to the local rate, and
    /// no attack minds the scale.
    fn gradients(&self, held: &[f32], update: &ProtectedUpdate, names: &[&str]) -> Result<Tensors, MatrixError> {
        let layout = self.vit.layout();
        let sent = match self.settings.rule {
            Rule::FedSgd => update.expand(layout)?,
            Rule::FedAvg { .. } => {
                let local = update.expand_over(layout, held.to_vec())?;
                held.iter().zip(local).map(|(held, local)| held - local).collect()
            }
        };
        let config = self.vit.config();
        Ok(match update.mask(layout) {
            Some(mask) => {
                let kept: Vec<bool> = mask.entries().collect();
                Tensors::from_flat_kept(Source::Gradients, config, &sent, &kept, names)?
            }
            None => Tensors::from_flat(Source::Gradients, config, &sent, names)?,
        })
    }

    /// The server's side of the round: w - rate theta (FLRSP Eqs. 1 and 2), or the client's weights where it sent them
    /// (Eqs. 3 and 4). With one client, what was dropped stays as it was.
    fn step(&self, held: &mut Vec<f32>, update: &ProtectedUpdate) -> Result<(), MatrixError> {
        let layout = self.vit.layout();
        match self.settings.rule {
            Rule::FedSgd => update.checked(layout)?.accumulate(-self.settings.rate, held),
            Rule::FedAvg { .. } => *held = update.expand_over(layout, std::mem::take(held))?,
        }
        Ok(())
    }
}
