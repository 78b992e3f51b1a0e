//! The client whose updates are attacked, and what the relay holds of it.

use std::sync::Arc;

use unmask_attack::{
    Accumulated, Attack, AttackKind, CannotAttack, Encryption, Evidence, KnownStart, Needs, Observation, RecoveredKey,
    Source, Tensors, WholeUpdate, embeddings_layout,
};
use unmask_client::{Batch, LocalTask};
use unmask_core::{Defence, EncryptionStart, ModelState, Rule};
use unmask_defence::{Cipher, ProtectedUpdate, RoomKey};
use unmask_model::{Network, block_on};

use super::{ExperimentError, Settings, plan::Group};

/// Plays rounds of one client with a relay that gives it a model and steps by its update alone.
pub(super) struct Client<'a> {
    network: &'a Network,
    settings: &'a Settings,
}

impl<'a> Client<'a> {
    pub(super) fn new(network: &'a Network, settings: &'a Settings) -> Self {
        Self { network, settings }
    }

    /// Plays all rounds with one batch under one defence. Of the first, the relay keeps what `needs` names; of later
    /// ones what several rounds together are good for.
    pub(super) fn observe(
        &self,
        defence: Defence,
        group: &Group,
        needs: &Needs,
    ) -> Result<Observation, ExperimentError> {
        let (config, settings) = (&self.settings.spec().config(), self.settings);
        let plain = settings.architecture().initial(settings.seed).weights;
        let key = match defence {
            Defence::Encrypted { start } => Some(self.key(start)?),
            _ => None,
        };
        let cipher = key.as_ref().map(|key| Cipher::new(key, self.network.layout())).transpose()?;
        // The weights as the relay holds them: cipher text in an encrypted room.
        let mut held = plain.clone();
        if let Some(cipher) = &cipher {
            cipher.encrypt(&mut held)?;
        }
        let encryption = key.as_ref().map(|key| self.encryption(defence, key, &plain, &held)).transpose()?;
        let embeddings = Attack::aware(AttackKind::Embedding);
        let (mut rounds, mut whole) = (Vec::new(), None);
        for round in 0..settings.rounds {
            let update = self.update(defence, group, &held, cipher.as_ref(), round)?;
            let (gradient, kept) = self.gradient(&held, &update)?;
            let (weights, gradients) = if round == 0 {
                (needs.weights.names(), needs.gradients.names())
            } else {
                (embeddings.weights().to_vec(), embeddings.gradients().to_vec())
            };
            rounds.push(Evidence {
                weights: Tensors::from_flat(Source::Weights, config, &held, &weights)?,
                gradients: match &kept {
                    Some(kept) => Tensors::from_flat_kept(Source::Gradients, config, &gradient, kept, &gradients)?,
                    None => Tensors::from_flat(Source::Gradients, config, &gradient, &gradients)?,
                },
            });
            if round == 0 {
                let state = ModelState::from_weights(held.clone());
                whole = Some(WholeUpdate { architecture: settings.architecture(), state, gradient, kept });
            }
            if round + 1 < settings.rounds {
                self.step(&mut held, &update)?;
            }
        }
        let gathered = Accumulated::gather(&rounds);
        let first = rounds.into_iter().next().ok_or(CannotAttack::NoRounds);
        let mut observation = Observation::new(first);
        observation.batch = group.labels.len();
        observation.whole = whole.map(Arc::new);
        observation.rounds = gathered.map(Arc::new);
        observation.encryption = encryption;
        Ok(observation)
    }

    /// What comes the relay's way of an encrypted room's key: both forms of a model that it made itself, and a client that
    /// gives the key away.
    fn encryption(
        &self,
        defence: Defence,
        key: &RoomKey,
        plain: &[f32],
        held: &[f32],
    ) -> Result<Encryption, ExperimentError> {
        let config = &self.settings.spec().config();
        let embeddings = |weights| Tensors::from_flat(Source::Weights, config, weights, &RecoveredKey::WEIGHTS);
        let known_start = match defence {
            Defence::Encrypted { start: EncryptionStart::Plain } => {
                Some(Arc::new(KnownStart::new(embeddings(plain)?, embeddings(held)?)))
            }
            _ => None,
        };
        let cipher = Cipher::new(key, &embeddings_layout(config))?;
        let decrypt = move |values: &mut [f32]| cipher.decrypt(values).map_err(|error| error.to_string());
        Ok(Encryption { known_start, key: Some(Arc::new(decrypt)) })
    }

    /// The room's key, from a passphrase that nobody guesses.
    fn key(&self, start: EncryptionStart) -> Result<RoomKey, ExperimentError> {
        let secret = self.settings.seed_of(&["passphrase"]).0;
        let passphrase: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut salt = [0; 16];
        salt.copy_from_slice(&self.settings.seed_of(&["salt"]).0[..16]);
        Ok(RoomKey::derive(&passphrase, &salt, start)?)
    }

    /// What the client computes at the weights it was sent, protected.
    fn update(
        &self,
        defence: Defence,
        group: &Group,
        held: &[f32],
        cipher: Option<&Cipher>,
        round: usize,
    ) -> Result<ProtectedUpdate, ExperimentError> {
        let mut state = ModelState::from_weights(held.to_vec());
        if let Some(cipher) = cipher {
            cipher.decrypt(&mut state.weights)?;
        }
        let Group { chw, labels, name, .. } = group;
        let task = LocalTask {
            layout: self.network.layout(),
            state: &state,
            rule: self.settings.rule,
            batch: labels.len(),
            defence,
            cipher,
        };
        let pictures = Batch { images: chw.clone(), labels: labels.clone() };
        let trained = block_on(task.train(self.network, &pictures)).map_err(ExperimentError::Client)?;
        let seed = self.settings.seed_of(&["protect", &defence.to_string(), name, &round.to_string()]);
        Ok(task.protect(trained.values, seed)?)
    }

    /// The update as a gradient, and which of its entries arrived. Under FedAvg that is w - W_n: one local step makes it the
    /// gradient up to the local rate, and no attack minds the scale.
    fn gradient(
        &self,
        held: &[f32],
        update: &ProtectedUpdate,
    ) -> Result<(Vec<f32>, Option<Vec<bool>>), ExperimentError> {
        let layout = self.network.layout();
        let sent = match self.settings.rule {
            Rule::FedSgd => update.expand(layout)?,
            Rule::FedAvg { .. } => {
                let local = update.expand_over(layout, held.to_vec())?;
                held.iter().zip(local).map(|(held, local)| held - local).collect()
            }
        };
        Ok((sent, update.mask(layout).map(|mask| mask.entries().collect())))
    }

    /// The server's side of the round: w - rate theta (FLRSP Eqs. 1 and 2), or the client's weights where it sent them
    /// (Eqs. 3 and 4). With one client, what was dropped stays as it was.
    fn step(&self, held: &mut Vec<f32>, update: &ProtectedUpdate) -> Result<(), ExperimentError> {
        let layout = self.network.layout();
        match self.settings.rule {
            Rule::FedSgd => update.checked(layout)?.accumulate(-self.settings.rate, held),
            Rule::FedAvg { .. } => *held = update.expand_over(layout, std::mem::take(held))?,
        }
        Ok(())
    }
}
