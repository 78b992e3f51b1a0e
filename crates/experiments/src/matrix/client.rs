//! The attacked client, and what the relay knows about it.

use std::sync::Arc;

use unmask_attack::{
    AccumulatedRounds, AttackError, Encryption, KnownStart, Needs, Observation, Received, RecoveredKey, TensorSource,
    Tensors, UpdateScale, WholeUpdate, embeddings_layout,
};
use unmask_client::LocalTask;
use unmask_core::{AttackMethod, Defence, EncryptionStart, ModelState, Rule, ThreatModel, VitConfig};
use unmask_defence::{CheckedUpdate, Cipher, ProtectedUpdate, RoomKey};
use unmask_model::{Network, block_on};

use super::{
    ExperimentError, MatrixSettings,
    dishonest::Sent,
    plan::{PictureBatch, seed_of},
};

/// What arrived, and the number in its batch of a picture that it should show.
pub(super) struct Observed {
    pub(super) observation: Observation,
    pub(super) victim: usize,
}

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
    /// names of the first round, and what the attack `rounds` needs of later ones. A dishonest relay works on a copy of
    /// the model and sends the same weights in every round.
    pub(super) fn observe(
        &self,
        (threat, defence): (ThreatModel, Defence),
        batch: &PictureBatch,
        needs: &Needs,
    ) -> Result<Observed, ExperimentError> {
        let Self { settings, network, start, seed } = self;
        let plain = start.cloned().unwrap_or_else(|| settings.model.initial(*seed));
        let key = match defence {
            Defence::Encrypted { start } => Some(self.key(start)?),
            _ => None,
        };
        let cipher = key.as_ref().map(|key| Cipher::new(key, network.layout())).transpose()?;
        // The model as the relay holds it: cipher text in an encrypted room. Encryption leaves the blocks and the head.
        let mut held = plain.clone();
        if let Some(cipher) = &cipher {
            cipher.encrypt(&mut held.weights)?;
        }
        let encryption = match (&key, settings.model.vit()) {
            (Some(key), Some(config)) => Some(encryption(defence, key, &config, &plain.weights, &held.weights)?),
            _ => None,
        };
        let mut sent = Sent::new(threat, (settings, network, *seed), batch, (&held, &plain))?;
        let diluted = sent.diluted(settings);
        let later = Needs::of(AttackMethod::Rounds, settings.model).unwrap_or_default();
        let last = if needs.rounds { settings.rounds - 1 } else { 0 };
        let (mut rounds, mut whole) = (Vec::new(), None);
        for round in 0..=last {
            let (sum, statistics) = self.sum(defence, batch, &sent, cipher.as_ref(), round)?;
            let means = sum.means(settings.rule, &sent.state.weights, diluted);
            let scale = match UpdateScale::of(settings.rule, 1, 1) {
                UpdateScale::Gradient => UpdateScale::Gradient,
                UpdateScale::Weights { moved } => UpdateScale::Weights { moved: moved / diluted },
            };
            let received = Received {
                model: settings.model.into(),
                weights: &sent.state.weights,
                values: &means,
                words: sum.words(),
                scale,
            };
            rounds.push(received.evidence(if round == 0 { needs } else { &later })?);
            if round == 0 {
                let (architecture, state) = (settings.model, sent.state.clone());
                let (gradient, kept) = received.gradient(network.layout().len());
                whole = Some(WholeUpdate { architecture, state, gradient, kept, is_training: true });
            }
            if round < last && threat.is_honest() {
                self.step(&mut sent.state.weights, &sum);
                sent.state.statistics = statistics;
            }
        }
        let gathered = AccumulatedRounds::gather(&rounds);
        let first = rounds.into_iter().next().ok_or(AttackError::NoRounds);
        let mut observation = Observation::new(first);
        observation.batch = sent.alive.as_ref().map_or(batch.truths.len(), Vec::len);
        observation.labels = sent.class.map(|class| vec![class; observation.batch]);
        observation.local_steps = self.local_steps();
        observation.whole = whole.map(Arc::new);
        observation.rounds = gathered.map(Arc::new);
        observation.encryption = encryption;
        let victim = sent.alive.and_then(|alive| alive.first().copied()).unwrap_or_default();
        Ok(Observed { observation, victim })
    }

    /// The room's key, from a passphrase that cannot be guessed.
    fn key(&self, start: EncryptionStart) -> Result<RoomKey, ExperimentError> {
        let secret = seed_of(self.seed, &["passphrase"]).0;
        let passphrase: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut salt = [0; 16];
        salt.copy_from_slice(&seed_of(self.seed, &["salt"]).0[..16]);
        Ok(RoomKey::derive(&passphrase, &salt, start)?)
    }

    /// The clients' protected updates, added up, and the mean of their running statistics.
    fn sum(
        &self,
        defence: Defence,
        batch: &PictureBatch,
        sent: &Sent,
        cipher: Option<&Cipher>,
        round: usize,
    ) -> Result<(Sum, Vec<f32>), ExperimentError> {
        let layout = self.network.layout();
        let clients = self.settings.sum;
        let involved = sent.involved.iter().filter(|&&is| is).count();
        let zeros = || vec![0; layout.len()];
        let mut sum = Sum { values: vec![0.0; layout.len()], counts: zeros(), silent: zeros(), involved };
        let mut statistics = vec![0.0; sent.state.statistics.len()];
        for client in 0..clients {
            let (update, theirs) = self.update(defence, (batch, client), sent.to(client), cipher, round)?;
            sum.add(&update.checked(layout)?, sent.involved[client]);
            statistics.iter_mut().zip(theirs).for_each(|(mean, value)| *mean += value / clients as f32);
        }
        Ok((sum, statistics))
    }

    /// The protected update of one client for the model it was sent, and the running statistics.
    fn update(
        &self,
        defence: Defence,
        (batch, client): (&PictureBatch, usize),
        held: &ModelState,
        cipher: Option<&Cipher>,
        round: usize,
    ) -> Result<(ProtectedUpdate, Vec<f32>), ExperimentError> {
        let own = batch.of(client, self.settings.batch);
        let mut state = held.clone();
        if let Some(cipher) = cipher {
            cipher.decrypt(&mut state.weights)?;
        }
        let task = LocalTask {
            layout: self.network.layout(),
            state: &state,
            rule: self.settings.rule,
            batch: own.labels.len(),
            defence,
            cipher,
        };
        let trained = block_on(task.train(self.network, &own)).map_err(ExperimentError::Client)?;
        let (defence, round, client) = (defence.to_string(), round.to_string(), client.to_string());
        let purpose = ["protect", &defence, &batch.name, &round, &client];
        // Without its number, a single client draws what it did before there were sums.
        let seed = seed_of(self.seed, if self.settings.sum == 1 { &purpose[..4] } else { &purpose });
        Ok((task.protect(trained.values, trained.samples, seed)?, trained.statistics))
    }

    /// All pictures of a client are in one batch.
    fn local_steps(&self) -> u64 {
        self.settings.rule.local_steps(1, 1)
    }

    /// The server's side of the round: w - rate theta (FLRSP Eqs. 1 and 2), or the client's weights under FedAvg (Eqs.
    /// 3 and 4). With one client, dropped entries keep their values.
    fn step(&self, held: &mut [f32], sum: &Sum) {
        let entries = sum.values.iter().zip(&sum.counts).filter(|(_, count)| **count > 0);
        let weights = held.iter_mut().zip(&sum.counts).filter(|(_, count)| **count > 0).map(|(weight, _)| weight);
        for (weight, (value, count)) in weights.zip(entries) {
            let mean = value / *count as f32;
            match self.settings.rule {
                Rule::FedSgd => *weight -= self.settings.rate * mean,
                Rule::FedAvg { .. } => *weight = mean,
            }
        }
    }
}

