//! The attacked client, and what the relay knows about it.

use std::sync::Arc;

use unmask_attack::{
    AccumulatedRounds, AttackError, Encryption, KnownStart, Needs, Observation, Received, RecoveredKey, TensorSource,
    Tensors, UpdateScale, WholeUpdate, embeddings_layout,
};
use unmask_client::LocalTask;
use unmask_core::{AttackMethod, Defence, EncryptionStart, ModelState, Rule, VitConfig};
use unmask_defence::{CheckedUpdate, Cipher, ProtectedUpdate, RoomKey};
use unmask_model::{Network, block_on};

use super::{
    ExperimentError, MatrixSettings,
    plan::{PictureBatch, seed_of},
};

/// Plays rounds between one client and a relay that updates the model only from this client.
pub(super) struct AttackedClient<'a> {
    pub(super) network: &'a Network,
    pub(super) settings: &'a MatrixSettings,
    /// Initial weights of the run; the model's own initial weights if absent.
    pub(super) start: Option<&'a ModelState>,
    /// Seed of weights, masks, noise and keys.
    pub(super) seed: u64,
}

impl AttackedClient<'_> {
    /// Plays a round with one batch under one defence, or all rounds if `needs` asks for several. Keeps what `needs`
    /// names of the first round, and what the attack `rounds` needs of later ones.
    pub(super) fn observe(
        &self,
        defence: Defence,
        batch: &PictureBatch,
        needs: &Needs,
    ) -> Result<Observation, ExperimentError> {
        let Self { settings, network, start, seed } = self;
        let plain = start.cloned().unwrap_or_else(|| settings.model.initial(*seed));
        let key = match defence {
            Defence::Encrypted { start } => Some(self.key(start)?),
            _ => None,
        };
        let cipher = key.as_ref().map(|key| Cipher::new(key, network.layout())).transpose()?;
        // The model as the relay holds it: cipher text in an encrypted room.
        let mut held = plain.clone();
        if let Some(cipher) = &cipher {
            cipher.encrypt(&mut held.weights)?;
        }
        let encryption = match (&key, settings.model.vit()) {
            (Some(key), Some(config)) => Some(encryption(defence, key, &config, &plain.weights, &held.weights)?),
            _ => None,
        };
        let later = Needs::of(AttackMethod::Rounds, settings.model).unwrap_or_default();
        let last = if needs.rounds { settings.rounds - 1 } else { 0 };
        let (mut rounds, mut whole) = (Vec::new(), None);
        for round in 0..=last {
            let (update, statistics) = self.update(defence, batch, &held, cipher.as_ref(), round)?;
            let checked = update.checked(network.layout())?;
            let received = Received {
                model: settings.model.into(),
                weights: &held.weights,
                values: checked.values(),
                words: checked.words(),
                scale: UpdateScale::of(settings.rule, 1, 1),
            };
            rounds.push(received.evidence(if round == 0 { needs } else { &later })?);
            if round == 0 {
                let (architecture, state) = (settings.model, held.clone());
                let (gradient, kept) = received.gradient(network.layout().len());
                whole = Some(WholeUpdate { architecture, state, gradient, kept, is_training: true });
            }
            if round < last {
                self.step(&mut held.weights, &checked);
                held.statistics = statistics;
            }
        }
        let gathered = AccumulatedRounds::gather(&rounds);
        let first = rounds.into_iter().next().ok_or(AttackError::NoRounds);
        let mut observation = Observation::new(first);
        observation.batch = batch.truths.len();
        observation.local_steps = self.local_steps();
        observation.whole = whole.map(Arc::new);
        observation.rounds = gathered.map(Arc::new);
        observation.encryption = encryption;
        Ok(observation)
    }

    /// The room's key, from a passphrase that cannot be guessed.
    fn key(&self, start: EncryptionStart) -> Result<RoomKey, ExperimentError> {
        let secret = seed_of(self.seed, &["passphrase"]).0;
        let passphrase: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut salt = [0; 16];
        salt.copy_from_slice(&seed_of(self.seed, &["salt"]).0[..16]);
        Ok(RoomKey::derive(&passphrase, &salt, start)?)
    }

    /// The client's protected update for the model it was sent, and the running statistics.
    fn update(
        &self,
        defence: Defence,
        batch: &PictureBatch,
        held: &ModelState,
        cipher: Option<&Cipher>,
        round: usize,
    ) -> Result<(ProtectedUpdate, Vec<f32>), ExperimentError> {
        let mut state = held.clone();
        if let Some(cipher) = cipher {
            cipher.decrypt(&mut state.weights)?;
        }
        let task = LocalTask {
            layout: self.network.layout(),
            state: &state,
            rule: self.settings.rule,
            batch: batch.truths.len(),
            defence,
            cipher,
        };
        let trained = block_on(task.train(self.network, &batch.batch)).map_err(ExperimentError::Client)?;
        let seed = seed_of(self.seed, &["protect", &defence.to_string(), &batch.name, &round.to_string()]);
        Ok((task.protect(trained.values, seed)?, trained.statistics))
    }

    /// All pictures of a client are in one batch.
    fn local_steps(&self) -> u64 {
        self.settings.rule.local_steps(1, 1)
    }

    /// The server's side of the round: w - rate theta (FLRSP Eqs. 1 and 2), or the client's weights under FedAvg (Eqs.
    /// 3 and 4). With one client, dropped entries keep their values.
    fn step(&self, held: &mut Vec<f32>, update: &CheckedUpdate<'_>) {
        match self.settings.rule {
            Rule::FedSgd => update.accumulate(-self.settings.rate, held),
            Rule::FedAvg { .. } => *held = update.expand_over(std::mem::take(held)),
        }
    }
}

