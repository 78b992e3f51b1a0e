//! A round in which the server learns only the sum of the updates.

use unmask_core::{Defence, GaussianNoise};
use unmask_defence::clip_factor;
use unmask_federation::Quorum;
use unmask_secagg::{
    FixedPoint, FixedPointError, GroupKey, SecureSumSettings, SumError, Terms, hash_of_weights, sum_in_one_process,
};

use crate::seeds::Seeds;

/// Standard deviations of noise beyond which a value would be refused: about once in 10^23 values.
const NOISE_IN_BOUND: f64 = 10.0;

/// Why the updates of a round could not be added up.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SecureRoundError {
    #[error(transparent)]
    FixedPoint(#[from] FixedPointError),
    #[error(transparent)]
    Sum(#[from] SumError),
}

/// How clients prepare their updates for the sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecureRound {
    settings: SecureSumSettings,
    defence: Defence,
    clients: usize,
}

impl SecureRound {
    pub(crate) fn new(settings: SecureSumSettings, defence: Defence, clients: usize) -> Self {
        Self { settings, defence, clients }
    }

    /// The defence of each client. Of Gaussian noise, each of n clients adds a standard deviation of 1 / sqrt(n), so that the
    /// sum carries the whole.
    pub(crate) fn defence(&self) -> Defence {
        let shared = |noise: &GaussianNoise| Defence::Gaussian(noise.shared_by(self.clients));
        self.defence.noise().map_or(self.defence, shared)
    }

    /// The largest value of one client. Rounding to f32 may lengthen a clipped update a little.
    fn bound(&self) -> f64 {
        const ROUNDING: f64 = 1e-6;
        let length = |clip: f64| clip * (1.0 + ROUNDING);
        match self.defence().noise() {
            Some(noise) => length(noise.sensitivity()) + NOISE_IN_BOUND * noise.deviation(),
            None => length(self.settings.clip.unwrap_or(1.0)),
        }
    }

    /// The mean of the clients' `updates`, `[P]` each: gradients, or weights whose change from `reference` `[P]` is added
    /// up. Every client counts alike. `weights` `[P]` are those that the clients got.
    ///
    /// # Errors
    /// A value is not finite, or the sum is beyond what its bound allows.
    pub(crate) fn mean(
        &self,
        updates: Vec<Vec<f32>>,
        reference: Option<&[f32]>,
        weights: &[f32],
        (seeds, round): (Seeds, u32),
    ) -> Result<Vec<f32>, SecureRoundError> {
        let fixed = FixedPoint::new(self.bound(), self.clients)?;
        let encoded = updates.into_iter().map(|mut values| {
            if let Some(reference) = reference {
                values.iter_mut().zip(reference).for_each(|(value, reference)| *value -= reference);
            }
            if let Some(clip) = self.settings.clip {
                let factor = clip_factor(&values, clip);
                values.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
            }
            fixed.encode(&values)
        });
        let encoded = encoded.collect::<Result<Vec<_>, _>>()?;
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&seeds.bytes("secure sum", round.into(), 0)[..16]);
        let terms = Terms {
            nonce,
            round,
            policy: 1,
            weights: hash_of_weights(weights),
            values: u32::try_from(weights.len()).unwrap_or(u32::MAX),
            threshold: self.settings.threshold,
            people: Quorum::HIDES,
        };
        let group = GroupKey::new(seeds.bytes("class key", 0, 0));
        let sum = sum_in_one_process(terms, &group, encoded, &mut seeds.rng("secure sum", round.into(), 1))?;
        let mut mean = fixed.decode(&sum.values, sum.clients.len())?;
        let count = sum.clients.len() as f32;
        mean.iter_mut().for_each(|value| *value /= count);
        if let Some(reference) = reference {
            mean.iter_mut().zip(reference).for_each(|(value, reference)| *value += reference);
        }
        Ok(mean)
    }
}