/// What arrives of one client's update, or of several that are added up.
struct Sum {
    values: Vec<f32>,
    /// How many involved clients kept each entry.
    counts: Vec<usize>,
    /// How many clients kept each entry whose gradient the relay silenced.
    silent: Vec<usize>,
    involved: usize,
}

impl Sum {
    fn add(&mut self, update: &CheckedUpdate<'_>, is_involved: bool) {
        update.accumulate(1.0, &mut self.values);
        let counts = if is_involved { &mut self.counts } else { &mut self.silent };
        match update.words() {
            None => counts.iter_mut().for_each(|count| *count += 1),
            Some(words) => {
                let kept = words.flat_map(|(word, len)| (0..len).map(move |bit| (word >> bit & 1) as usize));
                counts.iter_mut().zip(kept).for_each(|(count, kept)| *count += kept);
            }
        }
    }

    /// Whether all involved clients kept an entry: only then is its mean that of all pictures.
    fn is_whole(&self, count: &usize) -> bool {
        *count == self.involved
    }

    /// The means over the involved clients of the entries that all of them kept, in layout order. Gradients are also
    /// multiplied by `diluted`. Silenced clients send gradients of zero or, under FedAvg, the weights that they got.
    fn means(&self, rule: Rule, weights: &[f32], diluted: f64) -> Vec<f32> {
        let factor = if rule.is_fedavg() { 1.0 } else { diluted as f32 };
        let silent = |at: usize| if rule.is_fedavg() { self.silent[at] as f32 * weights[at] } else { 0.0 };
        let whole = (0..self.values.len()).filter(|&at| self.is_whole(&self.counts[at]));
        whole.map(|at| (self.values[at] - silent(at)) / self.involved as f32 * factor).collect()
    }