/// What the relay may learn about an encrypted room's key: the plain and the encrypted form of a model that it created,
/// and the key itself from a colluding client.
fn encryption(
    defence: Defence,
    key: &RoomKey,
    config: &VitConfig,
    plain: &[f32],
    held: &[f32],
) -> Result<Encryption, ExperimentError> {
    let embeddings = |weights| Tensors::from_flat(TensorSource::Weights, config, weights, None, &RecoveredKey::WEIGHTS);
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

#[cfg(test)]
mod tests {
    use unmask_model::device::OpenDevice;

    use super::*;
    use crate::matrix::plan::tests::{plan, settings};

    fn observed(rule: &str, defence: &str) -> (Vec<f32>, Option<Vec<bool>>) {
        let settings = MatrixSettings { rule: rule.parse().unwrap(), ..settings("embedding", defence) };
        let plan = plan(&settings, &["a"]).unwrap();
        let network = Network::new(settings.model, OpenDevice::cpu().device()).unwrap();
        let client = AttackedClient { network: &network, settings: &settings, start: None, seed: 1 };
        let needs = Needs::of(AttackMethod::Embedding, settings.model).unwrap();
        let observation = client.observe(settings.defences[0], &plan.batches[0], &needs).unwrap();
        let whole = observation.whole.unwrap();
        (whole.gradient.clone(), whole.kept.clone())
    }

    /// From a difference of weights, attacks receive a gradient of the usual scale for any rate and number of steps.
    #[test]
    fn a_difference_of_weights_is_scaled_by_rate_and_steps() {
        let size = |gradient: &[f32]| gradient.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let (gradient, _) = observed("fedsgd", "none");
        for rule in ["fedavg:epochs=1,rate=0.01", "fedavg:epochs=1,rate=0.001", "fedavg:epochs=4,rate=0.0001"] {
            let (mean, _) = observed(rule, "none");
            let apart: Vec<f32> = mean.iter().zip(&gradient).map(|(mean, gradient)| mean - gradient).collect();
            let share = size(&apart) / size(&gradient);
            assert!(share < 0.1, "{rule}: the mean gradient is {share} of its size away from the first");
        }
        let (mean, kept) = observed("fedavg:epochs=1,rate=0.01", "random-binary:0.5");
        let kept = kept.unwrap();
        assert!(kept.contains(&false) && kept.contains(&true));
        let dropped = mean.iter().zip(&kept).filter(|(_, kept)| !**kept);
        assert!(dropped.clone().count() > 0 && dropped.into_iter().all(|(value, _)| *value == 0.0));
    }
}