    /// Which entries these are, as [`Received`] reads them; `None` for all.
    fn words(&self) -> Option<impl Iterator<Item = (u64, usize)> + Clone> {
        let word = |counts: &[usize]| {
            let set = counts.iter().enumerate().filter(|(_, count)| self.is_whole(count)).map(|(bit, _)| 1 << bit);
            (set.sum(), counts.len())
        };
        let is_masked = !self.counts.iter().all(|count| self.is_whole(count));
        is_masked.then(|| self.counts.chunks(u64::BITS as usize).map(word))
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
        let observation =
            client.observe((ThreatModel::Honest, settings.defences[0]), &plan.batches[0], &needs).unwrap().observation;
        let whole = observation.whole.unwrap();
        (whole.gradient.clone(), whole.kept.clone())
    }

    /// The sum of one-picture clients is a batch to anybody who sees it.
    #[test]
    fn the_mean_of_single_pictures_is_a_batch() {
        let seen = |batch, sum, defence: &str| {
            let settings = MatrixSettings { batch, sum, ..settings("embedding", defence) };
            let plan = plan(&settings, &["a", "b"]).unwrap();
            let network = Network::new(settings.model, OpenDevice::cpu().device()).unwrap();
            let client = AttackedClient { network: &network, settings: &settings, start: None, seed: 1 };
            let needs = Needs::of(AttackMethod::Embedding, settings.model).unwrap();
            let observation = client
                .observe((ThreatModel::Honest, settings.defences[0]), &plan.batches[0], &needs)
                .unwrap()
                .observation;
            assert_eq!(observation.batch, 2);
            observation.whole.unwrap()
        };
        let (batch, sum) = (seen(2, 1, "none"), seen(1, 2, "none"));
        let apart = batch.gradient.iter().zip(&sum.gradient).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        let size = batch.gradient.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        assert!((apart / size).sqrt() < 1e-5, "{apart} of {size}");
        assert!(sum.kept.is_none());
        // The mean of an entry is that of both pictures only if both masks keep it.
        let masked = seen(1, 2, "random-binary:0.5").kept.clone().unwrap();
        let kept = masked.iter().filter(|kept| **kept).count() as f64 / masked.len() as f64;
        assert!((kept - 0.25).abs() < 0.02, "{kept}");
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
